#include "never_worse/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace firesteel {
namespace {

// Student's t at 97.5 %, by degrees of freedom; above the table the normal's is near enough.
double StudentT(size_t degrees) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
  return degrees <= std::size(kTable) ? kTable[degrees - 1]
                                      : 1.96 + 2.6 / static_cast<double>(degrees);
}

size_t BestWithout(const std::vector<Repeats>& fixed, size_t left_out) {
  size_t best = 0;
  double most = -1;
  for (size_t k = 0; k < fixed.size(); ++k) {
    Repeats others;
    for (size_t r = 0; r < fixed[k].size(); ++r) {
      if (r != left_out) others.push_back(fixed[k][r]);
    }
    const double median = MedianOf(std::move(others));
    if (median > most) {
      most = median;
      best = k;
    }
  }
  return best;
}

}  // namespace

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

KeepsUp Judge(const Repeats& automatic, const std::vector<Repeats>& fixed) {
  const size_t n = automatic.size();
  std::vector<double> ratios;
  for (size_t r = 0; r < n; ++r) ratios.push_back(automatic[r] / fixed[BestWithout(fixed, r)][r]);
  double mean = 0, square = 0;
  for (const double x : ratios) mean += x / static_cast<double>(n);
  for (const double x : ratios) square += (x - mean) * (x - mean);
  const double error = std::sqrt(square / static_cast<double>(n - 1) / static_cast<double>(n));
  const double reach = StudentT(n - 1) * error;
  return {BestWithout(fixed, n), MedianOf(ratios), mean - reach, mean + reach};
}

}  // namespace firesteel
