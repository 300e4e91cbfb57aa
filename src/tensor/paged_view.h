// A paged cache: position p of a sequence lies in block table[p / block_size], in tile p %
// block_size / kAttentionTile of it. A tile keeps each head's part together, so that one head reads
// one stretch of memory, and never a line of its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace firesteel {

using BlockId = int32_t;

// Positions of a tile, aligned to absolute position. A block holds whole tiles.
inline constexpr int32_t kAttentionTile = 16;

// How a tile keeps the elements of one head.
enum class TileOrder : uint8_t {
  kByPosition,   // [kAttentionTile][head_dim]: values
  kByDimension,  // [head_dim][kAttentionTile]: keys, whose scores are taken for a tile at a time
};

// What a position keeps: `heads` vectors of `head_dim` elements. FP8 has a float32 scale for each
// position and head, so that a rejected position never changes the scale of a committed one.
//
// A tile: heads x {elements in `order`; FP8: kAttentionTile scales}, then padding.
struct RowFormat {
  DType dtype = DType::kBF16;  // kF32, kBF16 or kF8E4M3
  int32_t heads = 0;
  int32_t head_dim = 0;
  TileOrder order = TileOrder::kByPosition;

  int64_t ElementBytes() const { return static_cast<int64_t>(SizeOf(dtype)); }
  // Bytes that a position takes, whatever the order.
  int64_t RowBytes() const {
    const int64_t scales = dtype == DType::kF8E4M3 ? int64_t{heads} * 4 : 0;
    return (int64_t{heads} * head_dim * ElementBytes() + scales + 15) / 16 * 16;
  }
  int64_t TileBytes() const { return RowBytes() * kAttentionTile; }

  // Offsets into a tile. `row` is the position within it.
  int64_t HeadOffset(int64_t head) const {
    const int64_t scale = dtype == DType::kF8E4M3 ? 4 : 0;
    return head * kAttentionTile * (head_dim * ElementBytes() + scale);
  }
  int64_t ElementOffset(int64_t head, int64_t row, int64_t dim) const {
    const int64_t element =
        order == TileOrder::kByDimension ? dim * kAttentionTile + row : row * head_dim + dim;
    return HeadOffset(head) + element * ElementBytes();
  }
  int64_t ScaleOffset(int64_t head, int64_t row) const {
    return HeadOffset(head) + kAttentionTile * head_dim * ElementBytes() + row * 4;
  }
};

// One plane (keys, values, …) of one layer, for every block of the pool. Never owns.
struct PagedPlane {
  std::byte* base = nullptr;  // tile 0 of block 0
  int64_t block_stride = 0;   // bytes from a block to the next
  int32_t block_size = 0;     // positions per block, a multiple of kAttentionTile
  RowFormat format;

  // The tile that holds `position`.
  std::byte* Tile(std::span<const BlockId> table, int64_t position) const {
    return base + table[static_cast<size_t>(position / block_size)] * block_stride +
           position % block_size / kAttentionTile * format.TileBytes();
  }
};

}  // namespace firesteel
