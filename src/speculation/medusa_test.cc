#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "speculation/drafter_test_support.h"
#include "speculation/medusa_internal.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kHidden = 64, kVocab = 512;
constexpr int32_t kHeads = 3, kLayers = 2;

Json MedusaConfig() {
  return {{"medusa_num_heads", kHeads},
          {"medusa_num_layers", kLayers},
          {"base_model_name_or_path", "somewhere/target"}};
}

TestTensors RandomMedusa() {
  TestTensors t;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float scale) {
    t[name] = RandomTensor(name, std::move(shape), DType::kF32, scale);
  };
  for (int32_t i = 0; i < kHeads; ++i) {
    for (int32_t j = 0; j < kLayers; ++j) {
      const std::string prefix = std::to_string(i) + "." + std::to_string(j) + ".linear.";
      add(prefix + "weight", {kHidden, kHidden}, 0.2f);
      add(prefix + "bias", {kHidden}, 0.5f);
    }
    add(std::to_string(i) + "." + std::to_string(kLayers) + ".weight", {kVocab, kHidden}, 0.4f);
  }
  return t;
}

std::vector<float> Floats(const TestTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// The logits of a head in double precision, straight from the tensors of the file.
std::vector<double> HeadLogits(const TestTensors& tensors, int32_t head,
                               std::span<const float> state) {
  std::vector<double> x(state.begin(), state.end());
  const auto times = [](const std::vector<float>& w, const std::vector<double>& v) {
    std::vector<double> out(w.size() / v.size());
    for (size_t r = 0; r < out.size(); ++r) {
      for (size_t c = 0; c < v.size(); ++c) out[r] += double{w[r * v.size() + c]} * v[c];
    }
    return out;
  };
  for (int32_t j = 0; j < kLayers; ++j) {
    const std::string prefix = std::to_string(head) + "." + std::to_string(j) + ".linear.";
    std::vector<double> y = times(Floats(tensors.at(prefix + "weight")), x);
    const std::vector<float> bias = Floats(tensors.at(prefix + "bias"));
    for (size_t i = 0; i < x.size(); ++i) {
      const double z = y[i] + bias[i];
      x[i] += z / (1 + std::exp(-z));
    }
  }
  const std::string output = std::to_string(head) + "." + std::to_string(kLayers) + ".weight";
  return times(Floats(tensors.at(output)), x);
}

std::vector<int32_t> Best(const std::vector<double>& logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::greater<>(),
                           [&](int32_t i) { return logits[static_cast<size_t>(i)]; });
  ids.resize(count);
  return ids;
}

double Softmax(const std::vector<double>& logits, int32_t token) {
  double sum = 0;
  for (const double l : logits) sum += std::exp(l);
  return std::exp(logits[static_cast<size_t>(token)]) / sum;
}

