#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/reference.h"

namespace firesteel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every float at which the result can change, its neighbours, and the negatives: rounding is
// monotone in between.
template <typename Check>
void AroundEveryBoundary(uint32_t count, double (*decode)(uint32_t), Check check) {
  for (uint32_t bits = 0; bits + 1 < count; ++bits) {
    const double low = decode(bits), high = decode(bits + 1);
    for (double edge : {low, (low + high) / 2, high}) {
      const auto x = static_cast<float>(edge);
      for (float y : {std::nextafter(x, -kInfinity), x, std::nextafter(x, kInfinity)}) {
        check(y);
        check(-y);
      }
    }
  }
}

TEST(BF16, RoundsAsDefined) {
  const auto decode = [](uint32_t bits) { return double{std::bit_cast<float>(bits << 16)}; };
  AroundEveryBoundary(0x7F80, +decode,
                      [](float x) { ASSERT_EQ(F32ToBF16(x), reference::F32ToBF16(x)) << x; });
  for (float x : {kInfinity, -kInfinity, std::numeric_limits<float>::max(), 0.0f, -0.0f}) {
    EXPECT_EQ(F32ToBF16(x), reference::F32ToBF16(x)) << x;
  }
}

TEST(BF16, EveryValueSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = BF16ToF32(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(x), bits << 16);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(BF16ToF32(F32ToBF16(x))));
    } else {
      ASSERT_EQ(F32ToBF16(x), bits);
    }
  }
  EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(F8E4M3, EveryValueIsAsDefined) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto b = static_cast<uint8_t>(bits);
    const float x = F8E4M3ToF32(b), expected = reference::F8E4M3ToF32(b);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(x));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(expected)) << bits;
      ASSERT_EQ(F32ToF8E4M3(x), b);
    }
  }
}

TEST(F8E4M3, RoundsAsDefined) {
  const auto decode = [](uint32_t bits) {
    return double{reference::F8E4M3ToF32(static_cast<uint8_t>(bits))};
  };
  AroundEveryBoundary(0x7F, +decode,
                      [](float x) { ASSERT_EQ(F32ToF8E4M3(x), reference::F32ToF8E4M3(x)) << x; });
  // The upper halves of all floats: subnormals, overflow, infinities and NaN among them.
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0u, 1u, 0x8000u, 0xFFFFu}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(F32ToF8E4M3(x), reference::F32ToF8E4M3(x)) << x;
    }
  }
}

TEST(F16, EveryValueIsAsDefined) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float x = F16ToF32(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::signbit(x), bits >> 15 != 0);
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(x), mantissa != 0);
      ASSERT_EQ(std::isinf(x), mantissa == 0);
    } else {
      const double expected = exponent == 0
                                  ? std::ldexp(mantissa, -24)
                                  : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
      ASSERT_EQ(std::fabs(x), expected);
    }
  }
}

TEST(WidenToF32, TakesFloatTypesAtAnyAddress) {
  std::vector<std::byte> bytes(1 + 3 * 8);
  const auto widen = [&](DType dtype, auto... values) {
    std::byte* p = bytes.data() + 1;
    ((std::memcpy(p, &values, sizeof(values)), p += sizeof(values)), ...);
    std::vector<float> out(3);
    EXPECT_TRUE(WidenToF32({bytes.data() + 1, dtype, 1, 3, "w"}, out));
    return out;
  };
  const std::vector<float> expected = {1.5f, -2.0f, 0.25f};
  EXPECT_EQ(widen(DType::kF32, 1.5f, -2.0f, 0.25f), expected);
  EXPECT_EQ(widen(DType::kF64, 1.5, -2.0, 0.25), expected);
  EXPECT_EQ(widen(DType::kBF16, uint16_t{0x3FC0}, uint16_t{0xC000}, uint16_t{0x3E80}), expected);
  EXPECT_EQ(widen(DType::kF16, uint16_t{0x3E00}, uint16_t{0xC000}, uint16_t{0x3400}), expected);
}

TEST(WidenToF32, RefusesOthers) {
  const std::byte bytes[8] = {};
  float out[1];
  for (DType dtype : {DType::kI64, DType::kI8, DType::kF8E4M3, DType::kBool}) {
    EXPECT_FALSE(WidenToF32({bytes, dtype, 1, 1, "w"}, out));
  }
}

TEST(SimdTargetName, IsKnown) { EXPECT_STRNE(SimdTargetName(), ""); }

}  // namespace
}  // namespace firesteel
