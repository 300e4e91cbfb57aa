// Pearson's chi-square for tests: does a histogram follow a distribution? Tests only.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace firesteel {

// The regularised upper incomplete gamma function Q(a, x): by its series below a + 1, by Lentz's
// continued fraction above.
inline double UpperGamma(double a, double x) {
  if (x <= 0) return 1;
  const double front = std::exp(-x + a * std::log(x) - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-16; ++n) sum += term *= x / n;
    return 1 - front * sum;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int i = 1; i < 10'000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return front * h;
}

struct ChiSquare {
  double statistic = 0;
  int degrees = 0;
  double p_value = 1;
};

// Cells with an expected count below 5 are merged into one; a count where nothing can be gives
// p_value 0.
inline ChiSquare TestFit(std::span<const int64_t> counts, std::span<const double> probs) {
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  ChiSquare result;
  double rest_expected = 0, rest_count = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    result.statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probs[i] * static_cast<double>(total);
    if (expected == 0 && counts[i] > 0) return {INFINITY, 1, 0};
    if (expected >= 5) {
      add(static_cast<double>(counts[i]), expected);
    } else {
      rest_expected += expected;
      rest_count += static_cast<double>(counts[i]);
    }
  }
  if (rest_expected > 0) add(rest_count, rest_expected);
  result.degrees = cells - 1;
  if (result.degrees > 0) result.p_value = UpperGamma(result.degrees / 2.0, result.statistic / 2);
  return result;
}

}  // namespace firesteel
