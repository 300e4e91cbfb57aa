#include "engine/draft_step.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/step_stats.h"

namespace firesteel {
namespace {

constexpr int32_t kEos[] = {9};

DraftLimits Limits(double threshold = 0) {
  return {.vocab_size = 100, .confidence_threshold = threshold, .eos = kEos};
}

Draft Tokens(std::vector<int32_t> tokens) {
  Draft draft;
  draft.tokens = std::move(tokens);
  return draft;
}

// Also that what is drafted is invalidated, trimmed or verified, and nothing twice.
void ExpectCounts(const DraftCounts& counts, const DraftCounts& expected) {
  EXPECT_EQ(counts.drafted, expected.drafted);
  EXPECT_EQ(counts.invalidated_eos, expected.invalidated_eos);
  EXPECT_EQ(counts.invalidated_limit, expected.invalidated_limit);
  EXPECT_EQ(counts.invalidated_malformed, expected.invalidated_malformed);
  EXPECT_EQ(counts.trimmed, expected.trimmed);
  EXPECT_EQ(counts.verified, expected.verified);
  EngineStats stats;
  CountDrafts(counts, &stats);
  EXPECT_TRUE(CheckCounters(stats).ok()) << CheckCounters(stats).message();
}

TEST(CutDraft, KeepsAGoodDraft) {
  Draft draft = Tokens({1, 2, 3});
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 3);
  ExpectCounts(counts, {.drafted = 3, .verified = 3});
}

TEST(CutDraft, CutsWhatWasNotAskedFor) {
  Draft draft = Tokens({1, 2, 3, 4, 5});
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 3);
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{1, 2, 3}));
  ExpectCounts(counts, {.drafted = 5, .invalidated_limit = 2, .verified = 3});
}

TEST(CutDraft, CutsBeforeAnIdThatDoesNotExist) {
  for (int32_t lie : {-1, 100, 1 << 30}) {
    Draft draft = Tokens({1, lie, 3});
    DraftCounts counts;
    EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 1);
    ExpectCounts(counts, {.drafted = 3, .invalidated_malformed = 2, .verified = 1});
  }
}

TEST(CutDraft, CutsBehindAnEndUnlessIgnored) {
  DraftCounts counts;
  Draft draft = Tokens({1, 9, 3});
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 2);
  SamplingParams sampling;
  sampling.ignore_eos = true;
  draft = Tokens({1, 9, 3});
  EXPECT_EQ(CutDraft(Limits(), sampling, 3, &draft, &counts), 3);
  sampling.stop_token_ids = {1};
  draft = Tokens({1, 9, 3});
  EXPECT_EQ(CutDraft(Limits(), sampling, 3, &draft, &counts), 1);
  ExpectCounts(counts, {.drafted = 9, .invalidated_eos = 3, .verified = 6});
}

TEST(CutDraft, CountsUnderTheReasonThatCameFirst) {
  DraftCounts counts;
  Draft draft = Tokens({1, 9, 3, 100, 5});
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 2);
  ExpectCounts(counts, {.drafted = 5, .invalidated_eos = 3, .verified = 2});
  draft = Tokens({1, 100, 9, 4, 5});
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 1);
  draft = Tokens({1, 2, 100, 9});
  EXPECT_EQ(CutDraft(Limits(), {}, 2, &draft, &counts), 2);
  draft = Tokens({1, 9});  // the end itself is verified
  EXPECT_EQ(CutDraft(Limits(), {}, 2, &draft, &counts), 2);
  ExpectCounts(counts, {.drafted = 16,
                        .invalidated_eos = 3,
                        .invalidated_limit = 2,
                        .invalidated_malformed = 4,
                        .verified = 7});
}

TEST(CutDraft, TrimsByConfidence) {
  Draft draft = Tokens({1, 2, 3});
  draft.confidence = {0.9f, 0.4f, 0.9f};
  draft.probs = {Distribution::OneHot(1), Distribution::OneHot(2), Distribution::OneHot(3)};
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(0.5), {}, 3, &draft, &counts), 1);
  EXPECT_EQ(draft.probs.size(), 1u);
  ExpectCounts(counts, {.drafted = 3, .trimmed = 2, .verified = 1});
}

