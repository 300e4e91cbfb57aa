// Decodes a tile of kAttentionTile cached rows of one head to float32: keys transposed, values as
// they lie.
//
// Include after highway.h, inside no namespace.

#if defined(FIRESTEEL_KERNELS_KV_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_KV_TILE_INL_H
#undef FIRESTEEL_KERNELS_KV_TILE_INL_H
#else
#define FIRESTEEL_KERNELS_KV_TILE_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/convert.h"
#include "kernels/paged_attention.h"
#include "kernels/partial-inl.h"
#include "tensor/paged_view.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU = hn::Repartition<uint32_t, D>;
using VecU = hn::Vec<DU>;

constexpr int64_t kTile = kAttentionTile;
constexpr int64_t kTileVectors = kTile / kLanes;
constexpr int64_t kMaxHeadDim = kMaxAttentionHeadDim;

// Where the elements of one head begin in each row of a tile.
struct TileRows {
  const std::byte* elements[kTile];
  float scales[kTile];  // FP8 only
};

// Each cell type says how to widen one element, a vector of elements that lie side by side, and
// element `e` of every 32-bit word of a vector.
struct F32Cells {
  static constexpr int64_t kBytes = 4;
  static constexpr bool kScaled = false;
  static float One(const std::byte* p) {
    float x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  static HWY_INLINE Vec Row(const std::byte* p) {
    return hn::LoadU(D(), reinterpret_cast<const float*>(p));
  }
  template <int e>
  static HWY_INLINE Vec FromWords(VecU words) {
    return hn::BitCast(D(), words);
  }
};

struct BF16Cells {
  static constexpr int64_t kBytes = 2;
  static constexpr bool kScaled = false;
  static float One(const std::byte* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return BF16ToF32(bits);
  }
  static HWY_INLINE Vec Row(const std::byte* p) {
    const hn::Rebind<uint16_t, D> half;
    const VecU wide = hn::PromoteTo(DU(), hn::LoadU(half, reinterpret_cast<const uint16_t*>(p)));
    return hn::BitCast(D(), hn::ShiftLeft<16>(wide));
  }
  template <int e>
  static HWY_INLINE Vec FromWords(VecU words) {
    return hn::BitCast(
        D(), e == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, hn::Set(DU(), 0xFFFF0000u)));
  }
};

struct F8Cells {
  static constexpr int64_t kBytes = 1;
  static constexpr bool kScaled = true;
  static float One(const std::byte* p) { return F8E4M3ToF32(static_cast<uint8_t>(*p)); }
  static HWY_INLINE Vec Row(const std::byte* p) {
    const hn::Rebind<uint8_t, D> quarter;
    return Widen(hn::PromoteTo(DU(), hn::LoadU(quarter, reinterpret_cast<const uint8_t*>(p))));
  }
  template <int e>
  static HWY_INLINE Vec FromWords(VecU words) {
    return Widen(hn::And(hn::ShiftRight<8 * e>(words), hn::Set(DU(), 0xFFu)));
  }

 private:
  static HWY_INLINE Vec Widen(VecU bytes) {
    const D d;
    const DU du;
    const VecU magnitude = hn::And(bytes, hn::Set(du, 0x7Fu));
    const VecU sign = hn::ShiftLeft<24>(hn::Xor(bytes, magnitude));
    const VecU shifted = hn::ShiftLeft<20>(magnitude);
    const Vec normal = hn::BitCast(d, hn::Add(shifted, hn::Set(du, 120u << 23)));
    // A subnormal m * 2^-9 comes from (1 + m/8) * 2^-6 by subtraction: a float32 subnormal would
    // cost a trap per vector.
    const Vec subnormal =
        hn::Sub(hn::BitCast(d, hn::Add(shifted, hn::Set(du, 121u << 23))), hn::Set(d, 0x1p-6f));
    const auto is_subnormal = hn::RebindMask(d, hn::Lt(AsSigned(magnitude), hn::Set(DI(), 8)));
    const auto is_nan = hn::RebindMask(d, hn::Eq(AsSigned(magnitude), hn::Set(DI(), 0x7F)));
    const Vec nan = hn::BitCast(d, hn::Set(du, 0x7FC00000u));
    const Vec value = hn::IfThenElse(is_nan, nan, hn::IfThenElse(is_subnormal, subnormal, normal));
    return hn::Or(value, hn::BitCast(d, sign));
  }
  using DI = hn::Repartition<int32_t, D>;
  static HWY_INLINE hn::Vec<DI> AsSigned(VecU v) { return hn::BitCast(DI(), v); }
};

