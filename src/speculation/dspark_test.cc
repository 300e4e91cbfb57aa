#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <numeric>

#include "kv/kv_cache.h"
#include "model/architectures.h"
#include "model/safetensors.h"
#include "model/test_checkpoint.h"
#include "speculation/dspark_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int32_t kSlots = 4;
constexpr int32_t kMaxLen = 192;

std::string SourcePath(const std::string& path) {
  return std::string(FIRESTEEL_SOURCE_DIR) + "/" + path;
}

// vocab 512 and hidden 64 as the target; other heads and widths than its layers have.
Json TinyDsparkConfig() {
  Json config = TinyQwen3Config();
  config.update({{"architectures", {"Qwen3DSparkModel"}},
                 {"num_target_layers", 6},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 6},
                 {"head_dim", 16},
                 {"intermediate_size", 96},
                 {"block_size", 5},
                 {"mask_token_id", 511},
                 {"target_layer_ids", {-1, 1, 4}},
                 {"tie_word_embeddings", false},
                 {"markov_rank", 8},
                 {"markov_head_type", "vanilla"},
                 {"enable_confidence_head", true},
                 {"confidence_head_with_markov", true}});
  return config;
}

TestTensors RandomDspark(const Json& config, DType dtype) {
  TestTensors t;
  const int64_t h = config["hidden_size"], v = config["vocab_size"], r = config["markov_rank"];
  const auto m = static_cast<int64_t>(config["target_layer_ids"].size());
  AddRandomLayers(config, "layers.", dtype, &t);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float scale,
                       float mean = 0) {
    t[name] = RandomTensor(name, std::move(shape), dtype, scale, mean);
  };
  add("fc.weight", {h, m * h}, 0.2f);
  add("hidden_norm.weight", {h}, 0.2f, 1);
  add("norm.weight", {h}, 0.2f, 1);
  if (r > 0) {
    add("markov_head.markov_w1.weight", {v, r}, 1);
    add("markov_head.markov_w2.weight", {v, r}, 2);
  }
  if (config["enable_confidence_head"].get<bool>()) {
    const bool markov = config["confidence_head_with_markov"].get<bool>();
    add("confidence_head.proj.weight", {1, markov ? h + r : h}, 0.3f);
    add("confidence_head.proj.bias", {1}, 0.5f);
  }
  return t;
}

std::vector<int32_t> Tokens(int32_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((seed * 7919 + i * i * 31 + i * 17) % 511);
  return tokens;
}

// A target, a drafter, and their common cache, stepped by hand.
class Pair {
 public:
  Pair(Exec& exec, const Model& target, DrafterContext context, DsparkFaults faults = {},
       DType kv_dtype = DType::kF32)
      : exec_(exec), target_(target) {
    probe_.faults = faults;
    Result<std::unique_ptr<Drafter>> made = MakeDsparkWithProbe(context, &probe_);
    FS_CHECK(made.ok(), "{}", made.status().message());
    drafter_ = *std::move(made);
    CacheLayout layout{target.CacheGroups(kv_dtype)};
    for (CacheGroup& group : drafter_->CacheGroups(kv_dtype))
      layout.groups.push_back(std::move(group));
    cache_ = std::make_unique<KvCache>(layout, KvCache::Options{.num_blocks = kSlots * kMaxLen / 16,
                                                                .max_slots = kSlots,
                                                                .prefix_caching = false});
    for (SequenceSlot slot = 0; slot < kSlots; ++slot) {
      cache_->Open(slot, {});
      FS_CHECK(cache_->Reserve(slot, kMaxLen));
    }
  }

