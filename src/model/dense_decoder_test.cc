#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>

#include "model/model_runner.h"
#include "model/test_checkpoint.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class DenseDecoderTest : public ::testing::Test {
 protected:
  DenseDecoderTest() {
    WriteCheckpoint(dir_, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
  }

  TempDir dir_;
  ThreadPool pool_{2}, one_{1};
  Exec exec_{pool_}, single_{one_};
};

TEST_F(DenseDecoderTest, Info) {
  const auto model = Load(exec_, dir_.path());
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(info.vocab_size, 512);
  EXPECT_EQ(info.num_layers, 6);
  EXPECT_EQ(info.max_positions, 512);
  EXPECT_EQ(info.eos_ids, std::vector<int32_t>{1});
  const int64_t layer = 64 * (4 + 2 + 2) * 32 + 128 * 64 + 3 * 128 * 64 + 2 * 64 + 2 * 32;
  EXPECT_EQ(info.num_parameters, 6 * layer + 512 * 64 + 64);
  EXPECT_EQ(info.ballast_bytes, 0);
  EXPECT_GE(info.weight_bytes, 2 * info.num_parameters);
  EXPECT_LE(info.weight_bytes, 3 * info.num_parameters);
  const std::vector<CacheGroup> groups = model->CacheGroups(DType::kBF16);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].num_layers, 6);
  ASSERT_EQ(groups[0].planes.size(), 2u);
  EXPECT_EQ(groups[0].planes[0].RowBytes(), 2 * 32 * 2);
}

// The same bits whatever the chunks, block size, threads; for every cache type.
TEST_F(DenseDecoderTest, ChunksBlocksAndThreadsDoNotMatter) {
  const auto model = Load(exec_, dir_.path());
  const std::vector<int32_t> tokens = Tokens(83, 1);
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    Runner reference(exec_, *model, kv, 16, {-1, 2, 5});
    const std::vector<Row> whole = reference.Run({{0, 0, tokens}});
    for (const size_t chunk : {1u, 7u, 16u, 64u}) {
      for (const int32_t block_size : {16, 64}) {
        Runner runner(chunk == 7 ? single_ : exec_, *model, kv, block_size, {-1, 2, 5});
        const std::vector<Row> rows = runner.RunChunked(1, tokens, chunk);
        ASSERT_EQ(rows.size(), whole.size());
        for (size_t t = 0; t < rows.size(); ++t) {
          EXPECT_TRUE(rows[t] == whole[t]) << Name(kv) << " chunk " << chunk << " row " << t;
        }
      }
    }
  }
}

// The linear layers of a checkpoint as FP8 with scales in blocks, and the same numbers in float32:
// the sums differ by where the scales are multiplied in.
TEST_F(DenseDecoderTest, ReadsFp8Checkpoints) {
  Json config = TinyQwen3Config();
  config["intermediate_size"] = 160;
  TestTensors narrow = RandomQwen3(config, DType::kF32), wide = narrow;
  for (const auto& [name, tensor] : RandomQwen3(config, DType::kF32)) {
    if (!name.ends_with("_proj.weight")) continue;
    const int64_t n = tensor.shape[0], k = tensor.shape[1];
    const int64_t scale_rows = (n + 127) / 128, scale_cols = (k + 127) / 128;
    const std::string scale_name = name + "_scale_inv";
    const TestTensor scale =
        RandomTensor(scale_name, {scale_rows, scale_cols}, DType::kF32, 0.5f, 1);
    TestTensor elements{DType::kF8E4M3, tensor.shape, std::string(static_cast<size_t>(n * k), 0)};
    for (int64_t i = 0; i < n * k; ++i) {
      float value, block_scale;
      std::memcpy(&value, tensor.bytes.data() + i * 4, 4);
      std::memcpy(&block_scale, scale.bytes.data() + (i / k / 128 * scale_cols + i % k / 128) * 4,
                  4);
      const uint8_t element = F32ToF8E4M3(value);
      elements.bytes[static_cast<size_t>(i)] = static_cast<char>(element);
      value = F8E4M3ToF32(element) * block_scale;
      std::memcpy(wide[name].bytes.data() + i * 4, &value, 4);
    }
    narrow[name] = elements;
    narrow[scale_name] = scale;
  }
  const TempDir wide_dir, narrow_dir;
  WriteCheckpoint(wide_dir, config, wide);
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  WriteCheckpoint(narrow_dir, config, narrow);
  const auto expected = Load(exec_, wide_dir.path()), model = Load(exec_, narrow_dir.path());
  EXPECT_EQ(model->info().num_parameters, expected->info().num_parameters);
  EXPECT_LT(model->info().weight_bytes, expected->info().weight_bytes * 2 / 3);
  const std::vector<int32_t> tokens = Tokens(40, 1);
  Runner a(exec_, *expected, DType::kF32), b(exec_, *model, DType::kF32);
  const std::vector<Row> rows_a = a.Run({{0, 0, tokens}}), rows_b = b.Run({{0, 0, tokens}});
  ASSERT_EQ(rows_a.size(), rows_b.size());
  for (size_t t = 0; t < rows_a.size(); ++t) {
    float largest = 0;
    for (const float logit : rows_a[t].logits) largest = std::max(largest, std::fabs(logit));
    ASSERT_EQ(rows_a[t].logits.size(), rows_b[t].logits.size());
    for (size_t i = 0; i < rows_a[t].logits.size(); ++i) {
      ASSERT_NEAR(rows_a[t].logits[i], rows_b[t].logits[i], 2e-4f * largest) << t << " " << i;
    }
  }
}

