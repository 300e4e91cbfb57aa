// Where the text of the published reports contradicts their own numbers, the analysis shows the
// numbers. One case per contradiction; figures are those of the reports' tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/golden_support.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ContradictionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { golden_ = new Golden(Golden::FromSeedResults()); }
  static void TearDownTestSuite() { delete golden_; }

  // The hit, and what its finding says.
  static const Hit& Get(const std::string& rule, const std::string& report,
                        const std::string& scenario = "", const std::string& configuration = "",
                        int32_t concurrency = 0) {
    const Hit* hit = golden_->HitOf(rule, report, scenario, configuration, concurrency);
    static const Hit kNone;
    EXPECT_NE(hit, nullptr) << rule << " " << report << " " << scenario;
    return hit == nullptr ? kNone : *hit;
  }
  static double Number(const Hit& hit, const std::string& key) {
    const EvidenceItem* item = hit.Find(key);
    EXPECT_TRUE(item != nullptr && item->value) << hit.rule << " " << key;
    return item != nullptr && item->value ? *item->value : -1;
  }
  static std::string Text(const Hit& hit, const std::string& key) {
    const EvidenceItem* item = hit.Find(key);
    EXPECT_NE(item, nullptr) << hit.rule << " " << key;
    return item == nullptr ? "" : item->text;
  }
  static double Figure(const std::string& stem, const std::string& report,
                       const std::map<std::string, std::string>& row, const std::string& column) {
    const Cell* cell = golden_->At(stem, report, row, column);
    EXPECT_TRUE(cell != nullptr && cell->value) << stem << " " << column;
    return cell != nullptr && cell->value ? *cell->value : -1;
  }

  static const Golden* golden_;
};
const Golden* ContradictionsTest::golden_ = nullptr;

// 1: "draft overhead eats the gain at low concurrency".
TEST_F(ContradictionsTest, ColdStartIsNoDraftOverhead) {
  const Hit& hit = Get("COLD_START", "A", "chat_standard", "DSpark-st5", 1);
  EXPECT_NEAR(Number(hit, "ttft_share"), 0.692, 0.0005);
  EXPECT_NEAR(Number(hit, "stalls_that_explain_ttft"), 5, 0.5);
  EXPECT_NEAR(Number(hit, "decode_ms_per_token"), 4.3, 0.05);
  // The next report, with a longer warm-up.
  EXPECT_THAT(Text(hit, "ttft_elsewhere"), AllOf(HasSubstr("59."), HasSubstr("267.61")));
  EXPECT_EQ(golden_->HitOf("SPEC_LOSS", "B"), nullptr);
  const Hit& elsewhere = Get("NO_BASELINE", "A");
  EXPECT_THAT(Text(elsewhere, "speedup_elsewhere"), HasSubstr("1.75 … 1.81"));
}

// 3: "adding concurrency only lowers throughput".
TEST_F(ContradictionsTest, TheCliffRecovers) {
  const Hit& hit = Get("CLIFF", "A", "long_context_probe", "DSpark-st5", 8);
  EXPECT_EQ(Number(hit, "recovered_at"), 16);
  EXPECT_GE(Number(hit, "recovered_ratio"), 1.005);
  EXPECT_EQ(Number(hit, "new_prompts_pct"), 75);
  EXPECT_THAT(Text(hit, "prompts_change"), HasSubstr("32 → 128"));
  for (const char* scenario : {"long_rag", "long_context_probe"})
    EXPECT_NEAR(Number(Get("TTFT_INVERSION", "A", scenario), "ratio"), 2.86, 0.01);
}

// 4: "P99 is 2 to 4 times the mean nearly everywhere".
TEST_F(ContradictionsTest, TailsLieOutsideTheRangeStated) {
  const Hit& hit = Get("TAIL_RANGE", "A");
  for (const char* outside : {"4.1", "5.3", "5.6", "8.3"})
    EXPECT_THAT(Text(hit, "above_4"), HasSubstr(outside));
  EXPECT_THAT(Text(hit, "expected_from_lengths"), HasSubstr("2.02"));
  // Uniform lengths alone give about 2: these ratios are no tails.
  for (const char* scenario : {"generation_standard", "summarization", "decode_heavy"})
    EXPECT_EQ(golden_->HitOf("TAIL", "A", scenario), nullptr);
  EXPECT_EQ(golden_->HitOf("TAIL", "C", "", "DSpark-st5"), nullptr);
  EXPECT_EQ(golden_->HitOf("TAIL", "C", "", "DSpark-st3"), nullptr);
}

