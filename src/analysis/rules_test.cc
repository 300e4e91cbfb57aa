// Each rule where it must speak and where it must not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/analysis.h"
#include "analysis/fail_if.h"
#include "analysis/report.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;
using Figures = std::map<Metric, double>;

// Results made by hand: one campaign, runs added one at a time.
class Bench {
 public:
  Bench() { results_.campaigns.push_back({.id = ""}); }

  Run& Add(const std::string& configuration, int32_t concurrency, const Figures& figures,
           std::optional<int32_t> spec_tokens = std::nullopt) {
    Run run;
    run.id = fmt::format("R{}", results_.runs.size() + 1);
    run.origins = {{.file = "made", .line = 0}};
    run.scenario = "chat";
    run.configuration.name = configuration;
    run.configuration.engine = "ours";
    run.configuration.method = spec_tokens == 0 ? "none" : "dspark";
    if (!spec_tokens) run.configuration.method = configuration;
    run.configuration.spec_tokens = spec_tokens;
    run.concurrency = concurrency;
    for (const auto& [metric, value] : figures) run.measures.Set(metric, value);
    results_.runs.push_back(run);
    return results_.runs.back();
  }

  Analysis Analysed(AnalysisOptions options = {}) const {
    Result<Analysis> analysis = Analyze(results_, options);
    EXPECT_TRUE(analysis.ok()) << analysis.status().message();
    // Every sentence gets the arguments it asks for: a missing one would end the process here.
    for (const Language language : {Language::kEnglish, Language::kChinese})
      EXPECT_FALSE(BuildReport(*analysis, language).sections.empty());
    return *std::move(analysis);
  }
  std::vector<std::string> Rules(AnalysisOptions options = {}) const {
    std::vector<std::string> names;
    for (const Hit& hit : Analysed(options).hits) names.push_back(hit.rule);
    return names;
  }
  bool Finds(const std::string& rule, AnalysisOptions options = {}) const {
    const std::vector<std::string> rules = Rules(options);
    return std::find(rules.begin(), rules.end(), rule) != rules.end();
  }
  const Results& results() const { return results_; }

 private:
  Results results_;
};

TEST(Rules, ColdStartNeedsTheFirstLevel) {
  const auto bench = [](double first, double share) {
    Bench made;
    made.Add("a", 1, {{Metric::kMeanTtft, first}, {Metric::kMeanE2e, first / share}});
    made.Add("a", 8, {{Metric::kMeanTtft, 100}, {Metric::kMeanE2e, 900}});
    return made;
  };
  EXPECT_TRUE(bench(130, 0.6).Finds("COLD_START"));
  EXPECT_TRUE(bench(130, 0.2).Finds("TTFT_INVERSION"));
  EXPECT_FALSE(bench(130, 0.2).Finds("COLD_START"));
  EXPECT_FALSE(bench(120, 0.6).Finds("COLD_START"));
  EXPECT_FALSE(bench(120, 0.6).Finds("TTFT_INVERSION"));
}

TEST(Rules, CliffDipAndRecovery) {
  const auto bench = [](double dropped, double later) {
    Bench made;
    made.Add("a", 4, {{Metric::kOutputThroughput, 1000}});
    made.Add("a", 8, {{Metric::kOutputThroughput, dropped}});
    made.Add("a", 16, {{Metric::kOutputThroughput, later}});
    return made.Analysed();
  };
  const auto cliff = [](const Analysis& analysis) -> const Hit* {
    for (const Hit& hit : analysis.hits) {
      if (hit.rule == "CLIFF") return &hit;
    }
    return nullptr;
  };
  const Analysis deep = bench(700, 940), back = bench(700, 960), dip = bench(850, 800);
  ASSERT_NE(cliff(deep), nullptr);
  EXPECT_EQ(cliff(deep)->grade, "cliff");
  EXPECT_EQ(cliff(deep)->Find("recovered_at"), nullptr);
  EXPECT_EQ(cliff(back)->variant, "recovered");
  EXPECT_EQ(cliff(dip)->grade, "dip");
  EXPECT_EQ(cliff(bench(920, 1000)), nullptr);
}

