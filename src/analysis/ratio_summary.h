// Ratios of one metric over all cells that two sides share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"

namespace firesteel {

struct RatioSummary {
  Metric metric = Metric::kMeanE2e;
  std::string numerator;  // sides
  std::string denominator;
  int count = 0;
  double arithmetic = 0;
  double geometric = 0;
  double median = 0;
  double min = 0;
  double max = 0;
  int below_one = 0;
  std::vector<int32_t> sources = {};  // runs
};

// Best cells of side `a` over best cells of side `b`, where both have the metric. nullopt without a
// common cell.
std::optional<RatioSummary> SummarizeRatios(const Analysis& analysis, const Comparison& comparison,
                                            const std::string& a, const std::string& b,
                                            Metric metric);

// A side's best cell at a point, by the point's throughput; nullptr without one.
const CellRuns* BestOfSide(const Analysis& analysis, const Comparison& comparison,
                           const std::string& side, const std::string& scenario,
                           int32_t concurrency);

// A statement of a report's author beside what the runs give.
struct CheckedClaim {
  const Claim* claim = nullptr;
  double computed = 0;
  int8_t decimals = 2;
  double allowance = 0;  // what the digits of the measured figures leave open
  std::vector<int32_t> sources = {};

  bool holds() const;
};
std::vector<CheckedClaim> CheckClaims(const Analysis& analysis);

}  // namespace firesteel
