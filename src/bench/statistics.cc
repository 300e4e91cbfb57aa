#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace firesteel {

double Percentile(std::span<const double> sorted, double percent) {
  FS_CHECK(!sorted.empty() && percent >= 0 && percent <= 100);
  const double h = static_cast<double>(sorted.size() - 1) * percent / 100.0;
  const size_t below = static_cast<size_t>(h);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (h - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

Statistics Summarize(std::vector<double> samples) {
  Statistics s;
  s.count = samples.size();
  if (samples.empty()) return s;
  std::sort(samples.begin(), samples.end());
  const double n = static_cast<double>(samples.size());
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double x : samples) squares += (x - s.mean) * (x - s.mean);
  s.std = std::sqrt(squares / n);
  s.min = samples.front();
  s.max = samples.back();
  s.median = Percentile(samples, 50);
  s.p95 = Percentile(samples, 95);
  s.p99 = Percentile(samples, 99);
  return s;
}

std::optional<double> Median(std::vector<double> samples) {
  if (samples.empty()) return std::nullopt;
  std::sort(samples.begin(), samples.end());
  return Percentile(samples, 50);
}

}  // namespace firesteel