class MedusaTest : public ::testing::Test {
 protected:
  MedusaTest() {
    WriteCheckpoint(target_dir_, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
    WriteCheckpoint(dir_, MedusaConfig(), tensors_);
    target_ = LoadTarget(exec_, target_dir_.path());
  }
  SpeculationOptions Options(const std::string& directory) const {
    return {.method = "medusa", .model = directory};
  }
  Rig Make(const std::string& config = R"({"medusa_choices":"chain"})", DType kv = DType::kF32) {
    return Rig(exec_, *target_, Options(dir_.path()), config, kv);
  }
  // The target's state behind the final norm of the last of `tokens`, computed alone.
  std::vector<float> LastState(std::span<const int32_t> tokens) {
    KvCache cache({target_->CacheGroups(DType::kF32)}, {.num_blocks = 12, .max_slots = 1});
    cache.Open(0, {});
    FS_CHECK(cache.Reserve(0, kMaxLen));
    std::vector<int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    const SequenceRows rows{0, 0, static_cast<int32_t>(tokens.size()), 0};
    const int32_t layer = kAfterFinalNorm;
    Workspace workspace;
    ForwardOutput out;
    FS_CHECK(target_
                 ->Forward(exec_, {tokens, positions, {&rows, 1}, {}, {&layer, 1}}, cache,
                           workspace, out)
                 .ok());
    const auto last = out.features.RowSpan(out.features.rows - 1);
    return {last.begin(), last.end()};
  }
  Status StatusOf(const std::function<void(Json*, TestTensors*)>& change) {
    const TempDir dir;
    Json json = MedusaConfig();
    TestTensors tensors = RandomMedusa();
    change(&json, &tensors);
    WriteCheckpoint(dir, json, tensors);
    DrafterContext context{.exec = exec_,
                           .target = *target_,
                           .max_slots = kSlots,
                           .max_model_len = kMaxLen,
                           .options = Options(dir.path()),
                           .config = Json::object()};
    return MakeDrafter(context).status();
  }

  const TestTensors tensors_ = RandomMedusa();
  TempDir target_dir_, dir_;
  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_;
};

TEST_F(MedusaTest, Info) {
  Rig chain = Make();
  const DrafterInfo& info = chain.drafter().info();
  EXPECT_EQ(info.name, "medusa");
  EXPECT_EQ(info.max_tokens, kHeads);
  EXPECT_EQ(info.max_depth, 0);
  EXPECT_EQ(info.feature_layers, std::vector<int32_t>{kAfterFinalNorm});
  EXPECT_TRUE(chain.drafter().CacheGroups(DType::kBF16).empty());
  EXPECT_GE(info.weight_bytes, 4 * 3 * (2 * (64 * 64 + 64) + 512 * 64));
  Rig tree = Make(R"({"medusa_choices":[[0],[1],[0,0],[1,2]]})");
  EXPECT_EQ(tree.drafter().info().max_tokens, 4);
  EXPECT_EQ(tree.drafter().info().max_depth, 2);
}

// Head i speaks of the i + 1st token behind the anchor, from the state before it.
TEST_F(MedusaTest, DraftsEqualTheHeads) {
  const std::vector<int32_t> tokens = Text(40, 1);
  Rig rig = Make();
  rig.Open(1, {});
  rig.Prefill(1, tokens);
  const Draft draft = rig.Propose(Query(1, tokens, kHeads));
  const std::vector<float> state = LastState(std::span(tokens).first(39));
  ASSERT_EQ(draft.tokens.size(), 3u);
  EXPECT_TRUE(draft.probs.empty());
  EXPECT_TRUE(draft.parents.empty());
  for (int32_t i = 0; i < kHeads; ++i) {
    const std::vector<double> logits = HeadLogits(tensors_, i, state);
    const int32_t best = Best(logits, 1)[0];
    EXPECT_EQ(draft.tokens[static_cast<size_t>(i)], best) << i;
    EXPECT_NEAR(draft.confidence[static_cast<size_t>(i)], Softmax(logits, best), 1e-4) << i;
  }
  // The comparison sees a head or a row that is off by one.
  EXPECT_NE(draft.tokens[0], Best(HeadLogits(tensors_, 1, state), 1)[0]);
  EXPECT_NE(draft.tokens[0], Best(HeadLogits(tensors_, 0, LastState(tokens)), 1)[0]);
}

// q is what was sampled, each head for itself, with the noise of the token's own place.
TEST_F(MedusaTest, ProbsAreWhatWasSampled) {
  const std::vector<int32_t> tokens = Text(25, 2);
  Rig rig = Make();
  rig.Open(0, {});
  rig.Prefill(0, tokens);
  const SamplingParams sampling = Sampling(1.3, 50, 0.9);
  const NoiseKey noise{77, 1};
  const std::vector<float> state = LastState(std::span(tokens).first(24));
  for (const NoisePurpose purpose : {NoisePurpose::kDraftGumbel, NoisePurpose::kTargetGumbel}) {
    const Draft draft = rig.Propose(Query(0, tokens, kHeads, sampling, noise, purpose));
    ASSERT_EQ(draft.probs.size(), 3u);
    for (int32_t i = 0; i < kHeads; ++i) {
      const auto at = static_cast<size_t>(i);
      const std::vector<double> exact = HeadLogits(tensors_, i, state);
      const std::vector<float> logits(exact.begin(), exact.end());
      const Distribution q = MakeDistribution(logits, sampling);
      ASSERT_EQ(draft.probs[at].ids, q.ids);
      float largest = 0;
      for (size_t k = 0; k < q.probs.size(); ++k) {
        EXPECT_NEAR(draft.probs[at].probs[k], q.probs[k], 1e-4);
        largest = std::max(largest, draft.probs[at].probs[k]);
      }
      EXPECT_EQ(draft.confidence[at], largest);
      const int64_t place = purpose == NoisePurpose::kTargetGumbel ? 25 + i : RoundPosition(24, i);
      EXPECT_EQ(draft.tokens[at], SampleWithNoise(draft.probs[at], noise, place, purpose));
    }
  }
  Rig greedy = Make(R"({"medusa_choices":"chain","draft_sample_method":"greedy"})");
  greedy.Open(0, {});
  greedy.Prefill(0, tokens);
  EXPECT_TRUE(greedy.Propose(Query(0, tokens, kHeads, sampling)).probs.empty());
}

TEST_F(MedusaTest, ChunksNeighboursAndDetoursDoNotMatter) {
  const std::vector<int32_t> a = Text(50, 1), b = Text(21, 2), c = Text(3, 3);
  const SamplingParams hot = Sampling(0.8, 40);
  const std::vector<DraftQuery> queries = {Query(2, a, 3), Query(0, b, 2, hot, NoiseKey{7, 0}),
                                           Query(3, c, 9, hot, NoiseKey{8, 1})};
  for (const char* config : {R"({"medusa_choices":"chain"})", R"({"medusa_choices":"small"})"}) {
    Rig whole = Make(config);
    std::vector<Draft> alone;
    for (const DraftQuery& query : queries) {
      whole.Open(query.slot, {});
      whole.Prefill(query.slot, query.tokens);
      alone.push_back(whole.Propose(query));
    }
    for (const int64_t chunk : {1, 7}) {
      Rig chunked = Make(config);
      for (const DraftQuery& query : queries) {
        chunked.Open(query.slot, {});
        chunked.Prefill(query.slot, query.tokens, chunk);
      }
      const std::vector<Draft> together = chunked.Propose(queries);
      for (size_t q = 0; q < queries.size(); ++q)
        EXPECT_TRUE(SameDraft(together[q], alone[q])) << q;
    }
  }
}

// Whatever was accepted, the next draft is that of a sequence without detours.
TEST_F(MedusaTest, AfterEveryNumberOfAcceptedTokens) {
  for (int32_t accepted = 0; accepted <= kHeads; ++accepted) {
    std::vector<int32_t> text = Text(20, 5);
    Rig detour = Make(), straight = Make();
    detour.Open(0, {});
    detour.Prefill(0, text);
    detour.Round(0, kHeads, accepted, 300 + accepted, &text);
    straight.Open(0, {});
    straight.Prefill(0, text);
    const DraftQuery query = Query(0, text, kHeads);
    EXPECT_TRUE(SameDraft(detour.Propose(query), straight.Propose(query))) << accepted;
  }
}

// A sequence whose text is in the prefix cache has no state until its first row is computed; one
// whose slot was another's does not draft from the other's state.
TEST_F(MedusaTest, WithoutAStateNothingIsDrafted) {
  std::vector<int32_t> text = Text(33, 6);
  Rig rig = Make();
  rig.Open(0, text);
  rig.Prefill(0, text);
  const Draft expected = rig.Propose(Query(0, text, kHeads));
  rig.Close(0);
  ASSERT_EQ(rig.Open(0, text), 32);
  EXPECT_TRUE(rig.Propose(Query(0, text, kHeads)).tokens.empty());
  rig.Close(0);
  std::vector<int32_t> longer = text;
  longer.push_back(9);
  ASSERT_EQ(rig.Open(0, longer), 32);
  EXPECT_TRUE(rig.Propose(Query(0, longer, kHeads)).tokens.empty());
  rig.Prefill(0, longer);
  EXPECT_EQ(rig.Propose(Query(0, longer, kHeads)).tokens.size(), 3u);
  // Resumed: the same draft as before.
  Rig other = Make();
  other.Open(2, {});
  other.Prefill(2, text);
  EXPECT_TRUE(SameDraft(other.Propose(Query(2, text, kHeads)), expected));
}

// Every node is the right rank of the right head, behind its parent; of a larger tree the likeliest
// paths are kept.
TEST_F(MedusaTest, TreesHoldTheLikeliestPaths) {
  const std::vector<int32_t> tokens = Text(40, 1);
  const std::vector<float> state = LastState(std::span(tokens).first(39));
  std::vector<std::vector<double>> logits;
  std::vector<std::vector<int32_t>> best;
  for (int32_t i = 0; i < kHeads; ++i) {
    logits.push_back(HeadLogits(tensors_, i, state));
    best.push_back(Best(logits.back(), 10));
  }
  Rig rig = Make(R"({"medusa_choices":"mc_sim_7b_63"})");
  rig.Open(0, {});
  rig.Prefill(0, tokens);
  EXPECT_EQ(rig.drafter().info().max_depth, kHeads);
  EXPECT_EQ(rig.drafter().info().max_tokens, 61);  // without the two nodes of a fourth head
  const Draft all = rig.Propose(Query(0, tokens, 63));
  ASSERT_EQ(all.tokens.size(), 61u);
  ASSERT_EQ(all.parents.size(), 61u);
  std::vector<double> path(61);
  std::vector<int32_t> level(61);
  for (size_t n = 0; n < 61; ++n) {
    const int32_t parent = all.parents[n];
    ASSERT_LT(parent, static_cast<int32_t>(n));
    level[n] = parent < 0 ? 0 : level[static_cast<size_t>(parent)] + 1;
    const auto& head = best[static_cast<size_t>(level[n])];
    EXPECT_TRUE(std::ranges::find(head, all.tokens[n]) != head.end());
    const double chance = Softmax(logits[static_cast<size_t>(level[n])], all.tokens[n]);
    EXPECT_NEAR(all.confidence[n], chance, 1e-4);
    path[n] = chance * (parent < 0 ? 1 : path[static_cast<size_t>(parent)]);
    EXPECT_LE(path[n], n == 0 ? 1 : path[n - 1] * 1.001);
    for (size_t m = 0; m < n; ++m)
      EXPECT_FALSE(all.parents[m] == parent && all.tokens[m] == all.tokens[n]);
  }
  EXPECT_EQ(all.tokens[0], best[0][0]);
  const Draft some = rig.Propose(Query(0, tokens, 7));
  ASSERT_EQ(some.tokens.size(), 7u);
  EXPECT_TRUE(std::equal(some.tokens.begin(), some.tokens.end(), all.tokens.begin()));
  DraftQuery flat = Query(0, tokens, 7);
  flat.max_depth = 1;
  for (const int32_t parent : rig.Propose(flat).parents) EXPECT_EQ(parent, -1);
}

// Published configs name fewer heads than their files hold.
TEST_F(MedusaTest, TheFileCountsTheHeads) {
  const TempDir dir;
  Json config = MedusaConfig();
  config["medusa_num_heads"] = 2;
  WriteCheckpoint(dir, config, tensors_);
  Rig rig(exec_, *target_, Options(dir.path()), R"({"medusa_choices":"chain"})");
  EXPECT_EQ(rig.drafter().info().max_tokens, kHeads);
}

TEST_F(MedusaTest, FilesUnderTheirPublishedNames) {
  const TempDir dir;
  dir.Write("config.json", DumpJson(MedusaConfig()));
  dir.Write("medusa_lm_head.safetensors", SafetensorsFile(tensors_));
  SpeculationOptions options = Options(dir.path());
  options.method = "auto";
  Rig rig(exec_, *target_, options, "{}");
  EXPECT_EQ(rig.drafter().info().name, "medusa");

  const TempDir pickled;
  pickled.Write("config.json", DumpJson(MedusaConfig()));
  pickled.Write("medusa_lm_head.pt", "PK");
  DrafterContext context{.exec = exec_,
                         .target = *target_,
                         .max_slots = kSlots,
                         .options = Options(pickled.path()),
                         .config = Json::object()};
  const Status status = MakeDrafter(context).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("medusa_lm_head.pt: is a PyTorch pickle"),
                                      HasSubstr("convert it once: python3 -c")));
}