TEST(Rules, ADropWithinTheNoiseOfRepeatsIsNone) {
  Bench made;
  for (const double noise : {0.6, 1.0, 1.4}) {
    made.Add("a", 4, {{Metric::kOutputThroughput, 1000 * noise}});
    made.Add("a", 8, {{Metric::kOutputThroughput, 870 * noise}});
  }
  EXPECT_FALSE(made.Finds("CLIFF"));
}

TEST(Rules, TailsAreMeasuredInUnitsOfLengths) {
  const auto finds = [](double p99, std::vector<double> lengths) {
    Bench made;
    made.Add("a", 8, {{Metric::kMeanE2e, 100}, {Metric::kP99E2e, p99}}).samples.output_lengths =
        std::move(lengths);
    return made.Finds("TAIL");
  };
  EXPECT_FALSE(finds(210, {}));  // uniform lengths give 1.98
  EXPECT_TRUE(finds(300, {}));
  EXPECT_TRUE(finds(210, {50, 50, 50, 50}));  // equal lengths explain nothing
  EXPECT_FALSE(finds(140, {50, 50, 50, 50}));
}

TEST(Rules, JitterSaturationGrowth) {
  Bench made;
  made.Add("a", 1,
           {{Metric::kMeanTtft, 10},
            {Metric::kP99Ttft, 39},
            {Metric::kMeanTpot, 5},
            {Metric::kOutputThroughput, 100}});
  made.Add("a", 4,
           {{Metric::kMeanTtft, 10},
            {Metric::kP99Ttft, 41},
            {Metric::kMeanTpot, 11},
            {Metric::kOutputThroughput, 140}});
  const Analysis analysis = made.Analysed();
  int jitter = 0;
  for (const Hit& hit : analysis.hits) jitter += hit.rule == "TTFT_JITTER" ? 1 : 0;
  EXPECT_EQ(jitter, 1);
  EXPECT_TRUE(made.Finds("SATURATION"));
  EXPECT_TRUE(made.Finds("TPOT_GROWTH"));
  AnalysisOptions lenient;
  lenient.thresholds.saturation_elasticity = 0.2;
  lenient.thresholds.tpot_elasticity = 0.6;
  EXPECT_FALSE(made.Finds("SATURATION", lenient));
  EXPECT_FALSE(made.Finds("TPOT_GROWTH", lenient));
}

Bench TwoSides(double ratio, int repeats, double noise) {
  Bench made;
  for (int i = 0; i < repeats; ++i) {
    const double wobble = 1 + noise * (i - (repeats - 1) / 2.0);
    made.Add(
        "none", 8,
        {{Metric::kOutputThroughput, 1000 * wobble}, {Metric::kRequestThroughput, 10 * wobble}}, 0);
    made.Add("dspark", 8,
             {{Metric::kOutputThroughput, 1000 * ratio * wobble},
              {Metric::kRequestThroughput, 10 * ratio * wobble}},
             5);
  }
  return made;
}

TEST(Rules, NoWinnerWithinTheNoise) {
  const Analysis tie = TwoSides(1.02, 3, 0.03).Analysed();
  EXPECT_EQ(tie.comparisons[0].Wins("dspark"), 0);
  EXPECT_EQ(tie.comparisons[0].Ties(), 1);
  EXPECT_TRUE(TwoSides(1.02, 3, 0.03).Finds("INSIGNIFICANT"));
  const Analysis win = TwoSides(1.3, 3, 0.01).Analysed();
  EXPECT_EQ(win.comparisons[0].Wins("dspark"), 1);
  EXPECT_EQ(win.baselines.at(""), "none");
  // Significant, and too small to matter.
  EXPECT_EQ(TwoSides(1.005, 3, 0.0001).Analysed().comparisons[0].Wins("dspark"), 0);
}