// 8: "from 1 to 16 five tokens are best overall".
TEST_F(ContradictionsTest, ThreeTokensAreAheadAtSixteen) {
  const Hit& hit = Get("AHEAD_ON_ALL", "B", "", "vLLM-dspark + DSpark (st=3)", 16);
  EXPECT_GE(Number(hit, "figures"), 4);
  EXPECT_THAT(Text(hit, "compared"), AllOf(HasSubstr("8.24 / 7.70"), HasSubstr("1992.18 / 1862.34"),
                                           HasSubstr("90.90 / 92.23"), HasSubstr("7.63 / 8.19")));
}

// 9: "five tokens are best at 1".
TEST_F(ContradictionsTest, TheGainAtOneIsShorterAnswers) {
  const Hit& hit = Get("SHORTER_ANSWERS", "B", "", "vLLM-dspark + DSpark (st=5)", 1);
  EXPECT_NEAR(Number(hit, "out_per_request"), 240.4, 0.05);
  EXPECT_NEAR(Number(hit, "other_out_per_request"), 247.0, 0.05);
  EXPECT_NEAR(Number(hit, "output_change_pct"), 1.1, 0.05);
  EXPECT_NEAR(Number(hit, "request_change_pct"), 3.9, 0.05);
  // Within the tolerance, so the choice is 3 at every level.
  for (const char* level : {"1", "16", "64"})
    EXPECT_EQ(Figure("lengths", "B", {{"concurrency", level}}, "choice"), 3);
}

// 10: "three tokens have the highest acceptance rate".
TEST_F(ContradictionsTest, TheRateIsNoReason) {
  const Hit& hit = Get("RATE_FALLS", "B");
  EXPECT_THAT(Text(hit, "rate_and_length"),
              AllOf(HasSubstr("k=3 38.71 % / 2.16"), HasSubstr("k=5 28.07 % / 2.40")));
  EXPECT_THAT(Text(hit, "step_time"), AllOf(HasSubstr("33.13"), HasSubstr("60.10")));
}

// 12: "output length 256, fixed".
TEST_F(ContradictionsTest, TheOutputLengthIsNotFixed) {
  const Hit& hit = Get("EARLY_EOS", "B");
  EXPECT_EQ(Number(hit, "requested"), 256);
  EXPECT_THAT(Text(hit, "observed"),
              AllOf(HasSubstr("233.9"), HasSubstr("247.0"), HasSubstr("208.1 … 208.9")));
  EXPECT_NEAR(Number(Get("UNEQUAL_WORKLOAD", "B", "", "SGLang + EAGLE", 1), "difference_pct"),
              -15.1, 0.05);
  // Hence no winner where the two sides meet.
  const Cell* verdict = golden_->At("winners", "B", {{"concurrency", "64"}}, "winner");
  ASSERT_NE(verdict, nullptr);
  EXPECT_EQ(verdict->text, "–");
}

// 15: figures and levels that were never measured.
TEST_F(ContradictionsTest, NothingIsSaidWithoutData) {
  const Hit& hit = Get("CLAIM_WITHOUT_DATA", "B", "", "DSpark", 64);
  EXPECT_EQ(Number(hit, "stated"), 5381);
  EXPECT_NEAR(Number(hit, "over_mean_ttft"), 11.9, 0.05);
  const Cell* levels =
      golden_->At("coverage", "B", {{"configuration", "SGLang + EAGLE"}}, "ttft_levels");
  ASSERT_NE(levels, nullptr);
  EXPECT_EQ(levels->text, "16");
  const Cell* dspark = golden_->At(
      "coverage", "B", {{"configuration", "vLLM-dspark + DSpark (st=3)"}}, "throughput_levels");
  ASSERT_NE(dspark, nullptr);
  EXPECT_EQ(dspark->text, "1, 16, 64");
  for (const Hit& other : golden_->analysis.hits) EXPECT_NE(other.concurrency, 512);
}

// 20: total throughput beside output throughput.
TEST_F(ContradictionsTest, UnitsAreMixed) {
  const Hit& hit = Get("MIXED_UNITS", "A");
  EXPECT_THAT(Text(hit, "total_and_output_share"),
              AllOf(HasSubstr("9580 (33.3 %)"), HasSubstr("17465 (19.9 %)")));
}

// 21: "input = 1000".
TEST_F(ContradictionsTest, LengthsAreBounds) {
  EXPECT_THAT(Text(Get("LENGTH_BOUND", "C"), "bound_and_mean"),
              HasSubstr("chat_standard@64: 1000 / 256 → 501.6 / "));
}

// 22: one side brought two settings.
TEST_F(ContradictionsTest, OneSideIsTheBestOfTwo) {
  const Hit& hit = Get("BEST_OF", "C", "", "DSpark");
  EXPECT_EQ(Number(hit, "settings"), 2);
  EXPECT_EQ(Text(hit, "points"), "DSpark-st3: 7, DSpark-st5: 11");
  EXPECT_EQ(Text(hit, "settings_of_others"), "EAGLE: 1");
}