  // The target computes tokens[first, first + rows) and the drafter sees the first `committed` of
  // them.
  void Step(SequenceSlot slot, std::span<const int32_t> tokens, int64_t first, int64_t rows,
            int64_t committed) {
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(first));
    const SequenceRows sequence{slot, 0, static_cast<int32_t>(rows), first};
    ForwardOutput out;
    target_workspace_.Reset();
    Check(target_.Forward(exec_,
                          {tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)),
                           positions,
                           {&sequence, 1},
                           {},
                           drafter_->info().feature_layers},
                          *cache_, target_workspace_, out));
    const CommittedRows observed{slot, first, static_cast<int32_t>(committed), 0, tokens};
    workspace_.Reset();
    Check(drafter_->Observe(exec_, {&observed, 1}, out.features, *cache_, workspace_));
  }
  // All but the anchor, in chunks.
  void Prefill(SequenceSlot slot, std::span<const int32_t> tokens, int64_t chunk = 1000) {
    const auto end = static_cast<int64_t>(tokens.size()) - 1;
    for (int64_t first = 0; first < end; first += chunk) {
      const int64_t rows = std::min(chunk, end - first);
      Step(slot, tokens, first, rows, rows);
    }
  }

  std::vector<Draft> Propose(const std::vector<DraftQuery>& queries) {
    std::vector<Draft> drafts;
    workspace_.Reset();
    Check(drafter_->Propose(exec_, queries, *cache_, workspace_, &drafts));
    FS_CHECK(drafts.size() == queries.size());
    return drafts;
  }
  Draft Propose(const DraftQuery& query) { return Propose(std::vector{query})[0]; }

  Drafter& drafter() { return *drafter_; }
  const DsparkProbe& probe() const { return probe_; }

 private:
  static void Check(const Status& status) { FS_CHECK(status.ok(), "{}", status.message()); }

  Exec& exec_;
  const Model& target_;
  DsparkProbe probe_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<KvCache> cache_;
  Workspace target_workspace_, workspace_;
};

SamplingParams Sampling(double temperature, int32_t top_k = 0, double top_p = 1) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  return params;
}
const SamplingParams kGreedy = Sampling(0);

DraftQuery Query(SequenceSlot slot, std::span<const int32_t> tokens, int32_t max_tokens,
                 const SamplingParams& sampling = kGreedy, NoiseKey noise = {},
                 NoisePurpose purpose = NoisePurpose::kDraftGumbel) {
  return {slot, tokens, max_tokens, &sampling, noise, purpose};
}

bool SameDraft(const Draft& a, const Draft& b) {
  if (a.tokens != b.tokens || a.confidence != b.confidence || a.probs.size() != b.probs.size())
    return false;
  for (size_t i = 0; i < a.probs.size(); ++i) {
    if (a.probs[i].ids != b.probs[i].ids || a.probs[i].probs != b.probs[i].probs) return false;
  }
  return true;
}

class DsparkTest : public ::testing::Test {
 protected:
  DsparkTest() {
    WriteCheckpoint(target_dir_, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
    WriteCheckpoint(dir_, TinyDsparkConfig(), RandomDspark(TinyDsparkConfig(), DType::kBF16));
    Result<std::unique_ptr<Model>> target = LoadModel(exec_, target_dir_.path(), {});
    FS_CHECK(target.ok(), "{}", target.status().message());
    target_ = *std::move(target);
  }

  DrafterContext Context(const std::string& directory, const char* config = "{}") {
    SpeculationOptions options{.method = "dspark", .model = directory};
    return {exec_, *target_, 1, kSlots, kMaxLen, options, *ParseJson(config, "config")};
  }
  // What loading says when the random checkpoint is changed first.
  Status StatusOf(const std::function<void(Json*, TestTensors*)>& change) {
    const TempDir dir;
    Json config = TinyDsparkConfig();
    TestTensors tensors = RandomDspark(config, DType::kBF16);
    change(&config, &tensors);
    WriteCheckpoint(dir, config, tensors);
    return MakeDspark(Context(dir.path())).status();
  }

  TempDir target_dir_, dir_;
  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_;
};

TEST_F(DsparkTest, Info) {
  Pair pair(exec_, *target_, Context(dir_.path()));
  const DrafterInfo& info = pair.drafter().info();
  EXPECT_EQ(info.name, "dspark");
  EXPECT_EQ(info.max_tokens, 5);
  EXPECT_EQ(info.feature_layers, (std::vector<int32_t>{-1, 1, 4}));
  const std::vector<CacheGroup> groups = pair.drafter().CacheGroups(DType::kBF16);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].name, "dspark");
  EXPECT_EQ(groups[0].num_layers, 2);
  EXPECT_EQ(groups[0].planes[1].RowBytes(), 2 * 16 * 2);
  // Two layers, fc, both layers' context k and v, the shared head, Markov's w2 five times: bf16,
  // panels padded to 32 rows.
  const int64_t layer = 64 * (6 + 2 + 2) * 16 + 96 * 64 + 3 * 96 * 64;
  EXPECT_GE(info.weight_bytes,
            2 * (2 * layer + 3 * 64 * 64 + 2 * 2 * 32 * 64 + 512 * 64 + 5 * 512 * 8));
  EXPECT_LE(info.weight_bytes,
            2 * (2 * layer + 3 * 64 * 64 + 2 * 2 * 32 * 64 + 512 * 64 + 5 * 512 * 8) + 4096);
}