TEST(CutDraft, DropsADraftWhosePartsDoNotMatch) {
  Draft draft = Tokens({1, 2, 3});
  draft.probs = {Distribution::OneHot(1)};
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 0);
  EXPECT_TRUE(draft.probs.empty());
  draft = Tokens({1, 2});
  draft.confidence = {0.9f};
  EXPECT_EQ(CutDraft(Limits(0.5), {}, 3, &draft, &counts), 0);
  ExpectCounts(counts, {.drafted = 5, .invalidated_malformed = 5});
}

Draft Tree(std::vector<int32_t> parents, std::vector<int32_t> tokens) {
  Draft draft = Tokens(std::move(tokens));
  draft.parents = std::move(parents);
  return draft;
}

TEST(CutTree, KeepsAGoodTreeInPreorder) {
  Draft draft = Tree({-1, -1, 0, 1, 0}, {1, 2, 3, 4, 5});
  DraftCounts counts;
  EXPECT_EQ(CutTree(Limits(), {}, 5, 2, &draft, &counts), 5);
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{1, 3, 5, 2, 4}));
  EXPECT_EQ(draft.parents, (std::vector<int32_t>{-1, 0, 0, -1, 3}));
  ExpectCounts(counts, {.drafted = 5, .verified = 5});
}

TEST(CutTree, ATreeThatIsAChainBecomesOne) {
  Draft draft = Tree({-1, 0, 1}, {1, 2, 3});
  draft.probs.assign(3, Distribution::OneHot(0));
  DraftCounts counts;
  EXPECT_EQ(CutTree(Limits(), {}, 5, 5, &draft, &counts), 3);
  EXPECT_TRUE(draft.parents.empty());
  EXPECT_TRUE(draft.probs.empty());  // else the rule of chains would trust them
}

TEST(CutTree, CutsNodesAndLevelsThatWereNotAskedFor) {
  Draft draft = Tree({-1, 0, 1, -1, 3}, {1, 2, 3, 4, 5});
  DraftCounts counts;
  EXPECT_EQ(CutTree(Limits(), {}, 4, 2, &draft, &counts), 3);
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(draft.parents, (std::vector<int32_t>{-1, 0, -1}));
  ExpectCounts(counts, {.drafted = 5, .invalidated_limit = 2, .verified = 3});
}

TEST(CutTree, ANodeGoesWithItsDescendantsUnderItsReason) {
  //          1 -> 2 (end) -> 3;  100 (no such id) -> 9 (end) -> 5;  6 -> 7;  6 again -> 8
  Draft draft = Tree({-1, 0, 1, -1, 3, 4, -1, 6, -1, 8}, {1, 9, 3, 100, 9, 5, 6, 7, 6, 8});
  DraftCounts counts;
  EXPECT_EQ(CutTree(Limits(), {}, 20, 20, &draft, &counts), 4);
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{1, 9, 6, 7}));
  EXPECT_EQ(draft.parents, (std::vector<int32_t>{-1, 0, -1, 2}));
  ExpectCounts(counts,
               {.drafted = 10, .invalidated_eos = 1, .invalidated_malformed = 5, .verified = 4});
}

TEST(CutTree, TrimsByConfidence) {
  Draft draft = Tree({-1, -1, 0, 1, 0}, {1, 2, 3, 4, 5});
  draft.confidence = {0.9f, 0.4f, 0.5f, 0.9f, std::numeric_limits<float>::quiet_NaN()};
  DraftCounts counts;
  EXPECT_EQ(CutTree(Limits(0.5), {}, 5, 5, &draft, &counts), 2);
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{1, 3}));
  EXPECT_TRUE(draft.parents.empty());
  EXPECT_EQ(draft.confidence, (std::vector<float>{0.9f, 0.5f}));
  ExpectCounts(counts, {.drafted = 5, .trimmed = 3, .verified = 2});
}

