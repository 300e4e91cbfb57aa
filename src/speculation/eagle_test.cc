// What the EAGLE drafters keep, on every path by which a sequence may reach a position.
#include "speculation/eagle_test_support.h"

#include <gmock/gmock.h>

#include <set>

namespace firesteel {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kSteps = 4;

class EagleTest : public ::testing::TestWithParam<const char*>, public EagleFixture {
 protected:
  std::string name() const { return GetParam(); }
  EaglePair Make(EagleFaults faults = {}, DType kv = DType::kF32, bool prefix_caching = true) {
    return MakePair(name(), faults, kv, R"({"num_steps":4})", prefix_caching);
  }
  EaglePair MakeTrees(bool prefix_caching = true) {
    return MakePair(name(), {}, DType::kF32, R"({"topk":3,"num_steps":3,"num_draft_tokens":9})",
                    prefix_caching);
  }
};

bool SameTree(const Draft& a, const Draft& b) { return SameDraft(a, b) && a.parents == b.parents; }

std::vector<int32_t> Joined(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

TEST_P(EagleTest, Info) {
  EaglePair pair = Make();
  const DrafterInfo& info = pair.drafter().info();
  EXPECT_EQ(info.name, name() == "eagle" ? "eagle" : "eagle3");
  EXPECT_EQ(info.max_tokens, 4);
  EXPECT_EQ(info.max_depth, 0);
  if (name() == "eagle") {
    EXPECT_EQ(info.feature_layers, std::vector<int32_t>{kAfterFinalNorm});
  } else {
    EXPECT_EQ(info.feature_layers, (std::vector<int32_t>{0, 2, 4}));
  }
  const std::vector<CacheGroup> groups = pair.drafter().CacheGroups(DType::kBF16);
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups[0].planes.size(), 3u);
  EXPECT_EQ(groups[0].planes[0].RowBytes(), 2 * 32 * 2);
  // One hidden vector of 64 for each tile of 16 positions.
  EXPECT_EQ(groups[0].planes[2].TileBytes(), 64 * 4);
  EXPECT_GT(info.weight_bytes, 0);
  EXPECT_EQ(MakePair(name(), {}, DType::kF32, "{}").drafter().info().max_tokens,
            name() == "eagle3" ? 4 : 5);
}

TEST_P(EagleTest, ChunksNeighboursAndThreadsDoNotMatter) {
  const std::vector<int32_t> a = Text(50, 1), b = Text(21, 2), c = Text(2, 3);
  const SamplingParams sampling = Sampling(0.8, 40);
  const std::vector<DraftQuery> queries = {Query(2, a, 4), Query(0, b, 3, sampling, NoiseKey{7, 0}),
                                           Query(3, c, 9, sampling, NoiseKey{8, 1})};
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    EaglePair whole = Make({}, kv);
    std::vector<Draft> alone;
    for (const DraftQuery& query : queries) {
      whole.Prefill(query.slot, query.tokens);
      alone.push_back(whole.Propose(query));
    }
    EXPECT_EQ(alone[0].tokens.size(), 4u);
    EXPECT_EQ(alone[1].tokens.size(), 3u);
    EXPECT_EQ(alone[2].tokens.size(), 4u);
    EXPECT_TRUE(alone[0].probs.empty());
    EXPECT_EQ(alone[1].probs.size(), 3u);
    for (const int64_t chunk : {1, 7, 16}) {
      ThreadPool one(1);
      Exec single{one};
      EaglePair chunked(single, *target_, Tiny(name(), R"({"num_steps":4})"), MakerOf(name()), {},
                        kv);
      for (const DraftQuery& query : queries) chunked.Prefill(query.slot, query.tokens, chunk);
      const std::vector<Draft> together = chunked.Propose(queries);
      for (size_t q = 0; q < queries.size(); ++q) {
        EXPECT_TRUE(SameDraft(together[q], alone[q]))
            << Name(kv) << " chunk " << chunk << " query " << q;
      }
    }
  }
}