TEST_F(DsparkTest, ChunksNeighboursAndThreadsDoNotMatter) {
  const std::vector<int32_t> a = Tokens(50, 1), b = Tokens(21, 2), c = Tokens(2, 3);
  const SamplingParams sampling = Sampling(0.8, 40);
  const std::vector<DraftQuery> queries = {Query(2, a, 5), Query(0, b, 3, sampling, NoiseKey{7, 0}),
                                           Query(3, c, 9, sampling, NoiseKey{8, 1})};
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    Pair whole(exec_, *target_, Context(dir_.path()), {}, kv);
    std::vector<Draft> alone;
    for (const DraftQuery& query : queries) {
      whole.Prefill(query.slot, query.tokens);
      alone.push_back(whole.Propose(query));
    }
    EXPECT_EQ(alone[0].tokens.size(), 5u);
    EXPECT_EQ(alone[1].tokens.size(), 3u);
    EXPECT_EQ(alone[2].tokens.size(), 5u);
    EXPECT_TRUE(alone[0].probs.empty());
    EXPECT_EQ(alone[1].probs.size(), 3u);
    for (const int64_t chunk : {1, 7, 16}) {
      ThreadPool one(1);
      Exec single{one};
      Pair chunked(single, *target_, Context(dir_.path()), {}, kv);
      for (const DraftQuery& query : queries) chunked.Prefill(query.slot, query.tokens, chunk);
      const std::vector<Draft> together = chunked.Propose(queries);
      for (size_t q = 0; q < queries.size(); ++q) {
        EXPECT_TRUE(SameDraft(together[q], alone[q]))
            << Name(kv) << " chunk " << chunk << " query " << q;
      }
    }
  }
}

// Several sequences observed in one call, each at its own rows of the features.
TEST_F(DsparkTest, ObservesManySequencesAtOnce) {
  const std::vector<int32_t> a = Tokens(20, 1), b = Tokens(33, 2);
  Pair apart(exec_, *target_, Context(dir_.path()));
  apart.Prefill(0, a);
  apart.Prefill(1, b);
  const std::vector<DraftQuery> queries = {Query(0, a, 5), Query(1, b, 5)};
  const std::vector<Draft> expected = apart.Propose(queries);

  Result<std::unique_ptr<Drafter>> made = MakeDspark(Context(dir_.path()));
  ASSERT_TRUE(made.ok());
  Drafter& drafter = **made;
  CacheLayout layout{target_->CacheGroups(DType::kF32)};
  layout.groups.push_back(drafter.CacheGroups(DType::kF32)[0]);
  KvCache cache(layout, {.num_blocks = 32, .max_slots = 2});
  std::vector<int32_t> tokens, positions;
  for (SequenceSlot slot : {1, 0}) {
    cache.Open(slot, {});
    ASSERT_TRUE(cache.Reserve(slot, 64));
    const std::vector<int32_t>& prompt = slot == 0 ? a : b;
    for (size_t i = 0; i + 1 < prompt.size(); ++i) {
      tokens.push_back(prompt[i]);
      positions.push_back(static_cast<int32_t>(i));
    }
  }
  const SequenceRows sequences[] = {{1, 0, 32, 0}, {0, 32, 19, 0}};
  Workspace target_workspace, workspace;
  ForwardOutput out;
  ASSERT_TRUE(target_
                  ->Forward(exec_,
                            {tokens, positions, sequences, {}, drafter.info().feature_layers},
                            cache, target_workspace, out)
                  .ok());
  const CommittedRows rows[] = {{0, 0, 19, 32, a}, {1, 0, 32, 0, b}};
  ASSERT_TRUE(drafter.Observe(exec_, rows, out.features, cache, workspace).ok());
  workspace.Reset();
  std::vector<Draft> drafts;
  ASSERT_TRUE(drafter.Propose(exec_, queries, cache, workspace, &drafts).ok());
  EXPECT_TRUE(SameDraft(drafts[0], expected[0]));
  EXPECT_TRUE(SameDraft(drafts[1], expected[1]));
}