// values[p * stride + d] for the first `count` positions; zeros from head_dim up to stride.
template <class Cells>
void DecodeValues(const TileRows& rows, int64_t count, int64_t head_dim, int64_t stride,
                  float* HWY_RESTRICT values) {
  const D d;
  for (int64_t p = 0; p < count; ++p) {
    const std::byte* from = rows.elements[p];
    float* HWY_RESTRICT to = values + p * stride;
    const Vec scale = hn::Set(d, Cells::kScaled ? rows.scales[p] : 1.0f);
    int64_t i = 0;
    for (; i + kLanes <= head_dim; i += kLanes) {
      Vec v = Cells::Row(from + i * Cells::kBytes);
      if constexpr (Cells::kScaled) v = hn::Mul(v, scale);
      hn::Store(v, d, to + i);
    }
    for (; i < head_dim; ++i) {
      to[i] = Cells::One(from + i * Cells::kBytes);
      if constexpr (Cells::kScaled) to[i] *= rows.scales[p];
    }
    for (; i < stride; ++i) to[i] = 0.0f;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four vectors that hold words 0 … 3 of position 4 b + r in block b of vector r become four that
// hold all positions of one word.
HWY_INLINE void Transpose4x4(VecU& v0, VecU& v1, VecU& v2, VecU& v3) {
  const DU du;
  const hn::Repartition<uint64_t, DU> d64;
  const auto a = hn::BitCast(d64, hn::InterleaveLower(du, v0, v1));
  const auto b = hn::BitCast(d64, hn::InterleaveLower(du, v2, v3));
  const auto c = hn::BitCast(d64, hn::InterleaveUpper(du, v0, v1));
  const auto e = hn::BitCast(d64, hn::InterleaveUpper(du, v2, v3));
  v0 = hn::BitCast(du, hn::InterleaveLower(d64, a, b));
  v1 = hn::BitCast(du, hn::InterleaveUpper(d64, a, b));
  v2 = hn::BitCast(du, hn::InterleaveLower(d64, c, e));
  v3 = hn::BitCast(du, hn::InterleaveUpper(d64, c, e));
}

// Widens the elements of one word, for all positions of vector `v`, into their rows of `keys`.
template <class Cells>
HWY_INLINE void StoreWord(VecU words, Vec scale, float* HWY_RESTRICT keys) {
  const D d;
  const auto store = [&](Vec x, int64_t e) HWY_ATTR {
    if constexpr (Cells::kScaled) x = hn::Mul(x, scale);
    hn::Store(x, d, keys + e * kTile);
  };
  store(Cells::template FromWords<0>(words), 0);
  if constexpr (Cells::kBytes <= 2) store(Cells::template FromWords<1>(words), 1);
  if constexpr (Cells::kBytes == 1) {
    store(Cells::template FromWords<2>(words), 2);
    store(Cells::template FromWords<3>(words), 3);
  }
}
#endif

// keys[d * kTile + p]. All rows must be readable; what is in a row beyond the valid ones stays in
// its own column.
template <class Cells>
void DecodeKeys(const TileRows& rows, int64_t head_dim, float* HWY_RESTRICT keys) {
  int64_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kPerChunk = 16 / Cells::kBytes;  // elements in 16 bytes
  constexpr int64_t kBlocks = kLanes / 4;
  const int64_t chunks = head_dim / kPerChunk;
  // First 16-byte pieces to where full vectors can pick them up, then the transposition: loading a
  // vector right behind the stores of its pieces would wait for the store buffer.
  HWY_ALIGN std::byte pieces[kTile * kMaxHeadDim * Cells::kBytes];
  for (int64_t p = 0; p < kTile; ++p) {
    const int64_t v = p / kLanes, b = p % kLanes / 4, r = p % 4;
    const std::byte* from = rows.elements[p];
    std::byte* to = pieces + ((v * 4 + r) * kBlocks + b) * 16;
    for (int64_t c = 0; c < chunks; ++c) std::memcpy(to + c * kTile * 16, from + c * 16, 16);
  }
  const D d;
  const DU du;
  for (int64_t c = 0; c < chunks; ++c) {
    for (int64_t v = 0; v < kTileVectors; ++v) {
      const auto* piece = reinterpret_cast<const uint32_t*>(pieces + (c * kTile + v * kLanes) * 16);
      VecU w0 = hn::Load(du, piece), w1 = hn::Load(du, piece + kLanes);
      VecU w2 = hn::Load(du, piece + 2 * kLanes), w3 = hn::Load(du, piece + 3 * kLanes);
      Transpose4x4(w0, w1, w2, w3);
      const Vec scale = Cells::kScaled ? hn::LoadU(d, rows.scales + v * kLanes) : hn::Zero(d);
      float* to = keys + c * kPerChunk * kTile + v * kLanes;
      StoreWord<Cells>(w0, scale, to);
      StoreWord<Cells>(w1, scale, to + kPerChunk / 4 * kTile);
      StoreWord<Cells>(w2, scale, to + 2 * (kPerChunk / 4) * kTile);
      StoreWord<Cells>(w3, scale, to + 3 * (kPerChunk / 4) * kTile);
    }
  }
  done = chunks * kPerChunk;
#endif
  for (; done < head_dim; ++done) {
    for (int64_t p = 0; p < kTile; ++p) {
      float x = Cells::One(rows.elements[p] + done * Cells::kBytes);
      if constexpr (Cells::kScaled) x *= rows.scales[p];
      keys[done * kTile + p] = x;
    }
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