TEST_F(MedusaTest, WrongFilesAreOneSentence) {
  const auto error = [&](const std::function<void(Json*, TestTensors*)>& change) {
    return StatusOf(change).message();
  };
  EXPECT_THAT(error([](Json* c, TestTensors*) { (*c)["hidden_size"] = 128; }),
              HasSubstr("hidden_size is 128, the target has 64"));
  EXPECT_THAT(error([](Json* c, TestTensors*) { (*c)["vocab_size"] = 32000; }),
              HasSubstr("vocab_size is 32000, the target has 512"));
  EXPECT_THAT(error([](Json* c, TestTensors*) { (*c)["medusa_num_layers"] = -1; }),
              HasSubstr("medusa_num_layers is -1"));
  EXPECT_THAT(error([](Json* c, TestTensors*) { (*c)["medusa_num_layers"] = 1; }),
              HasSubstr("tensor 0.1.weight is missing"));
  EXPECT_THAT(error([](Json*, TestTensors* t) { t->erase("1.0.linear.bias"); }),
              HasSubstr("tensor 1.0.linear.bias is missing"));
  EXPECT_THAT(error([](Json*, TestTensors* t) {
                (*t)["2.2.weight"] = RandomTensor("w", {500, 64}, DType::kF32, 1);
              }),
              HasSubstr("tensor 2.2.weight is [500, 64]"));
  EXPECT_THAT(error([](Json*, TestTensors* t) {
                (*t)["extra"] = RandomTensor("extra", {4}, DType::kF32, 1);
              }),
              HasSubstr("extra"));
  DrafterContext context{.exec = exec_, .target = *target_, .options = Options(""), .config = {}};
  EXPECT_THAT(MakeDrafter(context).status().message(), HasSubstr("expected a directory"));
}

}  // namespace
}  // namespace firesteel
