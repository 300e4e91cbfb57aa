#include "engine/draft_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/draft_guard.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class Plan {
 public:
  explicit Plan(int32_t count, int32_t max_tokens = 100) {
    for (int32_t i = 0; i < count; ++i) {
      Request request;
      request.prompt = {1, 2, 3};
      request.sampling.max_tokens = max_tokens;
      sequences_.push_back(std::make_unique<Sequence>(std::move(request), EventSink(), nullptr,
                                                      std::span<const int32_t>(), 0,
                                                      VerifyRule::kMatch));
      plan.sequences.push_back({.sequence = sequences_.back().get(),
                                .first_position = 2,
                                .num_rows = 1,
                                .decides = true,
                                .max_draft = 7});
    }
  }
  StepPlan plan;

 private:
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

DraftRules Rules(const SpeculationOptions& options) {
  Result<DraftRules> rules = DraftRules::Make(options);
  EXPECT_TRUE(rules.ok()) << rules.status().message();
  return *std::move(rules);
}

TEST(DraftRules, LimitByLoad) {
  const DraftRules rules = Rules({.k_by_load = "1-2:5,3:2,5-:0"});
  for (const auto& [count, most] : {std::pair{1, 5}, {2, 5}, {3, 2}, {4, 7}, {5, 0}, {60, 0}}) {
    Plan p(count);
    const auto reason = rules.Apply(&p.plan);
    for (const auto& planned : p.plan.sequences) EXPECT_EQ(planned.max_draft, most) << count;
    EXPECT_EQ(reason.has_value(), most == 0);
    EXPECT_EQ(reason.value_or(DraftlessReason::kLoad), DraftlessReason::kLoad);
  }
}

TEST(DraftRules, RefuseWhatIsNoTable) {
  for (const char* table : {"5", "1-16", "1-16:", ":3", "a-3:1", "3-1:2", "1-4:2,4-8:1", "0-3:1",
                            "1-4:2,", "1-4:2,,5-:1", "1-4:-1", "1-4:2000", "1:2-4", " 1-4:2"}) {
    const auto rules = DraftRules::Make({.k_by_load = table});
    ASSERT_FALSE(rules.ok()) << table;
    EXPECT_EQ(rules.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(rules.status().message(), HasSubstr("such as 1-16:5,17-48:4,49-:3"));
  }
  EXPECT_FALSE(DraftRules::Make({.min_batch = 0}).ok());
  EXPECT_FALSE(DraftRules::Make({.min_output_tokens = -1}).ok());
}

TEST(DraftRules, WaitForABatch) {
  const DraftRules rules = Rules({.min_batch = 3});
  Plan two(2), three(3);
  EXPECT_EQ(rules.Apply(&two.plan), DraftlessReason::kMinBatch);
  EXPECT_EQ(two.plan.sequences[1].max_draft, 0);
  EXPECT_EQ(rules.Apply(&three.plan), std::nullopt);
  EXPECT_EQ(three.plan.sequences[1].max_draft, 7);
}

TEST(DraftRules, LeaveShortAnswersAlone) {
  const DraftRules rules = Rules({.min_output_tokens = 17});
  Plan shorter(2, 16), longer(2, 17);
  EXPECT_EQ(rules.Apply(&shorter.plan), DraftlessReason::kShortOutput);
  EXPECT_EQ(rules.Apply(&longer.plan), std::nullopt);
}

TEST(DraftGuard, ClosesWhereDraftsLoseAndOpensAgain) {
  DraftGuard guard;
  const auto step = [&](double tokens) {
    if (!guard.Allows()) return false;
    guard.Observe(tokens, 2.0, 1, 1.0);  // twice the time of a plain step
    return true;
  };
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(step(1.9));  // plain decoding gives 2 in that time
  int closed = 0;
  while (!step(1.9)) ++closed;
  EXPECT_EQ(closed, 256);
  for (int i = 1; i < 64; ++i) EXPECT_TRUE(step(1.9));
  for (closed = 0; !step(2.5);) ++closed;
  EXPECT_EQ(closed, 512);
  for (int i = 1; i < 200; ++i) EXPECT_TRUE(step(2.5));
}

TEST(DraftGuard, KeepsOpenWithinTheTolerance) {
  DraftGuard guard;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(guard.Allows());
    guard.Observe(1.97, 2.0, 1, 1.0);
  }
}

}  // namespace
}  // namespace firesteel
