#include "engine/draft_step.h"

#include <gtest/gtest.h>

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

void ExpectCounts(const DraftCounts& counts, int64_t drafted, int64_t invalidated,
                  int64_t trimmed) {
  EXPECT_EQ(counts.drafted, drafted);
  EXPECT_EQ(counts.invalidated, invalidated);
  EXPECT_EQ(counts.trimmed, trimmed);
  EXPECT_EQ(counts.verified, drafted - invalidated - trimmed);
}

TEST(CutDraft, KeepsAGoodDraft) {
  Draft draft = Tokens({1, 2, 3});
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 3);
  ExpectCounts(counts, 3, 0, 0);
}

TEST(CutDraft, CutsWhatWasNotAskedFor) {
  Draft draft = Tokens({1, 2, 3, 4, 5});
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 3);
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{1, 2, 3}));
  ExpectCounts(counts, 5, 2, 0);
}

TEST(CutDraft, CutsBeforeAnIdThatDoesNotExist) {
  for (int32_t lie : {-1, 100, 1 << 30}) {
    Draft draft = Tokens({1, lie, 3});
    DraftCounts counts;
    EXPECT_EQ(CutDraft(Limits(), {}, 3, &draft, &counts), 1);
    ExpectCounts(counts, 3, 2, 0);
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
  ExpectCounts(counts, 9, 3, 0);
}

TEST(CutDraft, TrimsByConfidence) {
  Draft draft = Tokens({1, 2, 3});
  draft.confidence = {0.9f, 0.4f, 0.9f};
  draft.probs = {Distribution::OneHot(1), Distribution::OneHot(2), Distribution::OneHot(3)};
  DraftCounts counts;
  EXPECT_EQ(CutDraft(Limits(0.5), {}, 3, &draft, &counts), 1);
  EXPECT_EQ(draft.probs.size(), 1u);
  ExpectCounts(counts, 3, 0, 2);
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
  ExpectCounts(counts, 5, 5, 0);
}

TEST(StepStats, CountersAddUpAndFaultsAreNamed) {
  EngineStats stats;
  CountRound(3, 2, 3, &stats);
  CountRound(3, 3, 2, &stats);  // two of four tokens cut
  CountRound(0, 0, 1, &stats);
  stats.spec_drafted = stats.spec_verified = 6;
  EXPECT_TRUE(CheckCounters(stats).ok()) << CheckCounters(stats).message();
  EXPECT_EQ(stats.spec_rounds, 2);
  EXPECT_EQ(stats.spec_rounds_without_draft, 1);
  EXPECT_EQ(stats.spec_cut_by_stop, 2);
  EXPECT_EQ(stats.spec_reached_per_position, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(stats.spec_accepted_per_position, (std::vector<int64_t>{2, 2, 1}));
  EngineStats broken = stats;
  ++broken.spec_drafted;
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

}  // namespace
}  // namespace firesteel