// A prefill chunk, a verify run and a decode row in one batch have the bits that each has alone.
TEST_F(DenseDecoderTest, NeighboursDoNotMatter) {
  const auto model = Load(exec_, dir_.path());
  const std::vector<int32_t> a = Tokens(40, 1), b = Tokens(29, 2), c = Tokens(18, 3);
  std::vector<Row> alone[3];
  const std::span<const int32_t> prompts[] = {a, b, c};
  for (SequenceSlot i = 0; i < 3; ++i) {
    Runner runner(exec_, *model);
    alone[i] = runner.Run({{i, 0, prompts[i]}});
  }
  Runner runner(exec_, *model);
  runner.Run(
      {{0, 0, prompts[0].first(11)}, {1, 0, prompts[1].first(22)}, {2, 0, prompts[2].first(17)}});
  const std::vector<Row> mixed = runner.Run({{2, 17, prompts[2].subspan(17)},
                                             {0, 11, prompts[0].subspan(11)},
                                             {1, 22, prompts[1].subspan(22)}});
  size_t at = 0;
  for (const SequenceSlot i : {2, 0, 1}) {
    for (size_t t = i == 2 ? 17 : i == 0 ? 11 : 22; t < prompts[i].size(); ++t, ++at) {
      EXPECT_TRUE(mixed[at] == alone[i][t]) << "sequence " << i << " row " << t;
    }
  }
  EXPECT_EQ(at, mixed.size());
}

// A rejected draft leaves rows behind; what overwrites them must see none of it.
TEST_F(DenseDecoderTest, StaleRowsAreOverwritten) {
  const auto model = Load(exec_, dir_.path());
  const std::vector<int32_t> tokens = Tokens(30, 1), wrong = Tokens(8, 9);
  Runner clean(exec_, *model), dirty(exec_, *model);
  const std::vector<Row> expected = clean.Run({{0, 0, tokens}});
  dirty.Run({{0, 0, std::span(tokens).first(20)}});
  dirty.Run({{0, 20, wrong}});
  const std::vector<Row> rows = dirty.Run({{0, 20, std::span(tokens).subspan(20)}});
  for (size_t t = 0; t < rows.size(); ++t) EXPECT_TRUE(rows[t] == expected[20 + t]) << t;
}

TEST_F(DenseDecoderTest, BallastChangesNothing) {
  const auto plain = Load(exec_, dir_.path());
  const auto heavy = Load(exec_, dir_.path(), {.ballast_layers = 3});
  const auto wide = Load(exec_, dir_.path(), {.ballast_layers = 2, .ballast_width = 1000});
  EXPECT_EQ(heavy->info().weight_bytes - heavy->info().ballast_bytes, plain->info().weight_bytes);
  EXPECT_EQ(heavy->info().num_parameters, plain->info().num_parameters);
  // As many bytes as three real layers.
  EXPECT_EQ(heavy->info().ballast_bytes,
            (plain->info().weight_bytes - plain->lm_head()->bytes() - 64 * 4) / 6 * 3);
  EXPECT_GT(wide->info().ballast_bytes, 2 * 3 * 64 * 1000 * 2);
  EXPECT_EQ(heavy->CacheGroups(DType::kF32)[0].num_layers, 6);
  const std::vector<int32_t> tokens = Tokens(33, 4);
  Runner a(exec_, *plain, DType::kBF16, 16, {5, -1}), b(exec_, *heavy, DType::kBF16, 16, {5, -1}),
      c(exec_, *wide, DType::kBF16, 16, {5, -1});
  const std::vector<Row> expected = a.Run({{0, 0, tokens}});
  EXPECT_TRUE(b.Run({{0, 0, tokens}}) == expected);
  EXPECT_TRUE(c.RunChunked(0, tokens, 5) == expected);
}