TEST_P(EagleTest, TreesTooAreAFunctionOfTheContext) {
  const std::vector<int32_t> a = Text(50, 1), b = Text(21, 2), c = Text(2, 3);
  std::vector<DraftQuery> queries = {Query(2, a, 8), Query(0, b, 5, Sampling(0.8)), Query(3, c, 8)};
  queries[1].max_depth = 2;
  EaglePair whole = MakeTrees(), chunked = MakeTrees();
  std::vector<Draft> alone;
  for (const DraftQuery& query : queries) {
    whole.Prefill(query.slot, query.tokens);
    alone.push_back(whole.Propose(query));
    chunked.Prefill(query.slot, query.tokens, 7);
  }
  const std::vector<Draft> together = chunked.Propose(queries);
  for (size_t q = 0; q < queries.size(); ++q) EXPECT_TRUE(SameTree(together[q], alone[q])) << q;
  EXPECT_EQ(alone[0].tokens.size(), 8u);
  EXPECT_EQ(alone[1].tokens.size(), 5u);
  for (const Draft& tree : alone) {
    EXPECT_TRUE(tree.probs.empty());
    std::set<std::pair<int32_t, int32_t>> seen;  // children of one parent differ
    std::vector<int32_t> depth;
    for (size_t i = 0; i < tree.tokens.size(); ++i) {
      ASSERT_GE(tree.parents[i], -1);
      ASSERT_LT(tree.parents[i], static_cast<int32_t>(i));
      depth.push_back(tree.parents[i] < 0 ? 1 : depth[static_cast<size_t>(tree.parents[i])] + 1);
      EXPECT_LE(depth.back(), &tree == &alone[1] ? 2 : 3);
      EXPECT_TRUE(seen.emplace(tree.parents[i], tree.tokens[i]).second);
      EXPECT_TRUE(tree.confidence[i] > 0 && tree.confidence[i] <= 1);
    }
  }
  // The first child of each level is what a greedy chain takes.
  EaglePair chain = Make();
  chain.Prefill(2, a);
  EXPECT_EQ(chain.Propose(Query(2, a, 1)).tokens[0], alone[0].tokens[0]);
}

TEST_P(EagleTest, FewerTokensAreAPrefix) {
  const std::vector<int32_t> tokens = Text(30, 4);
  EaglePair pair = Make();
  pair.Prefill(0, tokens);
  const Draft full = pair.Propose(Query(0, tokens, 4));
  for (int32_t n = 1; n <= 4; ++n) {
    const Draft draft = pair.Propose(Query(0, tokens, n));
    ASSERT_EQ(draft.tokens.size(), static_cast<size_t>(n));
    EXPECT_TRUE(std::equal(draft.tokens.begin(), draft.tokens.end(), full.tokens.begin()));
    EXPECT_TRUE(
        std::equal(draft.confidence.begin(), draft.confidence.end(), full.confidence.begin()));
  }
}

// Whatever was drafted and refused, the next draft is that of a sequence without detours.
TEST_P(EagleTest, RejectedRowsLeaveNoTrace) {
  const std::vector<int32_t> tokens = Text(60, 5);
  const std::span<const int32_t> all = tokens;
  for (int64_t accepted = 0; accepted <= kSteps; ++accepted) {
    EaglePair straight = Make(), detour = Make();
    // The anchor of the round stands at every place of a tile in turn.
    const size_t n = static_cast<size_t>(28 + accepted);
    detour.Prefill(1, all.first(n + 1));
    const DraftQuery early = Query(1, all.first(n + 1), kSteps);
    const Draft first = detour.Propose(early);
    EXPECT_TRUE(SameDraft(detour.Propose(early), first));  // proposing leaves nothing behind
    std::vector<int32_t> rows(all.begin(), all.begin() + static_cast<int64_t>(n) + 1 + accepted);
    while (rows.size() < n + 1 + kSteps) rows.push_back((tokens[rows.size()] + 1) % 511);
    const size_t length = n + 1 + static_cast<size_t>(accepted);
    detour.Step(1, rows, all.first(length + 1), 1 + kSteps, 1 + accepted);
    straight.Prefill(1, all.first(length + 1));
    const DraftQuery late = Query(1, all.first(length + 1), kSteps);
    EXPECT_TRUE(SameDraft(detour.Propose(late), straight.Propose(late))) << accepted;
  }
}

