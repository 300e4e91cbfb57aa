#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/paged_attention.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/append_paged.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// after highway.h, which sets its macros for the target
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Both round to nearest even as the functions of convert.h do, and write whole vectors.
void HeadToBF16(const float* HWY_RESTRICT from, int64_t count, uint16_t* HWY_RESTRICT to) {
  const hn::Repartition<uint32_t, D> du;
  const hn::Repartition<int32_t, D> di;
  const hn::Rebind<uint16_t, D> half;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec x = LoadUpTo(from + i, count - i);
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
    // Rounding would carry a NaN with a small payload into infinity.
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    const auto is_number = hn::RebindMask(du, hn::Eq(x, x));
    const auto bf16 = hn::IfThenElse(is_number, rounded, quiet);
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(di, bf16)), half, to + i);
  }
}

// The bits of the largest magnitude: those of an infinity and of NaN are above all others.
uint32_t LargestMagnitude(const float* HWY_RESTRICT from, int64_t count) {
  const hn::Repartition<int32_t, D> di;
  auto largest = hn::Zero(di);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto bits = hn::BitCast(di, LoadUpTo(from + i, count - i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(di, 0x7FFFFFFF)));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

// from / scale, of which no magnitude rounds to more than 448.
void HeadToF8(const float* HWY_RESTRICT from, int64_t count, float scale,
              uint8_t* HWY_RESTRICT to) {
  const D d;
  const hn::Repartition<int32_t, D> di;
  const hn::Rebind<uint8_t, D> quarter;
  const Vec divisor = hn::Set(d, scale);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec x = hn::Div(LoadUpTo(from + i, count - i), divisor);
    const auto bits = hn::BitCast(di, x);
    const auto magnitude =
        hn::Min(hn::And(bits, hn::Set(di, 0x7FFFFFFF)), hn::Set(di, 0x43E00000));  // 448
    const auto odd = hn::And(hn::ShiftRight<20>(magnitude), hn::Set(di, 1));
    const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(di, 0x7FFFF)));
    const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(di, (127 - 7) << 3));
    // A multiple of 2^-9. Adding 2^14, whose last bit is 2^-9, rounds to it.
    const Vec base = hn::Set(d, 0x1p14f);
    const auto subnormal =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), base)), hn::BitCast(di, base));
    const auto is_small = hn::Lt(magnitude, hn::Set(di, 0x3C800000));  // 2^-6
    const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80));
    const auto f8 = hn::Or(hn::IfThenElse(is_small, subnormal, normal), sign);
    hn::StoreU(hn::DemoteTo(quarter, f8), quarter, to + i);
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(HeadToBF16);
HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(HeadToF8);

namespace {

// Lays one head of a position, already in the type of the cache, into its tile.
template <typename T>
void Store(const T* from, const RowFormat& format, int64_t head, int64_t row, std::byte* tile) {
  std::byte* to = tile + format.ElementOffset(head, row, 0);
  if (format.order == TileOrder::kByPosition) {
    std::memcpy(to, from, static_cast<size_t>(format.head_dim) * sizeof(T));
    return;
  }
  for (int32_t d = 0; d < format.head_dim; ++d) {
    std::memcpy(to + d * kAttentionTile * static_cast<int64_t>(sizeof(T)), from + d, sizeof(T));
  }
}

// Converted heads, with room for the last vector.
constexpr int64_t kRoom = kMaxAttentionHeadDim + 16;

// The largest value of a head becomes 448, the largest that e4m3 has. A head that is not finite is
// so as a whole, by its scale: readers need not know the code for NaN.
void AppendF8(const float* from, const RowFormat& format, int64_t head, int64_t row,
              std::byte* tile) {
  uint8_t elements[kRoom];
  const uint32_t bits = HWY_DYNAMIC_DISPATCH(LargestMagnitude)(from, format.head_dim);
  const auto largest = std::bit_cast<float>(bits);
  float scale = largest / 448.0f;
  if (scale == 0.0f) scale = 1.0f;
  HWY_DYNAMIC_DISPATCH(HeadToF8)(from, format.head_dim, scale, elements);
  if (bits >= 0x7F800000) scale = std::numeric_limits<float>::quiet_NaN();
  Store(elements, format, head, row, tile);
  std::memcpy(tile + format.ScaleOffset(head, row), &scale, sizeof(scale));
}

void AppendBF16(const float* from, const RowFormat& format, int64_t head, int64_t row,
                std::byte* tile) {
  uint16_t elements[kRoom];
  HWY_DYNAMIC_DISPATCH(HeadToBF16)(from, format.head_dim, elements);
  Store(elements, format, head, row, tile);
}

// Rows [row, row + count) of a tile. Heads are the outer index, so that a head's part of the tile
// stays in L1 for all of its rows.
void AppendTile(const ConstMatrix& from, int64_t from_row, const RowFormat& format, int64_t row,
                int64_t count, std::byte* tile) {
  for (int64_t h = 0; h < format.heads; ++h) {
    for (int64_t i = 0; i < count; ++i) {
      const float* head = from.Row(from_row + i) + h * format.head_dim;
      switch (format.dtype) {
        case DType::kF32:
          Store(head, format, h, row + i, tile);
          break;
        case DType::kBF16:
          AppendBF16(head, format, h, row + i, tile);
          break;
        case DType::kF8E4M3:
          AppendF8(head, format, h, row + i, tile);
          break;
        default:
          FS_CHECK(false, "a cache of {}", Name(format.dtype));
      }
    }
  }
}

}  // namespace

void AppendPaged(Exec& exec, ConstMatrix rows, std::span<const AppendRows> sequences,
                 const PagedPlane& plane) {
  FS_DCHECK(rows.cols == int64_t{plane.format.heads} * plane.format.head_dim);
  FS_CHECK(plane.format.head_dim <= kMaxAttentionHeadDim, "cached heads of {}",
           plane.format.head_dim);
  int64_t total = 0;
  for (const AppendRows& sequence : sequences) total += sequence.row_count;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(rows.cols, 1));
  exec.pool.ParallelFor(total, grain, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;  // of this sequence, counted over all
    for (const AppendRows& sequence : sequences) {
      const int64_t lo = std::max(begin - first, int64_t{0});
      const int64_t hi = std::min(end - first, sequence.row_count);
      for (int64_t i = lo; i < hi;) {
        const int64_t position = sequence.first_position + i, row = position % kAttentionTile;
        const int64_t count = std::min(kAttentionTile - row, hi - i);
        AppendTile(rows, sequence.row_begin + i, plane.format, row, count,
                   plane.Tile(sequence.table, position));
        i += count;
      }
      first += sequence.row_count;
    }
  });
}

}  // namespace firesteel
#endif  // HWY_ONCE
