#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace firesteel {
namespace {

constexpr double kZ95 = 1.959963984540054;

// Ranks around the 99th percentile that the true one lies between with 95 %, by the normal
// approximation of the binomial; nullopt when the upper one is beyond the largest sample.
std::optional<std::pair<double, double>> P99Interval(std::span<const double> sorted) {
  const double n = static_cast<double>(sorted.size());
  const double half = kZ95 * std::sqrt(n * 0.99 * 0.01);
  const double below = std::floor(n * 0.99 - half);
  const double above = std::ceil(n * 0.99 + half);
  if (below < 1 || above > n) return std::nullopt;
  return std::pair(sorted[static_cast<size_t>(below) - 1], sorted[static_cast<size_t>(above) - 1]);
}

}  // namespace

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
  s.p75 = Percentile(samples, 75);
  s.p90 = Percentile(samples, 90);
  s.p95 = Percentile(samples, 95);
  s.p99 = Percentile(samples, 99);
  s.p999 = Percentile(samples, 99.9);
  if (samples.size() >= 2) {
    const double half = kZ95 * std::sqrt(squares / (n - 1) / n);
    s.ci95_mean = std::pair(s.mean - half, s.mean + half);
  }
  s.ci95_p99 = P99Interval(samples);
  return s;
}

std::optional<double> Median(std::vector<double> samples) {
  if (samples.empty()) return std::nullopt;
  std::sort(samples.begin(), samples.end());
  return Percentile(samples, 50);
}

}  // namespace firesteel
