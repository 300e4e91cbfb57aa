#include "analysis/significance.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace firesteel {
namespace {

constexpr double kUpperTail = 0.975;
constexpr double kNormalQuantile = 1.959963984540054;  // of kUpperTail

struct LogMoments {
  double mean = 0;
  double variance = 0;  // of the mean
  double freedom = 0;   // 0: assumed, not estimated
};

std::optional<LogMoments> Moments(std::span<const double> values, double noise,
                                  double noise_freedom) {
  if (values.empty()) return std::nullopt;
  std::vector<double> logs;
  for (const double value : values) {
    if (!(value > 0) || !std::isfinite(value)) return std::nullopt;
    logs.push_back(std::log(value));
  }
  const double n = static_cast<double>(logs.size());
  LogMoments m;
  m.mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  if (logs.size() == 1) {
    m.variance = noise * noise;
    return m;
  }
  double squares = 0;
  for (const double x : logs) squares += (x - m.mean) * (x - m.mean);
  m.freedom = n - 1;
  m.variance = squares / m.freedom / n;
  // Two values say little about their scatter: what the other cells say counts with them.
  if (logs.size() == 2 && noise_freedom > m.freedom) {
    m.variance = std::max(m.variance, noise * noise / n);
    m.freedom = noise_freedom;
  }
  return m;
}

}  // namespace

double StudentQuantile(double probability, double degrees_of_freedom) {
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), probability);
}

std::optional<Interval> MeanInterval(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  const double half = StudentQuantile(kUpperTail, n - 1) * std::sqrt(squares / (n - 1) / n);
  return Interval{mean - half, mean + half};
}

std::optional<RatioEstimate> CompareRatio(std::span<const double> a, std::span<const double> b,
                                          double noise, double noise_freedom) {
  const auto x = Moments(a, noise, noise_freedom), y = Moments(b, noise, noise_freedom);
  if (!x || !y) return std::nullopt;
  const double variance = x->variance + y->variance;
  double factor = kNormalQuantile;
  RatioEstimate estimate;
  estimate.from_repeats = x->freedom > 0 && y->freedom > 0;
  const double known = noise_freedom > 0 ? noise_freedom : std::numeric_limits<double>::infinity();
  const double freedom =
      std::min(x->freedom > 0 ? x->freedom : known, y->freedom > 0 ? y->freedom : known);
  if (std::isfinite(freedom)) factor = StudentQuantile(kUpperTail, freedom);
  const double half = factor * std::sqrt(variance);
  const double difference = x->mean - y->mean;
  // One run a side: the ratio of the figures themselves, without a detour over logarithms.
  estimate.ratio = a.size() == 1 && b.size() == 1 ? a[0] / b[0] : std::exp(difference);
  estimate.low = std::exp(difference - half);
  estimate.high = std::exp(difference + half);
  return estimate;
}

}  // namespace firesteel
