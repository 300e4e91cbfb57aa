// A weight as it lies in the checkpoint: row-major [rows, cols] of any dtype. Looks into a mapped
// file, never owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace firesteel {

struct WeightView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;  // output features; 1 for a vector
  int64_t cols = 0;  // input features
  std::string name;  // for messages
};

}  // namespace firesteel