TEST(Rules, SpeculationThatLoses) {
  EXPECT_TRUE(TwoSides(0.8, 3, 0.01).Finds("SPEC_LOSS"));
  EXPECT_FALSE(TwoSides(0.97, 3, 0.03).Finds("SPEC_LOSS"));
  EXPECT_FALSE(TwoSides(1.3, 3, 0.01).Finds("SPEC_LOSS"));
  // Without a baseline nothing is said about the cost of drafting.
  Bench alone;
  alone.Add("dspark", 1, {{Metric::kOutputThroughput, 10}}, 5);
  EXPECT_TRUE(alone.Finds("NO_BASELINE"));
  EXPECT_FALSE(alone.Finds("SPEC_LOSS"));
}

TEST(Rules, UnequalWorkIsNotRanked) {
  Bench made;
  made.Add("a", 8, {{Metric::kOutputThroughput, 1000}, {Metric::kRequestThroughput, 10.001}});
  made.Add("b", 8, {{Metric::kOutputThroughput, 2000}, {Metric::kRequestThroughput, 25.001}});
  const Analysis analysis = made.Analysed();
  EXPECT_EQ(analysis.comparisons[0].cells[0].verdict, Verdict::kUnequal);
  EXPECT_EQ(analysis.comparisons[0].Wins("b"), 0);
  EXPECT_TRUE(made.Finds("NOT_RANKED"));
  EXPECT_TRUE(made.Finds("UNEQUAL_WORKLOAD"));
}

TEST(Rules, VoidRunsWinNothing) {
  Bench made = TwoSides(1.3, 1, 0);
  auto& run = made.Add("broken", 8, {{Metric::kOutputThroughput, 9000}}, 7);
  run.work.completed = 90;
  run.work.failed = 10;
  const Analysis analysis = made.Analysed();
  EXPECT_EQ(analysis.comparisons[0].cells[0].best->configuration, "dspark");
  EXPECT_TRUE(made.Finds("VOID_RUNS"));
  // More in flight than was let in.
  Bench little;
  little.Add("a", 4, {{Metric::kRequestThroughput, 100.001}, {Metric::kMeanE2e, 50}});
  EXPECT_TRUE(little.Finds("VOID_RUNS"));
  Bench fine;
  fine.Add("a", 4, {{Metric::kRequestThroughput, 80.001}, {Metric::kMeanE2e, 50}});
  EXPECT_FALSE(fine.Finds("VOID_RUNS"));
}

TEST(Rules, TheShortestLengthWithinTheTolerance) {
  const auto choice = [](double three, double five) {
    Bench made;
    made.Add("k3", 8, {{Metric::kOutputThroughput, three}}, 3);
    made.Add("k5", 8, {{Metric::kOutputThroughput, five}}, 5);
    for (const Hit& hit : made.Analysed().hits) {
      if (hit.rule == "LENGTH_CHOICE") return *hit.Find("choice")->value;
    }
    return -1.0;
  };
  EXPECT_EQ(choice(980, 1000), 3);
  EXPECT_EQ(choice(960, 1000), 5);
}

TEST(Rules, ExpectedAndMeasuredSpeedup) {
  const auto bench = [](double measured) {
    Bench made;
    made.Add("none", 8, {{Metric::kOutputThroughput, 100}, {Metric::kMeanItl, 10}}, 0);
    made.Add("k3", 8,
             {{Metric::kOutputThroughput, measured},
              {Metric::kMeanItl, 12},
              {Metric::kMeanTpot, 5},
              {Metric::kAcceptLength, 2.4}},
             3);
    return made;
  };
  EXPECT_FALSE(bench(195).Finds("MODEL_MISMATCH"));  // 2.4 / 1.2 = 2
  EXPECT_TRUE(bench(150).Finds("MODEL_MISMATCH"));
}

