#include <gmock/gmock.h>

#include "speculation/block_drafter_test_support.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  const std::vector<int32_t> a = Text(50, 1), b = Text(21, 2), c = Text(2, 3);
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
  const std::vector<int32_t> a = Text(20, 1), b = Text(33, 2);
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
  const std::vector<int32_t> tokens = Text(30, 4);
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
  const std::vector<int32_t> tokens = Text(40, 5);
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
  const std::vector<int32_t> tokens = Text(25, 6);
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
      const int64_t place = purpose == NoisePurpose::kDraftGumbel
                                ? RoundPosition(24, static_cast<int32_t>(i))
                                : 25 + static_cast<int64_t>(i);
      EXPECT_EQ(draft.tokens[i], SampleWithNoise(q, noise, place, purpose));
    }
  }
}

TEST_F(DsparkTest, DraftSampleMethod) {
  const std::vector<int32_t> tokens = Text(25, 6);
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
  const std::vector<int32_t> tokens = Text(25, 7);
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
  const std::vector<int32_t> tokens = Text(25, 8);
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

// Without a Markov head the rows of a block are independent; DeepSpec's DFlash files are such.
TEST_F(DsparkTest, WithoutMarkovOrConfidence) {
  const std::vector<int32_t> tokens = Text(25, 10);
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

TEST_F(DsparkTest, RefusesRowsThatDoNotFit) {
  Result<std::unique_ptr<Drafter>> drafter = MakeDspark(Context(dir_.path()));
  ASSERT_TRUE(drafter.ok());
  KvCache cache({{target_->CacheGroups(DType::kF32)[0], (*drafter)->CacheGroups(DType::kF32)[0]}},
                {.num_blocks = 4, .max_slots = 1});
  cache.Open(0, {});
  ASSERT_TRUE(cache.Reserve(0, 32));
  Workspace workspace;
  const std::vector<int32_t> tokens = Text(16, 1);
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

}  // namespace
}  // namespace firesteel
