// What is timed, and how: every round times every case once, so that a slow minute of the machine
// slows all of them, and a case's figure is the median of its rounds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace firesteel {

struct BenchCase {
  std::string op;            // "matmul", "attention"; "read", "fma", "int8" for a ceiling
  std::string weight_dtype;  // of product's list; of the cache for attention
  int64_t rows = 0;
  int64_t n = 0;
  int64_t k = 0;
  int threads = 1;
  std::string peer = {};  // whose code this is; empty: ours
  // Of one call: bytes that must come from memory, and multiply-adds.
  double bytes = 0;
  double macs = 0;
  std::function<void()> call = {};
  std::vector<double> ms = {};  // of a call, one figure for each round
};

double Median(const std::vector<double>& ms);
// (largest - smallest) / median.
double Spread(const std::vector<double>& ms);

// Adds `rounds` figures to each case, each the median of calls that take some 15 ms together. After
// `minutes` no further round begins, but three are always made. Reports on standard error.
void RunInterleaved(std::vector<BenchCase>& cases, int rounds, double minutes);

}  // namespace firesteel
