#include "analysis/ratio_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace firesteel {

const CellRuns* BestOfSide(const Analysis& analysis, const Comparison& comparison,
                           const std::string& side, const std::string& scenario,
                           int32_t concurrency) {
  const CellTable& cells = *analysis.cells;
  const CellRuns* best = nullptr;
  std::vector<const CellRuns*> own;
  for (const CellRuns* cell : cells.CellsOf(comparison.campaign, scenario, concurrency)) {
    if (comparison.side_of.at(cell->configuration) == side && cells.Valid(*cell))
      own.push_back(cell);
  }
  const auto metric = cells.CommonThroughput(own);
  for (const CellRuns* cell : own) {
    if (best == nullptr || (metric && cells.Value(*cell, *metric) > cells.Value(*best, *metric)))
      best = cell;
  }
  return best;
}

std::optional<RatioSummary> SummarizeRatios(const Analysis& analysis, const Comparison& comparison,
                                            const std::string& a, const std::string& b,
                                            Metric metric) {
  const CellTable& cells = *analysis.cells;
  RatioSummary summary{.metric = metric, .numerator = a, .denominator = b};
  std::vector<double> ratios;
  for (const std::string& scenario : cells.Scenarios(comparison.campaign)) {
    for (const int32_t level : cells.Levels(comparison.campaign, scenario)) {
      const CellRuns* x = BestOfSide(analysis, comparison, a, scenario, level);
      const CellRuns* y = BestOfSide(analysis, comparison, b, scenario, level);
      if (x == nullptr || y == nullptr) continue;
      const auto above = cells.Value(*x, metric), below = cells.Value(*y, metric);
      if (!above || !below || *above <= 0 || *below <= 0) continue;
      ratios.push_back(*above / *below);
      for (const CellRuns* cell : {x, y})
        summary.sources.insert(summary.sources.end(), cell->runs.begin(), cell->runs.end());
    }
  }
  if (ratios.empty()) return std::nullopt;
  const double n = static_cast<double>(ratios.size());
  summary.count = static_cast<int>(ratios.size());
  summary.arithmetic = std::accumulate(ratios.begin(), ratios.end(), 0.0) / n;
  double logs = 0;
  for (const double ratio : ratios) logs += std::log(ratio);
  summary.geometric = std::exp(logs / n);
  summary.below_one = static_cast<int>(
      std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio < 1; }));
  std::sort(ratios.begin(), ratios.end());
  summary.min = ratios.front();
  summary.max = ratios.back();
  const size_t half = ratios.size() / 2;
  summary.median = ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2;
  return summary;
}

}  // namespace firesteel