TEST_F(DenseDecoderTest, FeaturesInTheOrderAsked) {
  const auto model = Load(exec_, dir_.path());
  const std::vector<int32_t> tokens = Tokens(10, 5);
  Runner ordered(exec_, *model, DType::kF32, 16, {-1, 0, 1, 2, 3, 4, 5});
  Runner shuffled(exec_, *model, DType::kF32, 16, {4, -1, 4, 0});
  const std::vector<Row> all = ordered.Run({{0, 0, tokens}}), some = shuffled.Run({{0, 0, tokens}});
  const WeightView& embedding = *model->embedding();
  for (size_t t = 0; t < tokens.size(); ++t) {
    const auto layer = [](const Row& row, size_t i) {
      return std::vector(row.features.begin() + static_cast<int64_t>(i) * 64,
                         row.features.begin() + static_cast<int64_t>(i + 1) * 64);
    };
    EXPECT_EQ(layer(some[t], 0), layer(all[t], 5));
    EXPECT_EQ(layer(some[t], 1), layer(all[t], 0));
    EXPECT_EQ(layer(some[t], 2), layer(all[t], 5));
    EXPECT_EQ(layer(some[t], 3), layer(all[t], 1));
    EXPECT_NE(layer(all[t], 1), layer(all[t], 2));
    for (size_t i = 0; i < 64; ++i) {
      uint16_t bits;
      std::memcpy(&bits, embedding.data + (static_cast<size_t>(tokens[t]) * 64 + i) * 2, 2);
      EXPECT_EQ(all[t].features[i], BF16ToF32(bits));
    }
  }
}

// Two branches behind a context, in one pass: each row is that of its own path, to the bit.
TEST_F(DenseDecoderTest, RowsOfATreeAreThoseOfItsPaths) {
  const auto model = Load(exec_, dir_.path());
  const std::vector<int32_t> context = Tokens(21, 8), left = {5, 6, 7}, right = {5, 9, 10, 11};
  const auto path = [&](const std::vector<int32_t>& behind) {
    std::vector<int32_t> tokens = context;
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    Runner runner(exec_, *model);
    return runner.Run({{0, 0, tokens}});
  };
  const std::vector<Row> on_left = path(left), on_right = path(right);

  KvCache cache({model->CacheGroups(DType::kF32)}, {.num_blocks = 8, .max_slots = 1});
  cache.Open(0, {});
  ASSERT_TRUE(cache.Reserve(0, 24));
  Workspace workspace;
  ForwardOutput out;
  std::vector<int32_t> positions(20);
  std::iota(positions.begin(), positions.end(), 0);
  const std::span<const int32_t> before = std::span(context).first(20);
  const SequenceRows prefill{0, 0, 20, 0};
  ASSERT_TRUE(
      model->Forward(exec_, {before, positions, {&prefill, 1}, {}, {}}, cache, workspace, out)
          .ok());
  cache.Commit(0, context, 20, 24);
  const std::optional<SequenceSlot> branch = cache.Fork(0, 25);
  ASSERT_TRUE(branch);
  // The anchor, the left branch, then what is the right one's own; it shares anchor and token 5.
  const std::vector<int32_t> tokens{context[20], 5, 6, 7, 9, 10, 11};
  const std::vector<int32_t> at{20, 21, 22, 23, 22, 23, 24}, rows{0, 1, 2, 3, 4, 5, 6};
  const std::vector<SequenceRows> sequences{{0, 0, 4, 20}, {*branch, 4, 3, 22}};
  const SequenceRows shared{*branch, 0, 2, 20};
  workspace.Reset();
  ASSERT_TRUE(
      model->Forward(exec_, {tokens, at, sequences, rows, {}, {&shared, 1}}, cache, workspace, out)
          .ok());
  const auto logits = [&](int64_t row) {
    const auto values = out.logits.RowSpan(row);
    return std::vector(values.begin(), values.end());
  };
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(logits(i), on_left[20 + static_cast<size_t>(i)].logits);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(logits(4 + i), on_right[22 + static_cast<size_t>(i)].logits);
  }
  EXPECT_NE(logits(4), on_left[22].logits);
}