TEST(Rules, ImplicitReplicates) {
  const auto bench = [](double second, const std::string& fingerprint) {
    Bench made;
    made.Add("a", 8, {{Metric::kOutputThroughput, 1000}}).work.fingerprint = "f";
    auto& other = made.Add("a", 8, {{Metric::kOutputThroughput, second}});
    other.scenario = "chat again";
    other.work.fingerprint = fingerprint;
    return made.Finds("REPLICATE_NOISE");
  };
  EXPECT_TRUE(bench(900, "f"));
  EXPECT_FALSE(bench(960, "f"));
  EXPECT_FALSE(bench(900, "g"));
}

TEST(Rules, TheBaselineMustExist) {
  AnalysisOptions options;
  options.baseline = "dspork";
  const Result<Analysis> analysis = Analyze(TwoSides(1.3, 1, 0).results(), options);
  ASSERT_FALSE(analysis.ok());
  EXPECT_THAT(analysis.status().message(), HasSubstr("dspork"));
  EXPECT_THAT(analysis.status().message(), HasSubstr("none, dspark"));
}

std::string FailsIf(const std::string& text, const Bench& bench) {
  const Result<FailCondition> condition = ParseFailCondition(text);
  if (!condition.ok()) return "error: " + condition.status().message();
  const auto met = MeetsFailCondition(*condition, bench.Analysed());
  if (!met.ok()) return "error: " + met.status().message();
  return met->value_or("");
}

TEST(FailIf, Conditions) {
  const Bench slow = TwoSides(0.8, 3, 0.01), fast = TwoSides(1.3, 3, 0.01);
  EXPECT_THAT(FailsIf("regression", slow), HasSubstr("dspark chat@8: 0.800"));
  EXPECT_EQ(FailsIf("regression", fast), "");
  EXPECT_THAT(FailsIf("speedup < 1.4", fast), HasSubstr("1.300"));
  EXPECT_EQ(FailsIf("speedup<1.2", fast), "");
  EXPECT_THAT(FailsIf("output_throughput >= 1200", fast), HasSubstr("the limit is >= 1200"));
  EXPECT_EQ(FailsIf("output_throughput > 2000", fast), "");
  EXPECT_THAT(FailsIf("SPEC_LOSS", slow), HasSubstr("SPEC_LOSS"));
  EXPECT_EQ(FailsIf("SPEC_LOSS", fast), "");
  EXPECT_EQ(FailsIf("void", fast), "");
  EXPECT_THAT(FailsIf("mean_ttft_ms > 1", fast), HasSubstr("error: --fail-if: no run has"));
  EXPECT_THAT(FailsIf("output_thruput > 1", fast), HasSubstr("did you mean output_throughput?"));
  EXPECT_THAT(FailsIf("CLIF", fast), HasSubstr("did you mean CLIFF?"));
  EXPECT_THAT(FailsIf("speedup <", fast), HasSubstr("expected a number"));
  EXPECT_THAT(FailsIf("", fast), HasSubstr("error"));
  Bench alone;
  alone.Add("a", 1, {{Metric::kOutputThroughput, 10}});
  EXPECT_THAT(FailsIf("regression", alone), HasSubstr("--baseline"));
}

TEST(Thresholds, ByName) {
  Thresholds thresholds;
  EXPECT_TRUE(SetThreshold("cliff_drop=0.5", &thresholds).ok());
  ASSERT_EQ(Overrides(thresholds).size(), 1u);
  EXPECT_EQ(Overrides(thresholds)[0].standard, 0.25);
  EXPECT_THAT(SetThreshold("clif_drop=1", &thresholds).message(),
              HasSubstr("did you mean cliff_drop?"));
  for (const char* bad : {"cliff_drop", "cliff_drop=", "cliff_drop=x", "cliff_drop=-1", "=1"})
    EXPECT_FALSE(SetThreshold(bad, &thresholds).ok()) << bad;
}

}  // namespace
}  // namespace firesteel
