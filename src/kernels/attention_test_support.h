// For the tests of attention: a cache that owns its memory, one sequence in it, and what the cache
// keeps of a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/paged_attention.h"
#include "kernels/reference.h"
#include "kernels/test_support.h"

namespace firesteel {

constexpr DType kCacheTypes[] = {DType::kF32, DType::kBF16, DType::kF8E4M3};

// One plane of a pool. Every byte is 0xFF at first, which is NaN in float32, in bfloat16 and in the
// scales of FP8.
class TestPlane {
 public:
  TestPlane(RowFormat format, TileOrder order, int32_t block_size, int64_t blocks)
      : bytes_(blocks * block_size * format.RowBytes()) {
    std::fill(bytes_.span().begin(), bytes_.span().end(), std::byte{0xFF});
    format.order = order;
    plane_ = {bytes_.data(), block_size * format.RowBytes(), block_size, format};
  }
  const PagedPlane& view() const { return plane_; }

 private:
  Buffer<std::byte> bytes_;
  PagedPlane plane_;
};

struct AttentionSetup {
  DType dtype = DType::kF32;
  int32_t heads = 4, kv_heads = 2, head_dim = 16;
  int32_t block_size = 16;
  int64_t positions = 100;  // written
  int64_t window = 0;
  std::vector<float> sinks = {};
};

// Keys, values and queries for every position of one sequence, the cache that holds them, and its
// blocks backwards.
class TestSequence {
 public:
  explicit TestSequence(const AttentionSetup& setup, uint32_t seed = 1)
      : setup(setup),
        q(TestMatrix::Random(setup.positions, int64_t{setup.heads} * setup.head_dim, seed,
                             int64_t{setup.heads} * setup.head_dim + 3)),
        k(TestMatrix::Random(setup.positions, int64_t{setup.kv_heads} * setup.head_dim, seed + 1)),
        v(TestMatrix::Random(setup.positions, int64_t{setup.kv_heads} * setup.head_dim, seed + 2)),
        keys(Format(), TileOrder::kByDimension, setup.block_size, Blocks()),
        values(Format(), TileOrder::kByPosition, setup.block_size, Blocks()) {
    for (int64_t b = Blocks(); b-- > 0;) table.push_back(static_cast<BlockId>(b));
  }

  RowFormat Format() const { return {setup.dtype, setup.kv_heads, setup.head_dim}; }
  int64_t Blocks() const { return (setup.positions + setup.block_size - 1) / setup.block_size; }

  void Append(Exec& exec, int64_t begin, int64_t count) {
    const AppendRows rows{begin, count, begin, table};
    AppendPaged(exec, k, std::span(&rows, 1), keys.view());
    AppendPaged(exec, v, std::span(&rows, 1), values.view());
  }

  // Query rows [begin, begin + count), as rows of `q`.
  AttentionRows Rows(int64_t begin, int64_t count) const {
    AttentionRows rows;
    rows.row_begin = begin;
    rows.row_count = count;
    rows.context = begin;
    rows.table = table;
    rows.window = setup.window;
    return rows;
  }
  void Attend(Exec& exec, std::span<const AttentionRows> rows, Matrix<float> out) const {
    PagedAttention(exec, q, rows, keys.view(), values.view(), Scale(), out, setup.sinks);
  }
  void Attend(Exec& exec, int64_t begin, int64_t count, Matrix<float> out) const {
    const AttentionRows rows = Rows(begin, count);
    Attend(exec, std::span(&rows, 1), out);
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(setup.head_dim)); }

  AttentionSetup setup;
  TestMatrix q, k, v;
  TestPlane keys, values;
  std::vector<BlockId> table;
};

// What the cache keeps of rows of keys or values.
inline TestMatrix Stored(const TestMatrix& rows, const RowFormat& format) {
  TestMatrix stored(rows.rows(), rows.cols());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (int64_t h = 0; h < format.heads; ++h) {
      const float* from = rows.Row(r) + h * format.head_dim;
      float* to = stored.Row(r) + h * format.head_dim;
      float largest = 0;
      for (int64_t i = 0; i < format.head_dim; ++i) largest = std::max(largest, std::fabs(from[i]));
      const float scale = largest == 0 ? 1.0f : largest / 448.0f;
      for (int64_t i = 0; i < format.head_dim; ++i) {
        switch (format.dtype) {
          case DType::kF32:
            to[i] = from[i];
            break;
          case DType::kBF16:
            to[i] = BF16ToF32(reference::F32ToBF16(from[i]));
            break;
          default:
            to[i] = F8E4M3ToF32(F32ToF8E4M3(from[i] / scale)) * scale;
        }
      }
    }
  }
  return stored;
}

// Element `dim` of a head, as it lies in a plane.
inline float CachedElement(const PagedPlane& plane, std::span<const BlockId> table,
                           int64_t position, int64_t head, int64_t dim) {
  const RowFormat& format = plane.format;
  const int64_t row = position % kAttentionTile;
  const std::byte* tile = plane.Tile(table, position);
  const std::byte* from = tile + format.ElementOffset(head, row, dim);
  float x = 0;
  uint16_t half = 0;
  switch (format.dtype) {
    case DType::kF32:
      std::memcpy(&x, from, sizeof(x));
      return x;
    case DType::kBF16:
      std::memcpy(&half, from, sizeof(half));
      return BF16ToF32(half);
    default:
      std::memcpy(&x, tile + format.ScaleOffset(head, row), sizeof(x));
      return x * F8E4M3ToF32(static_cast<uint8_t>(*from));
  }
}

}  // namespace firesteel
