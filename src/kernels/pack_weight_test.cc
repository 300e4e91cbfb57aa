#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/test_support.h"
#include "kernels/test_weights.h"

namespace firesteel {
namespace {

class PackWeightTest : public ::testing::Test {
 protected:
  Status Fault(const WeightSource& source, std::optional<WeightFormat> format = std::nullopt) {
    return PackWeight(exec_, {&source, 1}, format).status();
  }

  ThreadPool pool_{2};
  Exec exec_{pool_};
};

TEST_F(PackWeightTest, IsHardlyLargerThanTheCheckpoint) {
  for (const WeightFormat format : kFloatFormats) {
    for (const int64_t k : {1024, 2048, 3072}) {
      const StoredWeight stored(format, 64, k, 1);
      const Result<PackedWeight> packed = PackWeight(exec_, {&stored.source, 1});
      ASSERT_TRUE(packed.ok());
      const auto bytes = static_cast<double>(stored.bytes.size() + stored.scale_bytes.size());
      EXPECT_LE(static_cast<double>(packed->bytes()), 1.02 * bytes) << Name(format);
      EXPECT_EQ(packed->bytes(), packed->panel_bytes() * 2);
    }
  }
}

// Widening is exact up to the one rounding of element times scale; products without scales have the
// same bits.
TEST_F(PackWeightTest, WidensEveryFormat) {
  for (const WeightFormat format : kFloatFormats) {
    const StoredWeight stored(format, 70, 290, 2);
    const Result<PackedWeight> narrow = PackWeight(exec_, {&stored.source, 1});
    const Result<PackedWeight> wide = PackWeight(exec_, {&stored.source, 1}, WeightFormat::kF32);
    ASSERT_TRUE(narrow.ok() && wide.ok());
    ASSERT_EQ(wide->format(), WeightFormat::kF32);
    for (int64_t n = 0; n < 70; ++n) {
      for (int64_t k = 0; k < 290; ++k) {
        const auto* w = reinterpret_cast<const float*>(wide->data());
        ASSERT_EQ(w[(n / 32 * 290 + k) * 32 + n % 32], stored.values().Row(n)[k]);
      }
    }
    if (!stored.scale_bytes.empty()) continue;
    const TestMatrix x = TestMatrix::Random(3, 290, 4), a(3, 70), b(3, 70);
    MatMul(exec_, x, *narrow, a);
    MatMul(exec_, x, *wide, b);
    EXPECT_TRUE(SameBits(a.view(), b.view())) << Name(format);
  }
}

TEST_F(PackWeightTest, RoundsToBF16) {
  for (const WeightFormat format : kFloatFormats) {
    const StoredWeight stored(format, 40, 66, 3);
    StoredWeight rounded(WeightFormat::kBF16, 40, 66, 3);
    for (size_t i = 0; i < stored.wide.size(); ++i) {
      const uint16_t half = F32ToBF16(stored.wide[i]);
      std::memcpy(&rounded.bytes[2 * i], &half, 2);
    }
    const Result<PackedWeight> a = PackWeight(exec_, {&stored.source, 1}, WeightFormat::kBF16);
    const Result<PackedWeight> b = PackWeight(exec_, {&rounded.source, 1});
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_EQ(a->bytes(), b->bytes());
    EXPECT_EQ(std::memcmp(a->data(), b->data(), static_cast<size_t>(a->bytes())), 0);
  }
}

TEST_F(PackWeightTest, ConvertsPartsOfSeveralTypes) {
  const StoredWeight a(WeightFormat::kBF16, 5, 8, 1, "q"), b(WeightFormat::kF32, 4, 8, 1, "k");
  const StoredWeight c(WeightFormat::kFp4, 4, 8, 1, "v");
  const double f64[8] = {1, 2, 3, 4, 5, 6, 7, 0.1};
  const WeightSource d{{reinterpret_cast<const std::byte*>(f64), DType::kF64, 1, 8, "double"}, {}};
  const WeightSource all[] = {a.source, b.source, c.source, d};
  const Result<PackedWeight> packed = PackWeight(exec_, all, WeightFormat::kF32);
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_EQ(packed->rows(), 14);
  const auto* w = reinterpret_cast<const float*>(packed->data());
  EXPECT_EQ(w[7 * 32 + 13], 0.1f);
  EXPECT_EQ(w[3 * 32 + 5], b.values().Row(0)[3]);
  EXPECT_EQ(w[2 * 32 + 10], c.values().Row(1)[2]);
  EXPECT_EQ(Fault(d).code(), StatusCode::kUnsupported);
}

TEST_F(PackWeightTest, SaysWhichTensorDoesNotFit) {
  const StoredWeight bf16(WeightFormat::kBF16, 4, 8, 1, "q"), f32(WeightFormat::kF32, 4, 8, 1, "k");
  const StoredWeight narrow(WeightFormat::kBF16, 4, 7, 1, "v");
  WeightSource whole = bf16.source;
  whole.weight.dtype = DType::kI8;
  EXPECT_EQ(Fault(whole).code(), StatusCode::kUnsupported);
  EXPECT_EQ(Fault(whole).message(),
            "weights: q is I8, expected F32, BF16, F16, F8_E4M3, or U8 with scales of FP4");
  const WeightSource mixed[] = {bf16.source, f32.source};
  EXPECT_EQ(PackWeight(exec_, mixed).status().message(),
            "weights: k is F32, expected BF16 as q beside it");
  const WeightSource widths[] = {bf16.source, narrow.source};
  EXPECT_EQ(PackWeight(exec_, widths).status().code(), StatusCode::kDataCorrupt);
  EXPECT_FALSE(PackWeight(exec_, {}).ok());
  EXPECT_EQ(Fault(bf16.source, WeightFormat::kFp8).code(), StatusCode::kUnsupported);
  EXPECT_EQ(Fault(bf16.source, WeightFormat::kFp8).message(),
            "weights: q is BF16, which is not converted to fp8");
}

TEST_F(PackWeightTest, ChecksScales) {
  StoredWeight fp8(WeightFormat::kFp8, 300, 130, 1);
  WeightSource source = fp8.source;
  source.scale.rows = 2;
  EXPECT_EQ(Fault(source).code(), StatusCode::kDataCorrupt);
  EXPECT_EQ(Fault(source).message(),
            "weights: w_scale_inv is [2, 2], expected [3, 2] for w of [300, 130]");
  source = fp8.source;
  source.scale.dtype = DType::kF16;
  EXPECT_EQ(Fault(source).code(), StatusCode::kUnsupported);
  const float nan = std::nanf("");
  std::memcpy(&fp8.scale_bytes[5 * 4], &nan, 4);
  EXPECT_EQ(Fault(fp8.source).message(),
            "weights: w_scale_inv holds nan at [2, 1], expected at most 2^118");

  StoredWeight fp4(WeightFormat::kFp4, 40, 66, 1);
  source = fp4.source;
  source.scale.cols = 2;
  EXPECT_EQ(Fault(source).code(), StatusCode::kDataCorrupt);
  fp4.scale_bytes[7] = std::byte{255};
  EXPECT_EQ(Fault(fp4.source).message(),
            "weights: w_scale holds nan at [2, 1], expected at most 2^118");
}

TEST_F(PackWeightTest, RefusesNaNInFp8) {
  const StoredWeight first(WeightFormat::kFp8, 64, 130, 1, "q");
  StoredWeight second(WeightFormat::kFp8, 100, 130, 2, "k");
  second.bytes[99 * 130 + 3] = std::byte{0x7F};
  second.bytes[41 * 130 + 129] = std::byte{0xFF};
  const WeightSource parts[] = {first.source, second.source};
  const Status status = PackWeight(exec_, parts).status();
  EXPECT_EQ(status.code(), StatusCode::kDataCorrupt);
  EXPECT_EQ(status.message(), "weights: k holds NaN at [41, 129], expected numbers");
  const WeightSource ragged[] = {second.source, first.source};
  EXPECT_EQ(PackWeight(exec_, ragged).status().message(),
            "weights: k has 100 rows, expected a multiple of 32 to stack F8_E4M3 parts behind it");
}

TEST_F(PackWeightTest, Fp8ScalesOfEveryType) {
  StoredWeight f32(WeightFormat::kFp8, 200, 140, 1);
  std::vector<uint16_t> bf16(4);
  std::vector<uint8_t> e8m0(4);
  for (size_t i = 0; i < 4; ++i) {
    const float scale = std::ldexp(1.0f, static_cast<int>(i) - 3);
    std::memcpy(&f32.scale_bytes[4 * i], &scale, 4);
    bf16[i] = F32ToBF16(scale);
    e8m0[i] = static_cast<uint8_t>(124 + i);
  }
  const Result<PackedWeight> expected = PackWeight(exec_, {&f32.source, 1});
  ASSERT_TRUE(expected.ok());
  const auto same = [&](DType dtype, const void* data) {
    WeightSource source = f32.source;
    source.scale.dtype = dtype;
    source.scale.data = static_cast<const std::byte*>(data);
    const Result<PackedWeight> packed = PackWeight(exec_, {&source, 1});
    return packed.ok() &&
           std::memcmp(packed->data(), expected->data(), static_cast<size_t>(packed->bytes())) == 0;
  };
  EXPECT_TRUE(same(DType::kBF16, bf16.data()));
  EXPECT_TRUE(same(DType::kF8E8M0, e8m0.data()));
}

}  // namespace
}  // namespace firesteel