// The trained block is always computed whole: fewer tokens are the first of more.
TEST_F(DsparkTest, FewerTokensAreAPrefix) {
  const std::vector<int32_t> tokens = Tokens(30, 4);
  Pair pair(exec_, *target_, Context(dir_.path()));
  pair.Prefill(0, tokens);
  const Draft full = pair.Propose(Query(0, tokens, 5));
  for (int32_t n = 1; n <= 5; ++n) {
    const Draft draft = pair.Propose(Query(0, tokens, n));
    ASSERT_EQ(draft.tokens.size(), static_cast<size_t>(n));
    EXPECT_TRUE(std::equal(draft.tokens.begin(), draft.tokens.end(), full.tokens.begin()));
    EXPECT_TRUE(
        std::equal(draft.confidence.begin(), draft.confidence.end(), full.confidence.begin()));
  }
}

// After refusals the cache follows what was committed: the next draft is that of a sequence without
// detours.
TEST_F(DsparkTest, RejectedRowsLeaveNoTrace) {
  const std::vector<int32_t> tokens = Tokens(40, 5);
  Pair straight(exec_, *target_, Context(dir_.path())),
      detour(exec_, *target_, Context(dir_.path()));
  straight.Prefill(1, tokens);
  const std::span<const int32_t> start = std::span(tokens).first(30);
  detour.Prefill(1, start);
  const DraftQuery early = Query(1, start, 5);
  const Draft first = detour.Propose(early);
  EXPECT_TRUE(SameDraft(detour.Propose(early), first));  // proposing leaves nothing behind
  std::vector<int32_t> verify(start.begin(), start.end());
  verify.insert(verify.end(), {5, 6, 7, 8, 9});
  verify[30] = tokens[30];  // one draft token is accepted, four are not
  detour.Step(1, verify, 29, 6, 2);
  detour.Step(1, tokens, 31, 8, 8);
  const DraftQuery late = Query(1, tokens, 5);
  EXPECT_TRUE(SameDraft(detour.Propose(late), straight.Propose(late)));
}

// q is what was sampled: the distribution of the biased logits under the request's own parameters,
// drawn with the noise of the position that the token is for.
TEST_F(DsparkTest, ProbsAreWhatWasSampled) {
  const std::vector<int32_t> tokens = Tokens(25, 6);
  Pair pair(exec_, *target_, Context(dir_.path()));
  pair.Prefill(0, tokens);
  for (const NoisePurpose purpose : {NoisePurpose::kDraftGumbel, NoisePurpose::kTargetGumbel}) {
    const SamplingParams sampling = Sampling(1.3, 50, 0.9);
    const NoiseKey noise{12345, 2};
    const Draft draft = pair.Propose(Query(0, tokens, 5, sampling, noise, purpose));
    ASSERT_EQ(draft.probs.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      const Distribution q =
          MakeDistribution(std::span(pair.probe().logits).subspan(i * 512, 512), sampling);
      EXPECT_EQ(draft.probs[i].ids, q.ids);
      EXPECT_EQ(draft.probs[i].probs, q.probs);
      EXPECT_LE(q.ids.size(), 50u);
      EXPECT_EQ(draft.tokens[i], SampleWithNoise(q, noise, 25 + static_cast<int64_t>(i), purpose));
    }
  }
}

TEST_F(DsparkTest, DraftSampleMethod) {
  const std::vector<int32_t> tokens = Tokens(25, 6);
  const SamplingParams sampling = Sampling(1);
  const auto draft = [&](const char* config, const SamplingParams& params) {
    Pair pair(exec_, *target_, Context(dir_.path(), config));
    pair.Prefill(0, tokens);
    return pair.Propose(Query(0, tokens, 5, params));
  };
  EXPECT_EQ(draft("{}", sampling).probs.size(), 5u);
  const Draft greedy = draft(R"({"draft_sample_method":"greedy"})", sampling);
  EXPECT_TRUE(greedy.probs.empty());
  EXPECT_TRUE(SameDraft(greedy, draft("{}", kGreedy)));
  EXPECT_THAT(
      MakeDspark(Context(dir_.path(), R"({"draft_sample_method":"best"})")).status().message(),
      AllOf(HasSubstr("draft_sample_method"), HasSubstr("best"), HasSubstr("greedy")));
}