// Logits of some rows are those rows of all logits.
TEST_F(DenseDecoderTest, LogitsOfChosenRows) {
  const auto model = Load(exec_, dir_.path());
  const std::vector<int32_t> tokens = Tokens(20, 6);
  Runner runner(exec_, *model);
  const std::vector<Row> all = runner.Run({{0, 0, tokens}});
  KvCache cache({model->CacheGroups(DType::kF32)}, {.num_blocks = 4, .max_slots = 1});
  cache.Open(0, {});
  ASSERT_TRUE(cache.Reserve(0, 20));
  std::vector<int32_t> positions(20), chosen = {3, 19};
  std::iota(positions.begin(), positions.end(), 0);
  const SequenceRows sequence{0, 0, 20, 0};
  Workspace workspace;
  ForwardOutput out;
  ASSERT_TRUE(
      model->Forward(exec_, {tokens, positions, {&sequence, 1}, chosen, {}}, cache, workspace, out)
          .ok());
  ASSERT_EQ(out.logits.rows, 2);
  EXPECT_EQ(out.features.cols, 0);
  for (size_t i = 0; i < 2; ++i) {
    const auto row = out.logits.RowSpan(static_cast<int64_t>(i));
    EXPECT_EQ(std::vector(row.begin(), row.end()), all[static_cast<size_t>(chosen[i])].logits);
  }
}

// Widening is exact; rounding is not and shows.
TEST_F(DenseDecoderTest, WeightDtypes) {
  const std::vector<int32_t> tokens = Tokens(12, 7);
  const auto run = [&](const std::string& directory, const char* dtype) {
    const auto model = Load(exec_, directory, {.weight_dtype = dtype});
    Runner runner(exec_, *model);
    return runner.Run({{0, 0, tokens}});
  };
  EXPECT_TRUE(run(dir_.path(), "float32") == run(dir_.path(), "auto"));
  EXPECT_TRUE(run(dir_.path(), "bfloat16") == run(dir_.path(), "auto"));
  const TempDir wide;
  WriteCheckpoint(wide, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kF32));
  EXPECT_FALSE(run(wide.path(), "bfloat16") == run(wide.path(), "auto"));
  EXPECT_TRUE(run(wide.path(), "float32") == run(wide.path(), "auto"));
}

TEST_F(DenseDecoderTest, QuantizedWeightsStayCloseAndSmall) {
  const std::vector<int32_t> tokens = Tokens(30, 7);
  const auto stored = Load(exec_, dir_.path());
  Runner expected_runner(exec_, *stored);
  const std::vector<Row> expected = expected_runner.Run({{0, 0, tokens}});
  for (const char* dtype : {"int8", "int4"}) {
    std::vector<double> heard;
    const auto model =
        Load(exec_, dir_.path(),
             {.weight_dtype = dtype, .ballast_layers = 1, .progress = [&](double part) {
                heard.push_back(part);
              }});
    EXPECT_TRUE(std::ranges::is_sorted(heard));
    ASSERT_FALSE(heard.empty());
    EXPECT_EQ(heard.back(), 1.0);
    EXPECT_EQ(model->lm_head()->format(), WeightFormat::kInt8);
    EXPECT_LT(model->info().weight_bytes - model->info().ballast_bytes,
              stored->info().weight_bytes * 6 / 10);
    EXPECT_LT(model->info().ballast_bytes, stored->info().weight_bytes / 6);

    Runner runner(exec_, *model);
    const std::vector<Row> rows = runner.Run({{0, 0, tokens}});
    double error = 0, size = 0;
    for (size_t t = 0; t < rows.size(); ++t) {
      for (size_t i = 0; i < rows[t].logits.size(); ++i) {
        error += std::pow(rows[t].logits[i] - expected[t].logits[i], 2);
        size += std::pow(expected[t].logits[i], 2);
      }
    }
    EXPECT_LT(std::sqrt(error / size), std::string(dtype) == "int8" ? 0.06 : 0.4) << dtype;
    EXPECT_GT(std::sqrt(error / size), 1e-4) << dtype;
    // Chunks and neighbours do not change a bit.
    Runner chunked(exec_, *model);
    std::vector<Row> again = chunked.Run({{1, 0, std::span(tokens).first(7)}});
    const std::vector<int32_t> other = Tokens(3, 8);
    for (Row& row : chunked.Run({{0, 0, other}, {1, 7, std::span(tokens).subspan(7)}})) {
      again.push_back(std::move(row));
    }
    again.erase(again.begin() + 7, again.begin() + 10);
    EXPECT_TRUE(again == rows) << dtype;
  }
}

