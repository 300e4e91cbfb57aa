// Whether one setting keeps up with the best of several others, from repeats that went in turns.
#pragma once

#include <cstddef>
#include <vector>

namespace firesteel {

// Of one setting, one figure for each repeat.
using Repeats = std::vector<double>;

struct KeepsUp {
  size_t best = 0;           // index of the fixed setting with the highest median
  double ratio = 0;          // median over repeats of automatic / best of the other repeats
  double low = 0, high = 0;  // 95 % interval of its mean, by Student's t
};

// For each repeat the best fixed setting is chosen by the medians of the OTHER repeats and judged
// in this one, because the maximum of noisy medians would be biased upward. REQUIRES: at least two
// repeats of each, as many of all.
KeepsUp Judge(const Repeats& automatic, const std::vector<Repeats>& fixed);

double MedianOf(std::vector<double> values);

}  // namespace firesteel