// 23: the competitor is not in order.
TEST_F(ContradictionsTest, TheCompetitorIsUnhealthy) {
  const Hit& hit = Get("BASELINE_HEALTH", "C", "", "EAGLE");
  EXPECT_NEAR(Number(hit, "tpot_growth_at_low_load"), 3.35, 0.005);
  EXPECT_NEAR(Number(hit, "replicate_difference_pct"), 19.97, 0.005);
  EXPECT_THAT(Text(hit, "below_earlier_result"),
              AllOf(HasSubstr("99.05 / sharegpt_256@1 243.51"),
                    HasSubstr("520.67 / sharegpt_256@16 1259.00"),
                    HasSubstr("1489.70 / sharegpt_256@64 2012.43")));
  EXPECT_EQ(golden_->HitOf("BASELINE_HEALTH", "C", "", "DSpark"), nullptr);
}

// 24: "TTFT better".
TEST_F(ContradictionsTest, TheLoserIsFasterInPlaces) {
  std::map<std::string, int> points;
  for (const Hit& hit : golden_->analysis.hits) {
    if (hit.rule != "LOSER_BETTER" || hit.campaign != Golden::CampaignOf("C")) continue;
    EXPECT_EQ(hit.configuration, "EAGLE");
    points[Text(hit, "metric")] = static_cast<int>(Number(hit, "points"));
  }
  EXPECT_EQ(points["@metric.mean_ttft_ms"], 2);
  EXPECT_EQ(points["@metric.p99_ttft_ms"], 3);
  EXPECT_EQ(points.count("@metric.mean_tpot_ms"), 0u);
}

// 25: "3 for high concurrency, 5 for low".
TEST_F(ContradictionsTest, TheBestLengthDoesNotFollowTheLoad) {
  const Hit& hit = Get("NOT_MONOTONE", "C");
  EXPECT_EQ(Text(hit, "longer_at_high_load"),
            "chat_short@64 k=5, decode_heavy@32 k=5, rag_medium@32 k=5");
  EXPECT_EQ(Text(hit, "shorter_at_low_load"), "chat_short@8 k=3");
}

// 26: P99s of 32 requests.
TEST_F(ContradictionsTest, FewRequestsMakeNoP99) {
  EXPECT_EQ(Number(Get("P99_UNRESOLVED", "C", "chat_short", "DSpark-st5", 1), "num_prompts"), 32);
  EXPECT_NEAR(Number(Get("P99_UNRESOLVED", "C", "chat_short", "EAGLE", 1), "weight_of_maximum"),
              0.69, 1e-9);
  EXPECT_EQ(golden_->HitOf("P99_UNRESOLVED", "C", "", "", 8), nullptr);
}

// 28: the baseline's limit is part of the speedup.
TEST_F(ContradictionsTest, TheBaselineIsSaturated) {
  const Hit& hit = Get("BASELINE_SATURATED", "B", "", "vLLM-dspark 无投机", 64);
  EXPECT_NEAR(Number(hit, "request_change_pct"), 31, 0.5);
  EXPECT_EQ(Number(hit, "load_factor"), 4);
}

// 29: levels of one scenario do different work.
TEST_F(ContradictionsTest, LevelsDoDifferentWork) {
  const Hit& hit = Get("LEVELS_DIFFER", "A", "chat_standard");
  EXPECT_THAT(Text(hit, "per_level"),
              AllOf(HasSubstr("c=1: N=32, 399"), HasSubstr("145.5"), HasSubstr("N=512, 501.6")));
  EXPECT_THAT(Text(Get("LEVELS_DIFFER", "C", "chat_short"), "per_level"), HasSubstr("N=32, 255.3"));
}

// 30: later scenarios find their prompts in the cache.
TEST_F(ContradictionsTest, ScenariosShareTheirPrompts) {
  std::vector<std::string> cells;
  for (const Hit& hit : golden_->analysis.hits) {
    if (hit.rule != "REPEATED_PROMPTS") continue;
    cells.push_back(Text(hit, "cells"));
    EXPECT_EQ(Number(hit, "seed"), 42);
  }
  EXPECT_THAT(cells,
              ::testing::Contains("chat_standard@64, generation_standard@64, stress_standard@64"));
}

// Advice speaks of measured cells only, and names its findings.
TEST_F(ContradictionsTest, AdviceRestsOnFindings) {
  const std::vector<const Advice*> all = AdviceOf(golden_->document);
  EXPECT_GE(all.size(), 8u);
  for (const Advice* advice : all) {
    EXPECT_FALSE(advice->findings.empty()) << advice->id;
    EXPECT_THAT(advice->action, Not(HasSubstr("512")));
  }
  EXPECT_EQ(all.front()->priority, Priority::kP0);
}

}  // namespace
}  // namespace firesteel
