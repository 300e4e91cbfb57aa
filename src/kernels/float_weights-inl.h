// The floating weight formats as the matmul sees them: how a unit of consecutive k is decoded to
// float32. Include after partial-inl.h.
//
// A format has
//   kUnit, kUnitBytes    elements of a row that are decoded together, and what they take in a panel
//   kFeatureBytes        from one feature to the next within a unit
//   kGroup               elements of a row under one scale; a multiple of kUnit
//   UnitOffset(k)        where the unit of k (a multiple of kUnit) begins in the panel
//   Scale(panel, k, f)   scales of the features f … f + kLanes - 1 in the group of k
//   Decode<j>(unit, …)   element j of a unit, for the features at `unit` and the kLanes after them,
//                        before scaling

#if defined(FIRESTEEL_KERNELS_FLOAT_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_FLOAT_WEIGHTS_INL_H
#undef FIRESTEEL_KERNELS_FLOAT_WEIGHTS_INL_H
#else
#define FIRESTEEL_KERNELS_FLOAT_WEIGHTS_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/panel_layout_internal.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU32 = hn::Repartition<uint32_t, D>;
using VecU32 = hn::Vec<DU32>;
using DU16 = hn::Rebind<uint16_t, D>;  // as many lanes as D
constexpr int64_t kPanel = PackedWeight::kPanel;
constexpr int64_t kNoGroup = int64_t{1} << 62;  // not scaled

template <typename T>
HWY_INLINE const T* As(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}

struct F32Weight {
  static constexpr int64_t kUnit = 1, kUnitBytes = kPanel * 4, kFeatureBytes = 4;
  static constexpr int64_t kGroup = kNoGroup;
  static int64_t UnitOffset(int64_t k) { return k * kUnitBytes; }
  template <int j>
  static HWY_INLINE void Decode(const std::byte* unit, Vec& a, Vec& b) {
    a = hn::Load(D(), As<float>(unit));
    b = hn::Load(D(), As<float>(unit) + kLanes);
  }
};

struct BF16Weight {
  static constexpr int64_t kUnit = 2, kUnitBytes = kPanel * 4, kFeatureBytes = 4;
  static constexpr int64_t kGroup = kNoGroup;
  static int64_t UnitOffset(int64_t k) { return k / kUnit * kUnitBytes; }
  template <int j>
  static HWY_INLINE void Decode(const std::byte* unit, Vec& a, Vec& b) {
    a = Half<j>(As<uint32_t>(unit));
    b = Half<j>(As<uint32_t>(unit) + kLanes);
  }

 private:
  template <int j>
  static HWY_INLINE Vec Half(const uint32_t* words) {
    const VecU32 w = hn::Load(DU32(), words);
    if constexpr (j == 0) return hn::BitCast(D(), hn::ShiftLeft<16>(w));
    return hn::BitCast(D(), hn::And(w, hn::Set(DU32(), 0xFFFF0000u)));
  }
};

