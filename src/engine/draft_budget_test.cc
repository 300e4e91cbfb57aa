#include "engine/draft_budget.h"

#include <gtest/gtest.h>

#include <memory>

namespace firesteel {
namespace {

// `count` sequences that decode and may each have `max_draft` tokens.
class Step {
 public:
  Step(int32_t count, int32_t max_draft, VerifyRule rule = VerifyRule::kMatch) {
    for (int32_t i = 0; i < count; ++i) {
      Request request;
      request.prompt = {1, 2, 3};
      request.sampling.temperature = rule == VerifyRule::kMatch ? 0 : 1;
      sequences_.push_back(std::make_unique<Sequence>(std::move(request), EventSink(), nullptr,
                                                      std::span<const int32_t>(), 0, rule));
    }
    Reset(max_draft);
  }

  void Reset(int32_t max_draft) {
    plan.sequences.clear();
    for (const auto& s : sequences_) {
      plan.sequences.push_back({.sequence = s.get(),
                                .first_position = 2,
                                .num_rows = 1,
                                .decides = true,
                                .max_draft = max_draft});
    }
  }

  // Whole drafts for those who may have one.
  void Draft(float confidence, bool sampled = false) {
    drafts.assign(plan.sequences.size(), {});
    counts = {};
    for (size_t i = 0; i < drafts.size(); ++i) {
      const auto n = static_cast<size_t>(plan.sequences[i].max_draft);
      drafts[i].tokens.assign(n, 7);
      if (confidence > 0) drafts[i].confidence.assign(n, confidence);
      if (sampled) drafts[i].probs.assign(n, Distribution{{7}, {1.0f}});
      counts.drafted += static_cast<int64_t>(n);
      counts.verified += static_cast<int64_t>(n);
    }
  }

  int64_t NumDrafting() const {
    return std::ranges::count_if(plan.sequences, [](const auto& p) { return p.max_draft > 0; });
  }
  int64_t NumTokens() const {
    int64_t tokens = 0;
    for (const auto& draft : drafts) tokens += static_cast<int64_t>(draft.tokens.size());
    return tokens;
  }

  StepPlan plan;
  std::vector<firesteel::Draft> drafts;
  DraftCounts counts;

