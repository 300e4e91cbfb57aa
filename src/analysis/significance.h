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

// By Welch's statistic on logarithms. The degrees of freedom are those of the side with fewer, the
// least that Welch's own formula gives: whatever the two variances are, a difference that is none
// is called one in fewer than 5 of 100 comparisons.
//
// `noise` is the relative standard deviation between repeats, known from `noise_freedom` degrees
// of freedom of other cells (0: assumed). It stands in for a side with one run, and is the least
// that a side with two is given. nullopt when a side is empty or a value is not positive.
std::optional<RatioEstimate> CompareRatio(std::span<const double> a, std::span<const double> b,
                                          double noise, double noise_freedom = 0);

}  // namespace firesteel
