// Where the elements of a floating format lie in a panel, for the packer and the kernels alike. All
// offsets are in bytes from the start of the panel; k counts elements of a row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/packed_weight.h"

namespace firesteel {

// fp8: 64 bytes with the scale, then 128 k in pairs. One scale serves the panel: a block of 128
// rows holds whole panels.
inline constexpr int64_t kFp8Block = 128;
inline constexpr int64_t kFp8ScaleBytes = 64;
// fp4: 64 bytes with the scales of two groups, then 64 k in words of eight.
inline constexpr int64_t kFp4Group = 32;
inline constexpr int64_t kFp4Block = 2 * kFp4Group;
inline constexpr int64_t kFp4ScaleBytes = 2 * PackedWeight::kPanel;

// Bytes that a panel of `cols` elements a row takes. Short words are padded with zeros.
constexpr int64_t FloatPanelBytes(WeightFormat format, int64_t cols) {
  constexpr int64_t kPanel = PackedWeight::kPanel;
  const int64_t pairs = (cols + 1) / 2;
  switch (format) {
    case WeightFormat::kF32:
      return cols * kPanel * 4;
    case WeightFormat::kBF16:
      return pairs * kPanel * 4;
    case WeightFormat::kF16:
      return pairs * kPanel * 4;
    case WeightFormat::kFp8:
      return (cols + kFp8Block - 1) / kFp8Block * kFp8ScaleBytes + pairs * kPanel * 2;
    case WeightFormat::kFp4:
      return (cols + kFp4Block - 1) / kFp4Block * kFp4ScaleBytes + (cols + 7) / 8 * kPanel * 4;
    default:
      return 0;  // not a floating format
  }
}

}  // namespace firesteel