HWY_INLINE Vec WidenF16(hn::Vec<DU16> bits) {
  return hn::PromoteTo(D(), hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}

struct F16Weight {
  static constexpr int64_t kUnit = 2, kUnitBytes = kPanel * 4, kFeatureBytes = 2;
  static constexpr int64_t kGroup = kNoGroup;
  static int64_t UnitOffset(int64_t k) { return k / kUnit * kUnitBytes; }
  template <int j>
  static HWY_INLINE void Decode(const std::byte* unit, Vec& a, Vec& b) {
    const auto* halves = As<uint16_t>(unit) + j * kPanel;
    a = WidenF16(hn::Load(DU16(), halves));
    b = WidenF16(hn::Load(DU16(), halves + kLanes));
  }
};

// e4m3 with its exponent moved into that of a float16 is 2^-8 of its value, subnormals included,
// and the conversion to float32 is the hardware's. The packed scale brings the 2^8 back.
struct Fp8Weight {
  static constexpr int64_t kUnit = 2, kUnitBytes = kPanel * 2, kFeatureBytes = 2;
  static constexpr int64_t kGroup = kFp8Block;
  static int64_t UnitOffset(int64_t k) {
    return (k / kGroup + 1) * kFp8ScaleBytes + k / kUnit * kUnitBytes;
  }
  static HWY_INLINE Vec Scale(const std::byte* panel, int64_t k, int64_t) {
    return hn::Load(D(), As<float>(panel + UnitOffset(k / kGroup * kGroup) - kFp8ScaleBytes));
  }
  template <int j>
  static HWY_INLINE void Decode(const std::byte* unit, Vec& a, Vec& b) {
    const auto* pairs = As<uint16_t>(unit);
#if HWY_TARGET == HWY_AVX3
    // 2 kLanes pairs fill a vector; halving it afterwards is cheaper than shifting twice.
    const hn::Repartition<uint16_t, D> du;
    const auto halves = Half<j>(du, hn::Load(du, pairs));
    a = WidenF16(hn::LowerHalf(DU16(), halves));
    b = WidenF16(hn::UpperHalf(DU16(), halves));
#else
    a = WidenF16(Half<j>(DU16(), hn::Load(DU16(), pairs)));
    b = WidenF16(Half<j>(DU16(), hn::Load(DU16(), pairs + kLanes)));
#endif
  }

 private:
  template <int j, class DU, class V>
  static HWY_INLINE V Half(DU du, V pairs) {
    const hn::RebindToSigned<DU> di;
    if constexpr (j == 0) pairs = hn::ShiftLeft<8>(pairs);
    // The sign falls into two bits, of which the mask keeps the upper.
    const V moved = hn::BitCast(du, hn::ShiftRight<1>(hn::BitCast(di, pairs)));
    return hn::And(moved, hn::Set(du, static_cast<uint16_t>(0xBF80)));
  }
};

struct Fp4Weight {
  static constexpr int64_t kUnit = 8, kUnitBytes = kPanel * 4, kFeatureBytes = 4;
  static constexpr int64_t kGroup = kFp4Group;
  static int64_t UnitOffset(int64_t k) {
    return (k / kFp4Block + 1) * kFp4ScaleBytes + k / kUnit * kUnitBytes;
  }
  static HWY_INLINE Vec Scale(const std::byte* panel, int64_t k, int64_t f) {
    const int64_t scales = UnitOffset(k / kFp4Block * kFp4Block) - kFp4ScaleBytes;
    const auto* p = As<uint8_t>(panel + scales + k / kGroup % 2 * kPanel + f);
    const VecU32 exponent = hn::PromoteTo(DU32(), hn::Load(hn::Rebind<uint8_t, D>(), p));
    // Byte 0 means 2^-127, a subnormal of float32.
    return hn::BitCast(D(), hn::Max(hn::ShiftLeft<23>(exponent), hn::Set(DU32(), 0x400000u)));
  }
  template <int j>
  static HWY_INLINE void Decode(const std::byte* unit, Vec& a, Vec& b) {
    constexpr int kShift = 4 * kNibbleOrder[j];
    const auto* words = As<uint32_t>(unit);
    a = Value<kShift>(hn::Load(DU32(), words));
    b = Value<kShift>(hn::Load(DU32(), words + kLanes));
  }

 private:
  // The value of the nibble at bit kShift.
  template <int kShift>
  static HWY_INLINE Vec Value(VecU32 words) {
#if HWY_TARGET == HWY_AVX3
    // The permutation looks at the low four bits of an index only.
    const Vec table{_mm512_setr_ps(0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f,  //
                                   -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f)};
    return Vec{_mm512_permutexvar_ps(hn::ShiftRight<kShift>(words).raw, table.raw)};
#elif HWY_TARGET == HWY_AVX2
    // Here at three; the sign follows by hand.
    const Vec table{_mm256_setr_ps(0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f)};
    const Vec magnitude{_mm256_permutevar8x32_ps(table.raw, hn::ShiftRight<kShift>(words).raw)};
    return hn::Or(magnitude, Sign<kShift>(words));
#else
    // Twice the magnitude is the largest of m, 2 m - 4 and 4 m - 16.
    const hn::RebindToSigned<DU32> di;
    const auto m = hn::BitCast(di, hn::And(hn::ShiftRight<kShift>(words), hn::Set(DU32(), 7)));
    const auto twice = hn::Max(hn::Max(m, hn::Sub(hn::ShiftLeft<1>(m), hn::Set(di, 4))),
                               hn::Sub(hn::ShiftLeft<2>(m), hn::Set(di, 16)));
    const Vec magnitude = hn::Mul(hn::ConvertTo(D(), twice), hn::Set(D(), 0.5f));
    return hn::Or(magnitude, Sign<kShift>(words));
#endif
  }

  template <int kShift>
  static HWY_INLINE Vec Sign(VecU32 words) {
    return hn::BitCast(D(),
                       hn::And(hn::ShiftLeft<28 - kShift>(words), hn::Set(DU32(), 0x80000000u)));
  }
};

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