TEST(CutTree, DropsATreeWhoseOrderOrSizesAreWrong) {
  int64_t drafted = 0;
  DraftCounts counts;
  for (std::vector<int32_t> parents : std::vector<std::vector<int32_t>>{
           {0, -1}, {-1, 1}, {1, 0}, {-1, -2}, {-1, 1 << 30}, {-1}, {-1, 0, 0}}) {
    Draft draft = Tree(parents, {1, 2});
    EXPECT_EQ(CutTree(Limits(), {}, 5, 5, &draft, &counts), 0);
    EXPECT_TRUE(draft.tokens.empty());
    EXPECT_TRUE(draft.parents.empty());
    drafted += 2;
  }
  Draft draft = Tree({-1, -1}, {1, 2});
  draft.confidence = {0.5f};
  EXPECT_EQ(CutTree(Limits(), {}, 5, 5, &draft, &counts), 0);
  draft = Tree({-1, -1}, {1, 2});
  draft.probs.assign(3, Distribution::OneHot(0));
  EXPECT_EQ(CutTree(Limits(), {}, 5, 5, &draft, &counts), 0);
  drafted += 4;
  ExpectCounts(counts, {.drafted = drafted, .invalidated_malformed = drafted});
}

TEST(StepStats, CountersAddUpAndFaultsAreNamed) {
  EngineStats stats;
  CountRound(DraftRound::OfChain(3, 2), 3, &stats);
  CountRound(DraftRound::OfChain(3, 3), 2, &stats);  // two of four tokens cut
  CountRound(DraftRound::OfChain(0, 0), 1, &stats);
  CountDrafts({.drafted = 12,
               .invalidated_eos = 1,
               .invalidated_limit = 2,
               .invalidated_malformed = 1,
               .trimmed = 2,
               .verified = 6},
              &stats);
  for (double granted : {5, 4, 1}) Record(granted, &stats.spec_budget_rows);
  for (double rows : {8, 1}) Record(rows, &stats.spec_verify_rows);
  EXPECT_TRUE(CheckCounters(stats).ok()) << CheckCounters(stats).message();
  EXPECT_EQ(stats.spec_rounds, 2);
  EXPECT_EQ(stats.spec_rounds_per_length, (std::vector<int64_t>{1, 0, 0, 2}));
  EXPECT_EQ(stats.spec_cut_by_stop, 2);
  EXPECT_EQ(stats.spec_reached_per_position, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(stats.spec_accepted_per_position, (std::vector<int64_t>{2, 2, 1}));
  for (int64_t EngineStats::*counter :
       {&EngineStats::spec_drafted, &EngineStats::spec_invalidated_eos,
        &EngineStats::spec_invalidated_limit, &EngineStats::spec_invalidated_malformed,
        &EngineStats::spec_trimmed, &EngineStats::spec_verified, &EngineStats::spec_rounds}) {
    EngineStats off_by_one = stats;
    ++(off_by_one.*counter);
    EXPECT_FALSE(CheckCounters(off_by_one).ok());
  }
  EngineStats broken = stats;
  ++broken.spec_rounds_per_length[0];
  EXPECT_FALSE(CheckCounters(broken).ok());
  broken = stats;
  --broken.spec_rounds_per_length[3];  // a round that verified less than its rows
  ++broken.spec_rounds_per_length[2];
  EXPECT_FALSE(CheckCounters(broken).ok());
  broken = stats;
  Record(1, &broken.spec_budget_rows);
  EXPECT_FALSE(CheckCounters(broken).ok());
  broken = stats;
  ++broken.generation_tokens;
  EXPECT_FALSE(CheckCounters(broken).ok());
  broken = stats;
  ++broken.spec_accepted_per_position[2];
  EXPECT_FALSE(CheckCounters(broken).ok());
  broken = stats;
  broken.spec_reached_per_position[1] = 3;
  EXPECT_FALSE(CheckCounters(broken).ok());
}

TEST(StepStats, AHistogramCountsABoundInItsOwnBucket) {
  constexpr double kBounds[] = {1, 2};
  StatHistogram histogram{kBounds};
  for (double value : {0.5, 1.0, 1.5, 2.0, 2.0, 7.0}) Record(value, &histogram);
  EXPECT_EQ(histogram.counts[0], 2);
  EXPECT_EQ(histogram.counts[1], 3);
  EXPECT_EQ(histogram.counts[2], 1);
  EXPECT_EQ(NumObserved(histogram), 6);
  EXPECT_EQ(histogram.sum, 14.0);
}

}  // namespace
}  // namespace firesteel