 private:
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

StepCost Cost(double per_row, double draft) {
  return {CostCurve({{1, 1.0}, {2, 1.0 + per_row}}), CostCurve({{1, draft}})};
}

TEST(DraftBudget, LeavesAllAsItIsWhenNotAutomatic) {
  DraftBudget budget(false, 7);
  budget.SetCost(Cost(10, 10));
  Step step(2, 7);
  budget.BeforeDrafts(&step.plan);
  step.Draft(0.01f);
  budget.Trim(step.plan, &step.drafts, &step.counts);
  EXPECT_EQ(step.NumTokens(), 14);
}

TEST(DraftBudget, GoesByTheTableWhereNothingWasMeasured) {
  DraftBudget budget(true, 7);
  for (const auto& [sequences, length] : {std::pair{1, 5}, {17, 4}, {64, 3}}) {
    Step step(sequences, 7);
    budget.BeforeDrafts(&step.plan);
    for (const auto& planned : step.plan.sequences) EXPECT_EQ(planned.max_draft, length);
  }
}

TEST(DraftBudget, DraftsWholeWhereRowsAreFree) {
  DraftBudget budget(true, 7);
  budget.SetCost(Cost(0, 0.01));
  Step step(4, 7);
  budget.BeforeDrafts(&step.plan);
  EXPECT_EQ(step.NumDrafting(), 4);
  step.Draft(0.9f);
  budget.Trim(step.plan, &step.drafts, &step.counts);
  EXPECT_EQ(step.NumTokens(), 28);
}

TEST(DraftBudget, DoesNotDraftWhereItDoesNotPayButProbes) {
  DraftBudget budget(true, 7);
  budget.SetCost(Cost(1, 0.5));  // every row costs a step
  int64_t drafts = 0, steps_with_drafts = 0;
  for (int i = 0; i < 1000; ++i) {
    Step step(8, 7);
    budget.BeforeDrafts(&step.plan);
    drafts += step.NumDrafting();
    steps_with_drafts += step.NumDrafting() > 0;
  }
  EXPECT_GT(steps_with_drafts, 2);
  EXPECT_LT(steps_with_drafts, 12);
  EXPECT_EQ(drafts, 2 * steps_with_drafts);
}

TEST(DraftBudget, ADrafterThatCostsMoreThanItBringsIsLeftAlone) {
  DraftBudget budget(true, 7);
  budget.SetCost(Cost(0, 100));
  Step step(1, 7);
  budget.BeforeDrafts(&step.plan);
  EXPECT_EQ(step.NumDrafting(), 0);
}

TEST(DraftBudget, CutsUnlikelyTokensAndCountsThem) {
  DraftBudget budget(true, 7);
  budget.SetCost(Cost(0.05, 0.01));
  Step step(4, 7);
  budget.BeforeDrafts(&step.plan);
  ASSERT_EQ(step.NumDrafting(), 4);
  step.Draft(0.5f);
  budget.Trim(step.plan, &step.drafts, &step.counts);
  EXPECT_GT(step.NumTokens(), 0);
  EXPECT_LT(step.NumTokens(), 28);
  EXPECT_EQ(step.counts.verified, step.NumTokens());
  EXPECT_EQ(step.counts.trimmed, 28 - step.NumTokens());
  for (const auto& draft : step.drafts) EXPECT_EQ(draft.confidence.size(), draft.tokens.size());
}

// How many tokens of sampled drafts are verified is decided before they are drawn: their own
// confidences only say which.
TEST(DraftBudget, SampledDraftsDoNotChangeHowManyAreVerified) {
  for (const VerifyRule rule : {VerifyRule::kByDraft, VerifyRule::kRejection}) {
    std::vector<int64_t> tokens;
    for (const float confidence : {0.3f, 0.95f}) {
      DraftBudget budget(true, 7);
      budget.SetCost(Cost(0.05, 0.01));
      Step step(4, 7, rule);
      budget.BeforeDrafts(&step.plan);
      step.Draft(confidence, true);
      budget.Trim(step.plan, &step.drafts, &step.counts);
      tokens.push_back(step.NumTokens());
      for (const auto& draft : step.drafts) EXPECT_EQ(draft.probs.size(), draft.tokens.size());
    }
    EXPECT_EQ(tokens[0], tokens[1]);
    EXPECT_GT(tokens[0], 0);
    EXPECT_LT(tokens[0], 28);
  }
}

TEST(DraftBudget, LearnsThatDraftsAreRefused) {
  DraftBudget budget(true, 7);
  budget.SetCost(Cost(0.1, 0.1));
  Step step(2, 7);
  bool stopped = false;
  for (int i = 0; i < 100 && !stopped; ++i) {
    step.Reset(7);
    budget.BeforeDrafts(&step.plan);
    stopped = step.NumDrafting() == 0;
    step.Draft(0);
    budget.Trim(step.plan, &step.drafts, &step.counts);
    const std::vector<SequenceVerdict> verdicts(2);  // nothing accepted
    budget.Learn(step.plan, step.drafts, verdicts);
  }
  EXPECT_TRUE(stopped);
}

// Three children of the anchor, two of the first of them, one of that.
Draft SmallTree(std::vector<float> confidence) {
  firesteel::Draft tree;
  tree.tokens = {1, 2, 3, 4, 5, 6};
  tree.parents = {-1, 0, 1, 0, -1, -1};
  tree.confidence = std::move(confidence);
  return tree;
}

TEST(DraftBudget, OfATreeTheLikeliestNodesStayWithTheirAncestors) {
  DraftBudget budget(true, 8);
  budget.SetCost(Cost(0.12, 0.01));
  Step step(1, 8);
  step.plan.sequences[0].max_depth = 3;
  budget.BeforeDrafts(&step.plan);
  ASSERT_EQ(step.NumDrafting(), 1);
  // Survivals: 0.6, 0.48, 0.38, 0.06 below the first; 0.3 and 0.001 beside it.
  step.drafts = {SmallTree({0.6f, 0.8f, 0.8f, 0.1f, 0.3f, 0.001f})};
  step.counts = {.drafted = 6, .verified = 6};
  budget.Trim(step.plan, &step.drafts, &step.counts);
  EXPECT_EQ(step.drafts[0].tokens, (std::vector<int32_t>{1, 2, 3, 5}));
  EXPECT_EQ(step.drafts[0].parents, (std::vector<int32_t>{-1, 0, 1, -1}));
  EXPECT_EQ(step.counts.trimmed, 2);
  EXPECT_EQ(step.counts.verified, 4);
}

TEST(DraftBudget, ATreeWithoutConfidencesGoesByItsLevelsAndTheOrderOfBrothers) {
  DraftBudget budget(true, 8);
  budget.SetCost(Cost(0.2, 0.01));
  Step step(1, 8);
  step.plan.sequences[0].max_depth = 3;
  budget.BeforeDrafts(&step.plan);
  step.drafts = {SmallTree({})};
  step.counts = {.drafted = 6, .verified = 6};
  budget.Trim(step.plan, &step.drafts, &step.counts);
  ASSERT_FALSE(step.drafts[0].tokens.empty());
  EXPECT_LT(step.drafts[0].tokens.size(), 6u);
  EXPECT_EQ(step.drafts[0].tokens[0], 1);
}

TEST(DraftBudget, LearnsThatTreesAreRefused) {
  DraftBudget budget(true, 8);
  budget.SetCost(Cost(0.1, 0.1));
  Step step(2, 8);
  bool stopped = false;
  for (int i = 0; i < 200 && !stopped; ++i) {
    step.Reset(8);
    for (auto& planned : step.plan.sequences) planned.max_depth = 3;
    budget.BeforeDrafts(&step.plan);
    stopped = step.NumDrafting() == 0;
    if (stopped) break;
    step.drafts.assign(2, SmallTree({}));
    step.counts = {.drafted = 12, .verified = 12};
    budget.Trim(step.plan, &step.drafts, &step.counts);
    const std::vector<SequenceVerdict> verdicts(2);  // nothing accepted
    budget.Learn(step.plan, step.drafts, verdicts);
  }
  EXPECT_TRUE(stopped);
}

TEST(DraftBudget, WithoutMeasurementsTreesAreForFewSequences) {
  for (const auto& [sequences, nodes] : {std::pair{1, 60}, {4, 60}, {5, 5}, {20, 4}}) {
    DraftBudget budget(true, 60);
    Step step(sequences, 60);
    for (auto& planned : step.plan.sequences) planned.max_depth = 6;
    budget.BeforeDrafts(&step.plan);
    for (const auto& planned : step.plan.sequences) EXPECT_EQ(planned.max_draft, nodes);
  }
}

}  // namespace
}  // namespace firesteel