TEST_F(DenseDecoderTest, TheCacheGivesTheSameWeights) {
  const std::vector<int32_t> tokens = Tokens(12, 7);
  const TempDir cache;
  const auto run = [&](const std::string& weight_cache) {
    const auto model =
        Load(exec_, dir_.path(), {.weight_dtype = "int4", .weight_cache = weight_cache});
    Runner runner(exec_, *model);
    return runner.Run({{0, 0, tokens}});
  };
  const std::vector<Row> expected = run("");
  EXPECT_TRUE(run(cache.path()) == expected);
  EXPECT_TRUE(run(cache.path()) == expected);
  const auto files = std::filesystem::directory_iterator(cache.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 6 * 4 + 1);
}

TEST_F(DenseDecoderTest, Fp8IsReadAndNotMade) {
  const Status status = LoadModel(exec_, dir_.path(), {.weight_dtype = "fp8"}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("weight dtype is fp8, but no tensor is F8_E4M3"));
}

TEST_F(DenseDecoderTest, HeadTiedOrNot) {
  const std::vector<int32_t> tokens = Tokens(5, 8);
  const auto run = [&](const Json& config, const TestTensors& tensors) {
    const TempDir dir;
    WriteCheckpoint(dir, config, tensors);
    const auto model = Load(exec_, dir.path());
    Runner runner(exec_, *model);
    return runner.Run({{0, 0, tokens}});
  };
  Json untied = TinyQwen3Config();
  untied["tie_word_embeddings"] = false;
  TestTensors tensors = RandomQwen3(untied, DType::kBF16);
  const std::vector<Row> tied_rows =
      run(TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
  EXPECT_FALSE(run(untied, tensors) == tied_rows);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  EXPECT_TRUE(run(untied, tensors) == tied_rows);
  EXPECT_TRUE(run(TinyQwen3Config(), tensors) == tied_rows);  // stored though tied
}

TEST_F(DenseDecoderTest, BadCheckpoints) {
  const auto status_of = [&](const std::function<void(Json*, TestTensors*)>& change) {
    const TempDir dir;
    Json config = TinyQwen3Config();
    TestTensors tensors = RandomQwen3(config, DType::kBF16);
    change(&config, &tensors);
    WriteCheckpoint(dir, config, tensors);
    return LoadModel(exec_, dir.path(), {}).status();
  };
  Status s =
      status_of([](Json*, TestTensors* t) { t->erase("model.layers.3.mlp.up_proj.weight"); });
  EXPECT_EQ(s.code(), StatusCode::kDataCorrupt);
  EXPECT_THAT(s.message(), HasSubstr("tensor model.layers.3.mlp.up_proj.weight is missing"));
  s = status_of([](Json*, TestTensors* t) {
    (*t)["model.layers.0.self_attn.q_proj.bias"] = RandomTensor("b", {128}, DType::kF32, 1);
  });
  EXPECT_EQ(s.code(), StatusCode::kDataCorrupt);
  EXPECT_THAT(s.message(), HasSubstr("tensor model.layers.0.self_attn.q_proj.bias is extra"));
  s = status_of([](Json* c, TestTensors*) { (*c)["num_hidden_layers"] = 5; });
  EXPECT_THAT(s.message(), ::testing::AllOf(HasSubstr("model.layers.5."), HasSubstr("is extra")));
  s = status_of([](Json* c, TestTensors*) { (*c)["head_dim"] = 16; });
  EXPECT_THAT(s.message(), HasSubstr("q_proj.weight is [128, 64], config wants [64, 64]"));
  s = status_of([](Json* c, TestTensors*) { (*c)["vocab_size"] = 500; });
  EXPECT_THAT(s.message(),
              HasSubstr("model.embed_tokens.weight is [512, 64], config wants [500, 64]"));
  s = status_of([](Json* c, TestTensors*) { (*c)["tie_word_embeddings"] = false; });
  EXPECT_THAT(s.message(), HasSubstr("lm_head.weight is missing"));
  s = status_of([](Json*, TestTensors* t) {
    (*t)["lm_head.weight"] = RandomTensor("other", {512, 64}, DType::kBF16, 1);
  });
  EXPECT_THAT(s.message(), HasSubstr("lm_head.weight differs"));
  s = status_of([](Json*, TestTensors* t) {
    (*t)["model.embed_tokens.weight"] = {DType::kI32, {512, 64}, std::string(512 * 64 * 4, '\0')};
  });
  EXPECT_EQ(s.code(), StatusCode::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("model.embed_tokens.weight is I32"));
  s = status_of([](Json*, TestTensors* t) {
    (*t)["model.layers.1.mlp.down_proj.weight"] = {
        DType::kF8E5M2, {64, 128}, std::string(64 * 128, '\0')};
  });
  EXPECT_EQ(s.code(), StatusCode::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("model.layers.1.mlp.down_proj.weight"));
  s = status_of([](Json*, TestTensors* t) {
    (*t)["model.layers.1.rotary_emb.inv_freq"] = RandomTensor("f", {16}, DType::kF32, 1);
  });
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST_F(DenseDecoderTest, RefusesBatchesThatBreakTheContract) {
  const auto model = Load(exec_, dir_.path(), {.max_positions = 64});
  KvCache cache({model->CacheGroups(DType::kF32)}, {.num_blocks = 8, .max_slots = 2});
  for (SequenceSlot slot : {0, 1}) {
    cache.Open(slot, {});
    ASSERT_TRUE(cache.Reserve(slot, 64));
  }
  const auto code = [&](std::vector<int32_t> tokens, std::vector<int32_t> positions,
                        std::vector<SequenceRows> sequences, std::vector<int32_t> rows,
                        std::vector<int32_t> layers) {
    Workspace workspace;
    ForwardOutput out;
    return model
        ->Forward(exec_, {tokens, positions, sequences, rows, layers}, cache, workspace, out)
        .code();
  };
  EXPECT_EQ(code({1, 2}, {0, 1}, {{0, 0, 2, 0}}, {1}, {-1, 5}), StatusCode::kOk);
  EXPECT_EQ(code({1, 512}, {0, 1}, {{0, 0, 2, 0}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({-1, 2}, {0, 1}, {{0, 0, 2, 0}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {0}, {{0, 0, 2, 0}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {0, 2}, {{0, 0, 2, 0}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {5000, 5001}, {{0, 0, 2, 5000}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {0, 1}, {{0, 0, 1, 0}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {0, 1}, {{0, 0, 3, 0}}, {1}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {0, 1}, {{0, 0, 2, 0}}, {2}, {}), StatusCode::kInternal);
  EXPECT_EQ(code({1, 2}, {0, 1}, {{0, 0, 2, 0}}, {1}, {6}), StatusCode::kInternal);
  const auto shared = [&](SequenceRows rows) {
    const std::vector<int32_t> tokens{1, 2, 3}, positions{0, 1, 2};
    const SequenceRows sequence{0, 0, 3, 0};
    Workspace workspace;
    ForwardOutput out;
    return model
        ->Forward(exec_, {tokens, positions, {&sequence, 1}, {}, {}, {&rows, 1}}, cache, workspace,
                  out)
        .code();
  };
  EXPECT_EQ(shared({1, 0, 3, 0}), StatusCode::kOk);
  EXPECT_EQ(shared({1, 1, 2, 1}), StatusCode::kOk);
  EXPECT_EQ(shared({1, 1, 2, 0}), StatusCode::kInternal);
  EXPECT_EQ(shared({1, 1, 3, 1}), StatusCode::kInternal);
  EXPECT_EQ(shared({1, -1, 2, -1}), StatusCode::kInternal);
  EXPECT_EQ(shared({1, 1, 0, 1}), StatusCode::kInternal);
}

}  // namespace
}  // namespace firesteel
