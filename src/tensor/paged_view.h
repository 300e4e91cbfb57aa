// Rows of a paged cache: position p of a sequence lies in block table[p / block_size] at row p %
// block_size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace firesteel {

using BlockId = int32_t;

// How one position is stored: `heads` vectors of `head_dim` elements; FP8 rows carry a float32
// scale for each head behind the elements, so that a rejected row never changes the scale of a
// committed one.
struct RowFormat {
  DType dtype = DType::kBF16;  // kF32, kBF16 or kF8E4M3
  int32_t heads = 0;
  int32_t head_dim = 0;

  int64_t RowBytes() const {
    const int64_t elements = int64_t{heads} * head_dim * static_cast<int64_t>(SizeOf(dtype));
    return (elements + (dtype == DType::kF8E4M3 ? int64_t{heads} * 4 : 0) + 15) / 16 * 16;
  }
};

// One plane (keys, values, …) of one layer, for every block of the pool. Never owns.
struct PagedPlane {
  std::byte* base = nullptr;  // row 0 of block 0
  int64_t block_stride = 0;   // bytes from a block to the next
  int32_t block_size = 0;     // positions per block, a multiple of kAttentionTile
  RowFormat format;

  std::byte* Row(std::span<const BlockId> table, int64_t position) const {
    return base + table[static_cast<size_t>(position / block_size)] * block_stride +
           position % block_size * format.RowBytes();
  }
};

// Attention adds keys up in tiles of this many positions, aligned to absolute position, whatever
// the block size.
inline constexpr int32_t kAttentionTile = 16;

}  // namespace firesteel