// Two prompts share blocks and part behind them: the row of the last shared position depends on
// the token behind it, and neither may see the other's.
TEST_P(EagleTest, PrefixHitsChangeNothing) {
  const std::vector<int32_t> shared = Text(48, 1);
  const SamplingParams sampling = Sampling(0.9, 50);
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    for (const size_t common : {16u, 32u, 48u}) {
      const std::span<const int32_t> prefix = std::span(shared).first(common);
      const std::vector<int32_t> a = Joined(prefix, Text(9, 2)), b = Joined(prefix, Text(3, 3));
      const DraftQuery of_a = Query(0, a, kSteps), of_b = Query(1, b, kSteps, sampling, {5, 0});
      EaglePair cold = Make({}, kv, false), warm = Make({}, kv),
                broken = Make({.lose_hidden = true}, kv);
      EXPECT_EQ(cold.Prefill(0, a), 0);
      EXPECT_EQ(cold.Prefill(1, b), 0);
      const Draft expect_a = cold.Propose(of_a), expect_b = cold.Propose(of_b);
      EXPECT_EQ(warm.Prefill(0, a), 0);
      EXPECT_TRUE(SameDraft(warm.Propose(of_a), expect_a));
      EXPECT_EQ(warm.Prefill(1, b), static_cast<int64_t>(common));
      EXPECT_TRUE(SameDraft(warm.Propose(of_b), expect_b)) << Name(kv) << " " << common;
      EXPECT_TRUE(SameDraft(warm.Propose(of_a), expect_a)) << Name(kv) << " " << common;
      // Again with nobody running but the cache.
      warm.Close(0);
      warm.Close(1);
      EXPECT_GT(warm.Prefill(0, a), 0);
      EXPECT_TRUE(SameDraft(warm.Propose(of_a), expect_a));
      // The comparison sees it when the row behind the hit is wrong.
      broken.Prefill(0, a);
      broken.Prefill(1, b);
      EXPECT_FALSE(SameDraft(broken.Propose(of_b), expect_b));
    }
  }
}

// A hit of all tokens but the last is drafted behind at once: nothing was observed.
TEST_P(EagleTest, DraftsRightBehindAPrefixHit) {
  const std::vector<int32_t> tokens = Text(49, 1);
  const DraftQuery query = Query(1, tokens, kSteps, Sampling(0.9), {5, 0});
  EaglePair cold = Make({}, DType::kF32, false), warm = Make(),
            broken = Make({.lose_hidden = true});
  cold.Prefill(1, tokens);
  const Draft expected = cold.Propose(query);
  for (EaglePair* pair : {&warm, &broken}) {
    pair->Prefill(0, tokens);
    ASSERT_EQ(pair->cache().Open(1, tokens), 48);
    EXPECT_EQ(SameDraft(pair->Propose(query), expected), pair == &warm);
  }
  EaglePair cold_trees = MakeTrees(false), trees = MakeTrees();
  const DraftQuery tree = Query(1, tokens, 8);
  cold_trees.Prefill(1, tokens);
  trees.Prefill(0, tokens);
  ASSERT_EQ(trees.cache().Open(1, tokens), 48);
  EXPECT_TRUE(SameTree(trees.Propose(tree), cold_trees.Propose(tree)));
}

// A sequence that was preempted comes back by prefix hits and recomputation.
TEST_P(EagleTest, ResumeIsAFreshPrefill) {
  const std::vector<int32_t> tokens = Text(70, 6);
  const std::span<const int32_t> all = tokens;
  EaglePair pair = Make();
  pair.Prefill(0, all.first(20), 7);
  for (size_t length = 20; length < 60; length += 3) {
    const std::span<const int32_t> now = all.first(length + 3);
    pair.Propose(Query(0, all.first(length), kSteps));
    pair.Step(0, now, now, 3 - 1 + 1, 3);
  }
  const size_t length = static_cast<size_t>(pair.cache().Length(0)) + 1;
  const DraftQuery query = Query(2, all.first(length), kSteps);
  pair.Close(0);
  EXPECT_GE(pair.Prefill(2, query.tokens), 48);
  EaglePair fresh = Make({}, DType::kF32, false);
  EXPECT_EQ(fresh.Prefill(2, query.tokens), 0);
  EXPECT_TRUE(SameDraft(pair.Propose(query), fresh.Propose(query)));
}

// q is what was sampled, in the target's ids.
TEST_P(EagleTest, ProbsAreWhatWasSampled) {
  const std::vector<int32_t> tokens = Text(25, 6);
  EaglePair pair = Make();
  pair.Prefill(0, tokens);
  const SamplingParams sampling = Sampling(1.3, 50, 0.9);
  const NoiseKey noise{12345, 2};
  const Draft draft =
      pair.Propose(Query(0, tokens, kSteps, sampling, noise, NoisePurpose::kTargetGumbel));
  ASSERT_EQ(draft.probs.size(), 4u);
  const size_t vocab = pair.probe().logits.size() / kSteps;
  EXPECT_EQ(vocab, name() == "eagle3_specforge" ? 128u : 512u);
  for (size_t i = 0; i < 4; ++i) {
    const Distribution q =
        MakeDistribution(std::span(pair.probe().logits).subspan(i * vocab, vocab), sampling);
    EXPECT_EQ(draft.probs[i].probs, q.probs);
    EXPECT_EQ(draft.probs[i].ids == q.ids, vocab == 512);
    EXPECT_TRUE(std::ranges::is_sorted(draft.probs[i].ids));
    EXPECT_LT(draft.probs[i].ids.back(), 512);
    EXPECT_EQ(draft.tokens[i], SampleWithNoise(draft.probs[i], noise, 25 + static_cast<int64_t>(i),
                                               NoisePurpose::kTargetGumbel));
  }
  EaglePair greedy =
      MakePair(name(), {}, DType::kF32, R"({"num_steps":4,"draft_sample_method":"greedy"})");
  greedy.Prefill(0, tokens);
  EXPECT_TRUE(SameDraft(greedy.Propose(Query(0, tokens, kSteps, sampling)),
                        pair.Propose(Query(0, tokens, kSteps))));
}

