// Writes one safetensors file of bfloat16 tensors, made row by row while it is written.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

struct TensorToWrite {
  std::string name;
  std::vector<int64_t> shape;  // one or two dimensions
  // Fills row `r` of shape.back() elements.
  std::function<void(int64_t r, std::span<uint16_t> row)> source;
};

// kInvalidArgument when the file cannot be written.
Status WriteSafetensors(const std::string& path, std::span<const TensorToWrite> tensors);

}  // namespace firesteel
