// Makes PackedWeights: room for one, then its panels, in any order and on any threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_weight.h"

namespace firesteel {

class WeightPacker {
 public:
  // All panels zero.
  static PackedWeight Allocate(WeightFormat format, int64_t rows, int64_t cols);
  static int64_t PanelBytes(WeightFormat format, int64_t cols);
  // Of all panels together.
  static int64_t Bytes(WeightFormat format, int64_t rows, int64_t cols);
  static std::byte* Panel(const PackedWeight& weight, int64_t panel) {
    return weight.bytes_.data() + panel * weight.panel_bytes_;
  }
};

}  // namespace firesteel
