#include "kernels/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {
namespace {

template <typename T, typename Convert>
void Widen(const std::byte* from, std::span<float> to, Convert convert) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = convert(LoadUnaligned<T>(from + i * sizeof(T)));
}

}  // namespace

HWY_EXPORT(TargetName);

const char* SimdTargetName() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

float BF16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Rounding would carry a NaN with a small payload into infinity.
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  const uint32_t wide = exponent == 31 ? 0xFF : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float F8E4M3ToF32(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80u} << 24;
  const uint32_t exponent = bits >> 3 & 0xF;
  const uint32_t mantissa = bits & 7;
  if ((bits & 0x7F) == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign == 0 ? magnitude : -magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 7) << 23 | mantissa << 20);
}

uint8_t F32ToF8E4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7F;
  if (magnitude >= std::bit_cast<uint32_t>(448.0f)) return sign | 0x7E;
  if (magnitude < std::bit_cast<uint32_t>(0x1p-6f)) {
    // Subnormal: a multiple of 2^-9. Adding 2^14, whose last bit is 2^-9, rounds it to nearest
    // even.
    const float rounded = std::bit_cast<float>(magnitude) + 0x1p14f;
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(rounded) -
                                       std::bit_cast<uint32_t>(0x1p14f));
  }
  const uint32_t rounded = magnitude + 0x7FFFF + (magnitude >> 20 & 1);
  return sign | static_cast<uint8_t>((rounded >> 20) - ((127 - 7) << 3));
}

float F8E8M0ToF32(uint8_t bits) {
  if (bits == 0) return 0x1p-127f;
  return std::bit_cast<float>(bits == 255 ? 0x7FC00000u : uint32_t{bits} << 23);
}

float F4E2M1ToF32(uint8_t bits) {
  constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[bits & 7];
  return bits & 8 ? -magnitude : magnitude;
}

bool WidenToF32(const WeightView& from, std::span<float> to) {
  FS_DCHECK(static_cast<int64_t>(to.size()) == from.rows * from.cols);
  switch (from.dtype) {
    case DType::kF32:
      Widen<float>(from.data, to, [](float x) { return x; });
      return true;
    case DType::kBF16:
      Widen<uint16_t>(from.data, to, BF16ToF32);
      return true;
    case DType::kF16:
      Widen<uint16_t>(from.data, to, F16ToF32);
      return true;
    case DType::kF64:
      Widen<double>(from.data, to, [](double x) { return static_cast<float>(x); });
      return true;
    default:
      return false;
  }
}

}  // namespace firesteel
#endif  // HWY_ONCE
