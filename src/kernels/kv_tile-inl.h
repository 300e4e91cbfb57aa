// What a tile of the cache holds for one head, as vectors of float32. Include after highway.h,
// inside no namespace.
//
// FP8 elements come out as 2^-8 of their value, and without their scale: both go into the score of
// a key and into the weight of a value, once for a position instead of once for an element.

#if defined(FIRESTEEL_KERNELS_KV_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_KV_TILE_INL_H
#undef FIRESTEEL_KERNELS_KV_TILE_INL_H
#else
#define FIRESTEEL_KERNELS_KV_TILE_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/partial-inl.h"
#include "tensor/matrix.h"
#include "tensor/paged_view.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kTile = kAttentionTile;
constexpr int64_t kTileVectors = kTile / kLanes;
constexpr int64_t kLine = 64;  // bytes that a prefetch brings

// Load: kLanes elements that lie side by side. LoadPair: twice as many; kPairs where that is
// cheaper than two loads.
struct F32Cells {
  static constexpr int64_t kBytes = 4;
  static constexpr bool kScaled = false, kPairs = false;
  static HWY_INLINE Vec Load(const std::byte* p) {
    return hn::LoadU(D(), reinterpret_cast<const float*>(p));
  }
  static HWY_INLINE void LoadPair(const std::byte* p, Vec& a, Vec& b) {
    a = Load(p);
    b = Load(p + kLanes * kBytes);
  }
};

struct BF16Cells {
  static constexpr int64_t kBytes = 2;
  static constexpr bool kScaled = false, kPairs = false;
  static HWY_INLINE Vec Load(const std::byte* p) {
    const hn::Rebind<uint16_t, D> half;
    const hn::Repartition<uint32_t, D> du;
    const auto wide = hn::PromoteTo(du, hn::LoadU(half, reinterpret_cast<const uint16_t*>(p)));
    return hn::BitCast(D(), hn::ShiftLeft<16>(wide));
  }
  static HWY_INLINE void LoadPair(const std::byte* p, Vec& a, Vec& b) {
    a = Load(p);
    b = Load(p + kLanes * kBytes);
  }
};

// e4m3 with its exponent moved into that of a float16 is 2^-8 of its value, subnormals included,
// and the conversion to float32 is the hardware's. The code for NaN is never stored (AppendPaged).
struct F8Cells {
  static constexpr int64_t kBytes = 1;
  static constexpr bool kScaled = true, kPairs = HWY_TARGET == HWY_AVX3;
  static constexpr float kUnit = 256.0f;
  using DU16 = hn::Rebind<uint16_t, D>;
  static HWY_INLINE Vec Load(const std::byte* p) { return ToF32(Halves(DU16(), p)); }
  static HWY_INLINE void LoadPair(const std::byte* p, Vec& a, Vec& b) {
#if HWY_TARGET == HWY_AVX3
    const auto halves = Halves(hn::Repartition<uint16_t, D>(), p);
    a = ToF32(hn::LowerHalf(DU16(), halves));
    b = ToF32(hn::UpperHalf(DU16(), halves));
#else
    a = Load(p);
    b = Load(p + kLanes * kBytes);
#endif
  }

 private:
  // Widening with the sign leaves it in the 16th bit and in the one below, of which the mask keeps
  // the upper.
  template <class DU>
  static HWY_INLINE hn::Vec<DU> Halves(DU du, const std::byte* p) {
    const hn::RebindToSigned<DU> di;
    const hn::Rebind<int8_t, DU> bytes;
    const auto wide = hn::PromoteTo(di, hn::LoadU(bytes, reinterpret_cast<const int8_t*>(p)));
    return hn::And(hn::BitCast(du, hn::ShiftLeft<7>(wide)),
                   hn::Set(du, static_cast<uint16_t>(0xBFFF)));
  }
  static HWY_INLINE Vec ToF32(hn::Vec<DU16> halves) {
    return hn::PromoteTo(D(), hn::BitCast(hn::Rebind<hwy::float16_t, D>(), halves));
  }
};

// Widens `count` elements that lie side by side, a multiple of 2 kLanes.
template <class Cells>
HWY_INLINE void Widen(const std::byte* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const D d;
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    Vec a, b;
    Cells::LoadPair(from + i * Cells::kBytes, a, b);
    hn::Store(a, d, to + i);
    hn::Store(b, d, to + i + kLanes);
  }
}

// The keys of a tile: to[d * kTile + p].
template <class Cells>
HWY_INLINE void WidenKeys(const std::byte* from, int64_t head_dim, float* HWY_RESTRICT to) {
  if constexpr (kTileVectors % 2 == 0) {
    Widen<Cells>(from, head_dim * kTile, to);
  } else {
    const int64_t pairs = head_dim / 2 * 2;
    Widen<Cells>(from, pairs * kTile, to);
    if (pairs < head_dim) {
      hn::Store(Cells::Load(from + pairs * kTile * Cells::kBytes), D(), to + pairs * kTile);
    }
  }
}

// Values [begin, end) of a tile: to[p * stride + d], zeros from head_dim up to stride.
template <class Cells>
HWY_INLINE void WidenValues(const std::byte* from, int64_t begin, int64_t end, int64_t head_dim,
                            int64_t stride, float* HWY_RESTRICT to) {
  if (head_dim == stride && head_dim % (2 * kLanes) == 0) {
    Widen<Cells>(from + begin * head_dim * Cells::kBytes, (end - begin) * head_dim,
                 to + begin * stride);
    return;
  }
  for (int64_t p = begin; p < end; ++p) {
    const std::byte* row = from + p * head_dim * Cells::kBytes;
    for (int64_t d = 0; d < stride; d += kLanes) {
      // Past its row a vector would read what belongs to others, or to nobody.
      HWY_ALIGN std::byte cells[kLanes * Cells::kBytes] = {};
      const int64_t here = HWY_MAX(HWY_MIN(head_dim - d, kLanes), int64_t{0});
      std::memcpy(cells, row + d * Cells::kBytes, static_cast<size_t>(here * Cells::kBytes));
      hn::Store(Cells::Load(cells), D(), to + p * stride + d);
    }
  }
}

// Rows [first, first + count) of a matrix as a tile of keys, zeros behind.
inline void KeysFromRows(const ConstMatrix& rows, int64_t first, int64_t count, int64_t column,
                         int64_t head_dim, float* HWY_RESTRICT to) {
  for (int64_t p = 0; p < kTile; ++p) {
    const float* from = p < count ? rows.Row(first + p) + column : nullptr;
    for (int64_t d = 0; d < head_dim; ++d) to[d * kTile + p] = from != nullptr ? from[d] : 0.0f;
  }
}

inline void ValuesFromRows(const ConstMatrix& rows, int64_t first, int64_t count, int64_t column,
                           int64_t head_dim, int64_t stride, float* HWY_RESTRICT to) {
  for (int64_t p = 0; p < count; ++p) {
    std::memcpy(to + p * stride, rows.Row(first + p) + column,
                static_cast<size_t>(head_dim) * sizeof(float));
    std::memset(to + p * stride + head_dim, 0,
                static_cast<size_t>(stride - head_dim) * sizeof(float));
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