// Drafts that agree in their first k tokens agree in their first k + 1 confidences.
TEST_P(EagleTest, ConfidenceComesBeforeItsToken) {
  const std::vector<int32_t> tokens = Text(25, 7);
  EaglePair pair = Make();
  pair.Prefill(0, tokens);
  const SamplingParams hot = Sampling(3);
  std::vector<Draft> drafts;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    drafts.push_back(pair.Propose(Query(0, tokens, kSteps, hot, NoiseKey{seed, 0})));
    for (const float c : drafts.back().confidence) EXPECT_TRUE(c > 0 && c <= 1);
  }
  int different_first = 0, later_differs = 0;
  for (const Draft& draft : drafts) {
    size_t k = 0;
    while (k < 4 && draft.tokens[k] == drafts[0].tokens[k]) ++k;
    for (size_t i = 0; i < std::min<size_t>(k + 1, 4); ++i)
      EXPECT_EQ(draft.confidence[i], drafts[0].confidence[i]);
    if (k == 0) ++different_first;
    if (k == 0 && draft.confidence[1] != drafts[0].confidence[1]) ++later_differs;
  }
  EXPECT_GT(different_first, 15);
  EXPECT_EQ(later_differs, different_first);
}

TEST_P(EagleTest, BallastChangesNothing) {
  const std::vector<int32_t> tokens = Text(25, 8);
  DrafterContext heavy = Tiny(name(), R"({"num_steps":4})");
  heavy.options.ballast_layers = 2;
  heavy.options.ballast_width = 300;
  EaglePair plain = Make(), loaded(exec_, *target_, heavy, MakerOf(name()));
  plain.Prefill(0, tokens);
  loaded.Prefill(0, tokens);
  const DraftQuery query = Query(0, tokens, kSteps);
  EXPECT_TRUE(SameDraft(plain.Propose(query), loaded.Propose(query)));
  EXPECT_GT(loaded.drafter().info().weight_bytes,
            plain.drafter().info().weight_bytes + 2 * 3 * 300 * 64 * 2);
}

TEST_P(EagleTest, RefusesRowsThatDoNotFit) {
  EaglePair pair = Make();
  const std::vector<int32_t> tokens = Text(40, 1);
  Workspace workspace;
  const int64_t width = name() == "eagle" ? 64 : 192;
  const Matrix<float> features = workspace.Floats(8, width), narrow = workspace.Floats(8, 32);
  pair.cache().Open(0, {});
  ASSERT_TRUE(pair.cache().Reserve(0, 40));
  const auto observe = [&](CommittedRows rows, ConstMatrix f) {
    return pair.drafter().Observe(exec_, {&rows, 1}, f, pair.cache(), workspace);
  };
  EXPECT_THAT(observe({0, 0, 9, 0, tokens}, features).message(), HasSubstr("do not fit"));
  EXPECT_THAT(observe({0, 0, 8, 0, tokens}, narrow).message(), HasSubstr("wide"));
  EXPECT_THAT(observe({0, 5, 8, 0, tokens}, features).message(),
              HasSubstr("goes on behind position 4, observed last was -1"));
  EXPECT_TRUE(observe({0, 0, 0, 0, tokens}, features).ok());
  std::vector<Draft> drafts;
  const auto propose = [&](DraftQuery query) {
    return pair.drafter().Propose(exec_, {&query, 1}, pair.cache(), workspace, &drafts);
  };
  EXPECT_EQ(propose(Query(0, {}, 1)).code(), StatusCode::kInternal);
  EXPECT_THAT(propose(Query(0, tokens, 1)).message(), HasSubstr("goes on behind position 38"));
  EXPECT_TRUE(propose(Query(0, std::span(tokens).first(1), 1)).ok());
  EXPECT_TRUE(drafts[0].tokens.empty());
  EXPECT_TRUE(pair.drafter().Propose(exec_, {}, pair.cache(), workspace, &drafts).ok());
}

INSTANTIATE_TEST_SUITE_P(Tiny, EagleTest, ::testing::Values("eagle", "eagle3", "eagle3_specforge"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace firesteel
