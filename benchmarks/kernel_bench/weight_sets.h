// Weights of every format, enough of each that a pass over all of them reads from memory and not
// from a cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/exec.h"
#include "kernels/packed_weight.h"

namespace firesteel {

inline constexpr int64_t kRotationBytes = int64_t{512} << 20;
inline constexpr int64_t kOutputs = 4096, kInputs = 2048;  // of the matrix that is measured

// Uniform in [-0.5, 0.5), always the same.
std::vector<float> RandomFloats(int64_t count, uint32_t seed);

class WeightSet {
 public:
  // `dtype`: "f32", "bf16", "f16", "fp8", "fp4", "int8" or "int4".
  WeightSet(Exec& exec, const std::string& dtype);

  const PackedWeight& Next() {
    next_ = (next_ + 1) % weights_.size();
    return weights_[next_];
  }
  int64_t bytes() const { return weights_[0].bytes(); }  // of one

 private:
  std::vector<PackedWeight> weights_;
  size_t next_ = 0;
};

}  // namespace firesteel