// Confidence i may depend on the tokens before i, never on token i: whatever is drawn, the first
// confidence is one number, and drafts that agree in their first k tokens agree in their first k +
// 1 confidences.
TEST_F(DsparkTest, ConfidenceComesBeforeItsToken) {
  const std::vector<int32_t> tokens = Tokens(25, 7);
  Pair pair(exec_, *target_, Context(dir_.path()));
  pair.Prefill(0, tokens);
  const SamplingParams hot = Sampling(3);
  std::vector<Draft> drafts;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    drafts.push_back(pair.Propose(Query(0, tokens, 5, hot, NoiseKey{seed, 0})));
    for (const float c : drafts.back().confidence) EXPECT_TRUE(c > 0 && c < 1);
  }
  int different_first = 0, later_differs = 0;
  for (const Draft& draft : drafts) {
    size_t k = 0;
    while (k < 5 && draft.tokens[k] == drafts[0].tokens[k]) ++k;
    for (size_t i = 0; i < std::min<size_t>(k + 1, 5); ++i)
      EXPECT_EQ(draft.confidence[i], drafts[0].confidence[i]);
    if (k == 0) ++different_first;
    if (k == 0 && draft.confidence[1] != drafts[0].confidence[1]) ++later_differs;
  }
  EXPECT_GT(different_first, 20);
  EXPECT_EQ(later_differs, different_first);
}

