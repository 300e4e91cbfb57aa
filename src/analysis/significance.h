// Whether a difference is one: intervals from repeats. Functions without state, thread-safe.
#pragma once

#include <optional>
#include <span>

namespace firesteel {

struct Interval {
  double low = 0;
  double high = 0;
};

// The `probability` quantile of Student's t. REQUIRES: degrees_of_freedom >= 1.
double StudentQuantile(double probability, double degrees_of_freedom);

// 95 % interval of the mean: mean ± t·s/√R. nullopt with fewer than two values.
std::optional<Interval> MeanInterval(std::span<const double> values);

struct RatioEstimate {
  double ratio = 1;  // of the geometric means: a over b
  double low = 1;    // 95 % interval
  double high = 1;
  bool from_repeats = false;  // else one run on a side, and the noise was assumed

  bool significant() const { return low > 1 || high < 1; }
};

// By Welch on logarithms. A side with one run is given the standard deviation `noise` (relative).
// The degrees of freedom are rounded down: with few repeats Welch's own are a little too many, and
// a difference that is none shall be called one in fewer than 5 of 100 comparisons. nullopt when a
// side is empty or a value is not positive.
std::optional<RatioEstimate> CompareRatio(std::span<const double> a, std::span<const double> b,
                                          double noise);

}  // namespace firesteel
