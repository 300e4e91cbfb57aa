// The lengths that SGLang's `random` dataset draws: uniform integers from numpy's legacy generator.
// With them the work of a run is known from its seed, its bounds and the number of its prompts.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "analysis/run.h"

namespace firesteel {

// numpy.random.RandomState(seed).randint: 32-bit Mersenne Twister, masked rejection.
class LegacyIntegers {
 public:
  explicit LegacyIntegers(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}
  // `count` integers in [low, high). REQUIRES: low < high, high - low below 2^32.
  std::vector<int64_t> Draw(int64_t low, int64_t high, size_t count);

 private:
  std::mt19937 engine_;
};

struct RandomLengths {
  std::vector<int64_t> input;
  std::vector<int64_t> output;
  uint64_t seed = 0;

  double MeanInput() const;
  double MeanOutput() const;
  // P99 over mean of the output lengths: what the spread of latencies is when every token costs
  // the same.
  double OutputSpread() const;
};

// nullopt unless the work is of that dataset with known bounds and number of prompts. The seed is
// the work's own, else the tools' usual ones are tried; where totals are known, only lengths that
// add up to them are returned, and without a seed totals are needed.
std::optional<RandomLengths> ReproduceLengths(const RunWork& work);

}  // namespace firesteel
