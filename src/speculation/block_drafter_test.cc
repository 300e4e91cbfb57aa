// Every format of block drafter against plain loops, and against itself: batched, chunked, after
// refusals.
#include "speculation/block_drafter_layouts.h"

#include <gmock/gmock.h>

#include <cfloat>

#include "speculation/drafters.h"

namespace firesteel {
namespace {

class BlockLayouts : public BlockDrafterTest, public ::testing::WithParamInterface<BlockLayout> {
 protected:
  BlockLayouts() { WriteCheckpoint(dir_, GetParam().config, GetParam().tensors); }

  DrafterContext Context() {
    return BlockDrafterTest::Context(GetParam().method, dir_.path(), "{}");
  }
  int32_t MaxTokens() const {
    return static_cast<int32_t>(GetParam().oracle.block - GetParam().oracle.first_row);
  }
  // The layers that the oracle wants, whatever the drafter asks for.
  std::vector<Oracle::Vec> Features(std::span<const int32_t> tokens);

  struct Error {
    double value = 0;    // the largest, in tolerances
    int32_t tokens = 0;  // that differ
  };
  Error Compare(BlockDrafterFaults faults);

  TempDir dir_;
};

std::vector<Oracle::Vec> BlockLayouts::Features(std::span<const int32_t> tokens) {
  const auto n = static_cast<int32_t>(tokens.size());
  KvCache cache({target_->CacheGroups(DType::kF32)}, {.num_blocks = kMaxLen / 16, .max_slots = 1});
  cache.Open(0, {});
  FS_CHECK(cache.Reserve(0, n));
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  const SequenceRows rows{0, 0, n, 0};
  Workspace workspace;
  ForwardOutput out;
  const Status status = target_->Forward(
      exec_, {tokens, positions, {&rows, 1}, {}, GetParam().oracle.layers}, cache, workspace, out);
  FS_CHECK(status.ok(), "{}", status.message());
  std::vector<Oracle::Vec> features;
  for (int64_t r = 0; r < n; ++r) {
    features.emplace_back(out.features.Row(r), out.features.Row(r) + out.features.cols);
  }
  return features;
}

// Errors grow with the largest value of a row, as for the golden files.
double InTolerances(std::span<const float> found, const Oracle::Vec& expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(found[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / (64 * FLT_EPSILON * largest);
}

BlockLayouts::Error BlockLayouts::Compare(BlockDrafterFaults faults) {
  const Oracle oracle(GetParam().decoder, GetParam().tensors,
                      RandomQwen3(TinyQwen3Config(), DType::kBF16), GetParam().oracle);
  Pair pair(exec_, *target_, Context(), faults);
  Error error;
  for (const int32_t length : {2, 7, 24, 90}) {
    const std::vector<int32_t> tokens = Text(length, length);
    pair.Prefill(0, tokens);
    const Draft draft = pair.Propose(Query(0, tokens, 100));
    const OracleBlock block =
        oracle.Run(Features(std::span(tokens).first(tokens.size() - 1)), tokens.back());
    const size_t h = 64, v = block.logits[0].size(), steps = draft.tokens.size();
    FS_CHECK(steps == block.tokens.size() || faults.swap_anchor);
    bool same = true;  // logits behind a differing token have another bias
    for (size_t i = 0; i < std::min(steps, block.tokens.size()) && same; ++i) {
      const std::span<const float> hidden(pair.probe().hidden), logits(pair.probe().logits);
      error.value = std::max({error.value, InTolerances(hidden.subspan(i * h, h), block.hidden[i]),
                              InTolerances(logits.subspan(i * v, v), block.logits[i])});
      if (GetParam().oracle.confidence) {
        error.value =
            std::max(error.value, std::abs(draft.confidence.at(i) - block.confidence.at(i)) / 1e-5);
      }
      same = draft.tokens[i] == block.tokens[i];
      error.tokens += !same;
    }
    EXPECT_EQ(draft.confidence.size(), GetParam().oracle.confidence ? steps : 0);
  }
  return error;
}

TEST_P(BlockLayouts, DraftsWhatTheOracleDrafts) {
  const Error error = Compare({});
  EXPECT_LT(error.value, 1);
  EXPECT_GT(error.value, 0);
  EXPECT_EQ(error.tokens, 0);
}

// The comparison must be able to fail: each fault is one that has been seen in public.
TEST_P(BlockLayouts, PlantedFaultsAreFound) {
  const OracleLayout& layout = GetParam().oracle;
  std::vector<std::pair<const char*, BlockDrafterFaults>> faults = {
      {"layer ids off by one", {.layer_shift = 1}},
      {"context off by one", {.context_shift = 1}},
      {"the other anchor", {.swap_anchor = true}}};
  if (layout.causal != std::vector<bool>{true, true}) {
    faults.push_back({"a causal block", {.causal_block = true}});
  }
  if (layout.window != std::vector<int64_t>{0, 0}) {
    faults.push_back({"a window too wide", {.window_shift = 1}});
    faults.push_back({"a window too narrow", {.window_shift = -1}});
  }
  if (layout.head == "rnn") faults.push_back({"no memory", {.reset_state = true}});
  for (const auto& [name, fault] : faults) {
    EXPECT_GT(Compare(fault).value, 100) << name;
  }
}

TEST_P(BlockLayouts, InfoAndAutomaticChoice) {
  DrafterContext context = Context();
  const auto by_name = MakeDrafter(context);
  ASSERT_TRUE(by_name.ok()) << by_name.status().message();
  EXPECT_EQ((*by_name)->info().name, GetParam().method);
  EXPECT_EQ((*by_name)->info().max_tokens, MaxTokens());
  EXPECT_EQ((*by_name)->info().feature_layers, GetParam().oracle.layers);
  EXPECT_EQ((*by_name)->CacheGroups(DType::kBF16)[0].name, GetParam().method);
  context.options.method = "auto";
  const auto automatic = MakeDrafter(context);
  ASSERT_TRUE(automatic.ok()) << automatic.status().message();
  // Without heads, DeepSpec's class is read by both, and auto calls it what it is.
  const bool headless = GetParam().oracle.head.empty() && GetParam().method == "dspark";
  EXPECT_EQ((*automatic)->info().name, headless ? "dflash" : GetParam().method);
}

TEST_P(BlockLayouts, ManyAtOnceAreOneAtATime) {
  const std::vector<std::vector<int32_t>> tokens = {Text(50, 1), Text(21, 2), Text(2, 3),
                                                    Text(90, 4)};
  const SamplingParams warm = Sampling(0.8, 40), hot = Sampling(2);
  const std::vector<DraftQuery> queries = {
      Query(2, tokens[0], 9), Query(0, tokens[1], 2, warm, NoiseKey{7, 0}),
      Query(3, tokens[2], 9, hot, NoiseKey{8, 1}, NoisePurpose::kTargetGumbel),
      Query(1, tokens[3], 9, warm, NoiseKey{9, 1})};
  for (const DType kv : {DType::kF32, DType::kF8E4M3}) {
    Pair whole(exec_, *target_, Context(), {}, kv);
    std::vector<Draft> alone;
    for (const DraftQuery& query : queries) {
      whole.Prefill(query.slot, query.tokens);
      alone.push_back(whole.Propose(query));
    }
    for (const int64_t chunk : {1, 7}) {
      ThreadPool one(1);
      Exec single{one};
      Pair chunked(single, *target_, Context(), {}, kv);
      for (const DraftQuery& query : queries) chunked.Prefill(query.slot, query.tokens, chunk);
      const std::vector<Draft> together = chunked.Propose(queries);
      for (size_t q = 0; q < queries.size(); ++q) {
        EXPECT_EQ(together[q].tokens.size(), std::min<size_t>(queries[q].max_tokens, MaxTokens()));
        EXPECT_TRUE(SameDraft(together[q], alone[q])) << Name(kv) << " " << chunk << " " << q;
      }
    }
  }
}

// Whatever is accepted, from nothing to the whole block, the cache holds what a fresh prefill of
// the same tokens writes, to the bit, and so does every slot.
TEST_P(BlockLayouts, RefusalsLeaveNoTrace) {
  const std::vector<int32_t> tokens = Text(120, 5);
  Pair straight(exec_, *target_, Context()), detour(exec_, *target_, Context());
  for (const SequenceSlot slot : {1, 3}) {
    straight.Prefill(slot, tokens);
    detour.Prefill(slot, std::span(tokens).first(20));
    int64_t anchor = 19;
    for (int64_t round = 0; round <= 2 * MaxTokens() + 1; ++round) {
      const int64_t accepted = std::abs(round - MaxTokens()) % (MaxTokens() + 1);
      const auto end = static_cast<size_t>(anchor + 1);
      const std::span<const int32_t> so_far = std::span(tokens).first(end);
      const DraftQuery query = Query(slot, so_far, MaxTokens());
      const Draft draft = detour.Propose(query);
      Pair fresh(exec_, *target_, Context());
      fresh.Prefill(slot, so_far);
      EXPECT_TRUE(SameDraft(draft, fresh.Propose(query))) << "round " << round;
      std::vector<int32_t> verified(tokens.begin(), tokens.begin() + anchor + 1 + accepted);
      while (static_cast<int64_t>(verified.size()) < anchor + 1 + MaxTokens()) {
        verified.push_back((tokens[verified.size()] + 1) % 511);
      }
      detour.Step(slot, verified, anchor, MaxTokens() + 1, accepted + 1);
      anchor += accepted + 1;
      EXPECT_EQ(detour.CachedRows(slot, anchor), straight.CachedRows(slot, anchor))
          << accepted << " accepted";
    }
    // The comparison can fail: one refused row too many is taken for committed.
    std::vector<int32_t> wrong(tokens.begin(), tokens.begin() + anchor + 1);
    wrong.push_back((tokens[wrong.size()] + 1) % 511);
    detour.Step(slot, wrong, anchor, 2, 2);
    EXPECT_NE(detour.CachedRows(slot, anchor + 2), straight.CachedRows(slot, anchor + 2));
  }
}

// q is what was sampled, and zero outside a reduced vocabulary.
TEST_P(BlockLayouts, ProbsAreWhatWasSampled) {
  const std::vector<int32_t> tokens = Text(25, 6);
  Pair pair(exec_, *target_, Context());
  pair.Prefill(0, tokens);
  const SamplingParams sampling = Sampling(1.3, 50, 0.9);
  const Draft draft =
      pair.Propose(Query(0, tokens, 9, sampling, NoiseKey{12345, 2}, NoisePurpose::kTargetGumbel));
  const std::vector<int32_t>& ids = GetParam().oracle.vocabulary;
  const size_t size = ids.empty() ? 512 : ids.size();
  ASSERT_EQ(draft.probs.size(), static_cast<size_t>(MaxTokens()));
  for (size_t i = 0; i < draft.probs.size(); ++i) {
    std::vector<float> logits(512, -INFINITY);
    for (size_t t = 0; t < size; ++t) {
      logits[ids.empty() ? t : static_cast<size_t>(ids[t])] = pair.probe().logits[i * size + t];
    }
    const Distribution q = MakeDistribution(logits, sampling);
    EXPECT_EQ(draft.probs[i].ids, q.ids);
    EXPECT_EQ(draft.probs[i].probs, q.probs);
    EXPECT_EQ(draft.tokens[i], SampleWithNoise(q, NoiseKey{12345, 2}, 25 + static_cast<int64_t>(i),
                                               NoisePurpose::kTargetGumbel));
    for (const int32_t id : q.ids) {
      EXPECT_TRUE(ids.empty() || std::ranges::find(ids, id) != ids.end());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockLayouts, ::testing::ValuesIn(AllBlockLayouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace firesteel
