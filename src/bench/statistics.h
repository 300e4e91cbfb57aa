// Figures over samples, as numpy gives them: arithmetic mean, population standard deviation,
// percentiles by linear interpolation between order statistics. Functions without state,
// thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace firesteel {

// Over no samples there is no figure: everything but `count` is meaningless then, and written as
// null.
struct Statistics {
  size_t count = 0;
  double mean = 0;
  double median = 0;
  double p95 = 0;
  double p99 = 0;
  double min = 0;
  double max = 0;
  double std = 0;
  double p75 = 0;
  double p90 = 0;
  double p999 = 0;
  // 95 % intervals: of the mean by the normal approximation, of P99 by order statistics; nullopt
  // where there are too few samples for one.
  std::optional<std::pair<double, double>> ci95_mean = {};
  std::optional<std::pair<double, double>> ci95_p99 = {};
};

Statistics Summarize(std::vector<double> samples);

// `percent` in [0, 100]. REQUIRES: `sorted` ascending and not empty.
double Percentile(std::span<const double> sorted, double percent);

// nullopt over no samples.
std::optional<double> Median(std::vector<double> samples);

}  // namespace firesteel