TEST_F(DsparkTest, BallastChangesNothing) {
  const std::vector<int32_t> tokens = Tokens(25, 8);
  DrafterContext heavy = Context(dir_.path());
  heavy.options.ballast_layers = 2;
  heavy.options.ballast_width = 300;
  Pair plain(exec_, *target_, Context(dir_.path())), loaded(exec_, *target_, heavy);
  plain.Prefill(0, tokens);
  loaded.Prefill(0, tokens);
  const DraftQuery query = Query(0, tokens, 5);
  EXPECT_TRUE(SameDraft(plain.Propose(query), loaded.Propose(query)));
  EXPECT_EQ(plain.probe().logits, loaded.probe().logits);
  EXPECT_GT(loaded.drafter().info().weight_bytes,
            plain.drafter().info().weight_bytes + 2 * 3 * 300 * 64 * 2);
  heavy.options.ballast_layers = -1;
  EXPECT_EQ(MakeDspark(heavy).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DsparkTest, EmbeddingAndHeadOfItsOwn) {
  const std::vector<int32_t> tokens = Tokens(25, 9);
  const TestTensors target = RandomQwen3(TinyQwen3Config(), DType::kBF16);
  const auto draft = [&](const std::function<void(TestTensors*)>& change, int64_t* bytes) {
    const TempDir dir;
    TestTensors tensors = RandomDspark(TinyDsparkConfig(), DType::kBF16);
    change(&tensors);
    WriteCheckpoint(dir, TinyDsparkConfig(), tensors);
    Pair pair(exec_, *target_, Context(dir.path()));
    *bytes = pair.drafter().info().weight_bytes;
    pair.Prefill(0, tokens);
    pair.Propose(Query(0, tokens, 5));
    return pair.probe().logits;
  };
  int64_t bytes[4];
  const auto shared = draft([](TestTensors*) {}, &bytes[0]);
  const auto copies = draft(
      [&](TestTensors* t) {
        (*t)["embed_tokens.weight"] = (*t)["lm_head.weight"] =
            target.at("model.embed_tokens.weight");
      },
      &bytes[1]);
  const auto own_head = draft(
      [](TestTensors* t) {
        (*t)["lm_head.weight"] = RandomTensor("x", {512, 64}, DType::kBF16, 1);
      },
      &bytes[2]);
  const auto own_embedding = draft(
      [](TestTensors* t) {
        (*t)["embed_tokens.weight"] = RandomTensor("x", {512, 64}, DType::kF32, 1);
      },
      &bytes[3]);
  EXPECT_EQ(copies, shared);
  EXPECT_NE(own_head, shared);
  EXPECT_NE(own_embedding, shared);
  EXPECT_EQ(bytes[0], bytes[1]);
}

// Without a Markov head the rows of a block are independent; DeepSpec's DFlash files are such.
TEST_F(DsparkTest, WithoutMarkovOrConfidence) {
  const std::vector<int32_t> tokens = Tokens(25, 10);
  const auto draft = [&](int32_t rank, bool confidence) {
    Json config = TinyDsparkConfig();
    config["markov_rank"] = rank;
    config["enable_confidence_head"] = confidence;
    config["confidence_head_with_markov"] = false;
    const TempDir dir;
    WriteCheckpoint(dir, config, RandomDspark(config, DType::kBF16));
    Pair pair(exec_, *target_, Context(dir.path()));
    pair.Prefill(0, tokens);
    return pair.Propose(Query(0, tokens, 5));
  };
  const Draft dflash = draft(0, false);
  EXPECT_EQ(dflash.tokens.size(), 5u);
  EXPECT_TRUE(dflash.confidence.empty());
  const Draft judged = draft(0, true);
  EXPECT_EQ(judged.tokens, dflash.tokens);
  EXPECT_EQ(judged.confidence.size(), 5u);
  const Draft chained = draft(8, true);
  EXPECT_EQ(chained.confidence, judged.confidence);  // neither sees the Markov row
  EXPECT_NE(chained.tokens, dflash.tokens);
}

TEST_F(DsparkTest, BadCheckpoints) {
  using C = Json*;
  using T = TestTensors*;
  struct Case {
    std::function<void(C, T)> change;
    StatusCode code;
    std::vector<std::string> parts;
  };
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument, kUnknown = StatusCode::kUnsupported,
                       kCorrupt = StatusCode::kDataCorrupt;
  const std::vector<Case> cases = {
      {[](C c, T) { (*c)["architectures"] = {"Gemma4DSparkModel"}; },
       kUnknown,
       {"Gemma4DSparkModel", "Qwen3DSparkModel"}},
      {[](C c, T) {
         (*c)["vocab_size"] = 500;
         (*c)["mask_token_id"] = 499;
       },
       kInvalid,
       {"vocab_size is 500, the target has 512"}},
      {[](C c, T) { (*c)["hidden_size"] = 32; },
       kInvalid,
       {"hidden_size is 32, the target has 64"}},
      {[](C c, T) { (*c)["num_target_layers"] = 36; },
       kInvalid,
       {"num_target_layers is 36, the target has 6"}},
      {[](C c, T) { c->erase("num_target_layers"); }, kInvalid, {"num_target_layers is missing"}},
      {[](C c, T) { (*c)["block_size"] = 0; }, kInvalid, {"block_size is 0"}},
      {[](C c, T) { c->erase("block_size"); }, kInvalid, {"block_size is missing"}},
      {[](C c, T) { (*c)["block_size"] = 1000000; }, kInvalid, {"block_size is 1000000"}},
      {[](C c, T) { (*c)["mask_token_id"] = 512; }, kInvalid, {"mask_token_id is 512", "0 to 511"}},
      {[](C c, T) { (*c)["mask_token_id"] = -1; }, kInvalid, {"mask_token_id is -1"}},
      {[](C c, T) {
         (*c)["target_layer_ids"] = {-1, 1, 5};
       },
       kInvalid,
       {"target_layer_ids holds 5", "last layer"}},
      {[](C c, T) {
         (*c)["target_layer_ids"] = {-2, 1, 4};
       },
       kInvalid,
       {"target_layer_ids holds -2", "-1 to 4"}},
      {[](C c, T) {
         (*c)["target_layer_ids"] = {1, 2, 99};
       },
       kInvalid,
       {"target_layer_ids holds 99"}},
      {[](C c, T) { (*c)["target_layer_ids"] = Json::array(); },
       kInvalid,
       {"target_layer_ids holds 0 layers"}},
      {[](C c, T) { (*c)["target_layer_ids"] = 3; }, kInvalid, {"target_layer_ids is 3"}},
      {[](C c, T) { c->erase("target_layer_ids"); }, kInvalid, {"target_layer_ids"}},
      {[](C c, T) { (*c)["markov_rank"] = -8; }, kInvalid, {"markov_rank is -8"}},
      {[](C c, T) { (*c)["markov_head_type"] = "gated"; },
       kUnknown,
       {"markov_head_type is \"gated\"", "vanilla"}},
      {[](C c, T) { (*c)["markov_head_type"] = "rnn"; }, kUnknown, {"markov_head_type is \"rnn\""}},
      {[](C c, T) { (*c)["markov_rank"] = 0; },
       kInvalid,
       {"confidence_head_with_markov", "markov_rank is 0"}},
      {[](C c, T) {
         (*c)["layer_types"] = {"full_attention", "sliding_attention"};
       },
       kUnknown,
       {"sliding_attention"}},
      {[](C, T t) { t->erase("fc.weight"); }, kCorrupt, {"tensor fc.weight is missing"}},
      {[](C, T t) {
         (*t)["fc.weight"] = RandomTensor("x", {64, 128}, DType::kBF16, 1);
       },
       kCorrupt,
       {"fc.weight is [64, 128], config wants [64, 192]"}},
      {[](C, T t) {
         (*t)["markov_head.gate_proj.weight"] = RandomTensor("x", {8, 72}, DType::kBF16, 1);
       },
       kCorrupt,
       {"markov_head.gate_proj.weight is extra"}},
      {[](C, T t) {
         (*t)["markov_head.markov_w2.weight"] = RandomTensor("x", {512, 9}, DType::kBF16, 1);
       },
       kCorrupt,
       {"markov_w2.weight is [512, 9]"}},
      {[](C, T t) {
         (*t)["markov_head.markov_w1.weight"] = {DType::kI8, {512, 8}, std::string(4096, '\0')};
       },
       kUnknown,
       {"markov_w1.weight is I8"}},
      {[](C, T t) {
         (*t)["confidence_head.proj.weight"] = RandomTensor("x", {1, 64}, DType::kBF16, 1);
       },
       kCorrupt,
       {"confidence_head.proj.weight is [1, 64], config wants [1, 72]"}},
      {[](C, T t) {
         (*t)["lm_head.weight"] = RandomTensor("x", {512, 32}, DType::kBF16, 1);
       },
       kCorrupt,
       {"lm_head.weight is [512, 32]"}},
      {[](C, T t) {
         (*t)["embed_tokens.weight"] = RandomTensor("x", {500, 64}, DType::kBF16, 1);
       },
       kCorrupt,
       {"embed_tokens.weight is [500, 64]"}},
      {[](C, T t) { t->erase("layers.1.self_attn.k_norm.weight"); },
       kCorrupt,
       {"layers.1.self_attn.k_norm.weight is missing"}},
  };
  EXPECT_TRUE(StatusOf([](C, T) {}).ok());
  for (const Case& c : cases) {
    const Status status = StatusOf(c.change);
    EXPECT_EQ(status.code(), c.code) << status.message();
    for (const std::string& part : c.parts) EXPECT_THAT(status.message(), HasSubstr(part));
  }
  EXPECT_EQ(MakeDspark(Context("")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeDspark(Context("/nonexistent")).status().code(), StatusCode::kNotFound);
}

TEST_F(DsparkTest, RefusesRowsThatDoNotFit) {
  Result<std::unique_ptr<Drafter>> drafter = MakeDspark(Context(dir_.path()));
  ASSERT_TRUE(drafter.ok());
  KvCache cache({{target_->CacheGroups(DType::kF32)[0], (*drafter)->CacheGroups(DType::kF32)[0]}},
                {.num_blocks = 4, .max_slots = 1});
  cache.Open(0, {});
  ASSERT_TRUE(cache.Reserve(0, 32));
  Workspace workspace;
  const std::vector<int32_t> tokens = Tokens(16, 1);
  const Matrix<float> features = workspace.Floats(8, 3 * 64), narrow = workspace.Floats(8, 64);
  CommittedRows rows{0, 0, 9, 0, tokens};
  EXPECT_EQ((*drafter)->Observe(exec_, {&rows, 1}, features, cache, workspace).code(),
            StatusCode::kInternal);
  rows.count = 8;
  EXPECT_EQ((*drafter)->Observe(exec_, {&rows, 1}, narrow, cache, workspace).code(),
            StatusCode::kInternal);
  rows.count = 0;
  EXPECT_TRUE((*drafter)->Observe(exec_, {&rows, 1}, features, cache, workspace).ok());
  std::vector<Draft> drafts;
  const DraftQuery empty = Query(0, {}, 1);
  EXPECT_EQ((*drafter)->Propose(exec_, {&empty, 1}, cache, workspace, &drafts).code(),
            StatusCode::kInternal);
  EXPECT_TRUE((*drafter)->Propose(exec_, {}, cache, workspace, &drafts).ok());
}

// ---- against an independent reference (training/golden.py, float64) ----

template <typename T>
std::vector<T> ReadAll(const Safetensors& golden, const std::string& name) {
  const auto found = golden.tensors().find(name);
  FS_CHECK(found != golden.tensors().end(), "golden file has no {}", name);
  std::vector<T> values(static_cast<size_t>(found->second.NumElements()));
  std::memcpy(values.data(), found->second.data, values.size() * sizeof(T));
  return values;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  Golden() {
    Result<std::unique_ptr<Model>> target =
        LoadModel(exec_, SourcePath("models/" + name() + "/target"), {});
    FS_CHECK(target.ok(), "{}", target.status().message());
    target_ = *std::move(target);
    const std::string base = SourcePath("tests/golden/" + name() + "_dspark");
    Result<Safetensors> golden = Safetensors::OpenFile(base + ".safetensors");
    FS_CHECK(golden.ok(), "{}", golden.status().message());
    golden_ = *std::move(golden);
    index_ = *ParseJson(*ReadFile(base + ".json"), base);
  }
  std::string name() const { return GetParam(); }

  struct Error {
    double value = 0;    // largest error over all blocks, in tolerances
    int32_t tokens = 0;  // draft tokens that differ
  };
  Error Compare(DsparkFaults faults);

  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_;
  Safetensors golden_;
  Json index_;
};

// Target and drafter layers each add rounding errors of a few float32 epsilon of the largest value
// in a row.
double InTolerances(double error, std::span<const float> reference) {
  double largest = 0;
  for (const float x : reference) largest = std::max(largest, std::abs(double{x}));
  return error / (64 * FLT_EPSILON * largest);
}

Golden::Error Golden::Compare(DsparkFaults faults) {
  SpeculationOptions options{.method = "dspark",
                             .model = SourcePath("models/" + name() + "/dspark")};
  const DrafterContext context{exec_, *target_, 1, kSlots, kMaxLen, options, Json::object()};
  const auto vocab = static_cast<size_t>(target_->info().vocab_size),
             h = static_cast<size_t>(target_->info().hidden_size);
  Error error;
  const auto compare = [&](std::span<const float> found, std::span<const float> expected) {
    FS_CHECK(found.size() == expected.size(), "{} values, expected {}", found.size(),
             expected.size());
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
    error.value = std::max(error.value, InTolerances(worst, expected));
  };
  Pair pair(exec_, *target_, context, faults);
  for (const Json& block : index_["blocks"]) {
    const std::string key = block["key"];
    const auto sequence =
        ReadAll<int32_t>(golden_, "prompt" + DumpJson(block["prompt"]) + ".sequence");
    const std::span<const int32_t> tokens =
        std::span(sequence).first(block["context_length"].get<size_t>() + 1);
    pair.Prefill(0, tokens);
    const auto size = static_cast<size_t>(pair.drafter().info().max_tokens);
    const Draft draft = pair.Propose(Query(0, tokens, static_cast<int32_t>(size)));
    const auto expected = ReadAll<int32_t>(golden_, key + ".tokens");
    for (size_t i = 0; i < size; ++i) error.tokens += draft.tokens.at(i) != expected.at(i);
    compare(pair.probe().hidden, ReadAll<float>(golden_, key + ".hidden"));
    std::vector<float> top;
    const auto top_ids = ReadAll<int32_t>(golden_, key + ".top_ids");
    for (size_t i = 0; i < top_ids.size(); ++i) {
      top.push_back(pair.probe().logits[i / (top_ids.size() / size) * vocab +
                                        static_cast<size_t>(top_ids[i])]);
    }
    // Logits behind a differing token have another bias; then the tokens already tell.
    if (draft.tokens == expected) compare(top, ReadAll<float>(golden_, key + ".top_logits"));
    if (draft.tokens == expected && golden_.tensors().contains(key + ".logits")) {
      compare(pair.probe().logits, ReadAll<float>(golden_, key + ".logits"));
    }
    // The sigmoid's slope is at most 1/4, so a confidence is off by no more than its logit.
    const auto logits = ReadAll<float>(golden_, key + ".confidence");
    for (size_t i = 0; i < size && draft.tokens == expected; ++i) {
      const double confidence = 1 / (1 + std::exp(-double{logits[i]}));
      error.value = std::max(error.value,
                             InTolerances(std::abs(draft.confidence.at(i) - confidence), logits));
    }
    FS_CHECK(pair.probe().hidden.size() == size * h);
  }
  return error;
}

TEST_P(Golden, DraftsEqualTheReference) {
  const Error error = Compare({});
  RecordProperty("error_in_tolerances", std::to_string(error.value));
  EXPECT_LT(error.value, 1);
  EXPECT_GT(error.value, 0);
  EXPECT_EQ(error.tokens, 0);
}

// The comparison must be able to fail: each fault is one that has been seen in public.
TEST_P(Golden, PlantedFaultsAreFound) {
  for (const DsparkFaults& faults :
       {DsparkFaults{.layer_shift = 1}, DsparkFaults{.causal_block = true},
        DsparkFaults{.context_shift = 1}}) {
    const Error error = Compare(faults);
    EXPECT_GT(error.value, 100);
    EXPECT_GT(error.tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::Values("tiny", "demo"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace firesteel
