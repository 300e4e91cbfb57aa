#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/test_support.h"
#include "kernels/test_weights.h"

namespace firesteel {
namespace {

PackedWeight Pack(Exec& exec, const StoredWeight& weight) {
  Result<PackedWeight> packed = PackWeight(exec, std::span(&weight.source, 1));
  FS_CHECK(packed.ok(), "{}", packed.status().message());
  return *std::move(packed);
}

bool IsScalar() { return std::string(SimdTargetName()) == "SCALAR"; }

// |out - sum| is at most the rounding of a chain of K multiply-adds, for each element.
void ExpectProduct(ConstMatrix x, ConstMatrix w, ConstMatrix out) {
  for (int64_t m = 0; m < x.rows; ++m) {
    for (int64_t n = 0; n < w.rows; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < x.cols; ++k) {
        sum += double{x.Row(m)[k]} * w.Row(n)[k];
        magnitude += std::fabs(double{x.Row(m)[k]} * w.Row(n)[k]);
      }
      const double tolerance = magnitude * static_cast<double>(x.cols + 2) * 0x1p-23;
      ASSERT_LE(std::fabs(out.Row(m)[n] - sum), tolerance) << "at " << m << ", " << n;
    }
  }
}

TEST(MatMul, MatchesReferenceAtOddSizes) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (const WeightFormat format : kFloatFormats) {
    for (const int64_t n : {1, 31, 32, 33, 130}) {
      for (int64_t k : {1, 2, 3, 17, 64, 97, 128, 131, 257}) {
        if (format == WeightFormat::kFp4) k += k % 2;
        const StoredWeight stored(format, n, k, static_cast<uint32_t>(n + k));
        const PackedWeight packed = Pack(exec, stored);
        EXPECT_EQ(packed.format(), format);
        EXPECT_EQ(packed.rows(), n);
        EXPECT_EQ(packed.cols(), k);
        for (const int64_t m : {1, 2, 8, 29}) {
          const TestMatrix x = TestMatrix::Random(m, k, 5, k + 3);
          ForEachTarget([&] {
            SCOPED_TRACE(std::string(Name(format)) + " " + std::to_string(k));
            TestMatrix out(m, n, n + 5);
            MatMul(exec, x, packed, out);
            ExpectProduct(x, stored.values(), out);
            TestMatrix sum(m, n);
            for (int64_t r = 0; r < m; ++r) std::fill_n(sum.Row(r), n, 2.0f);
            MatMul(exec, x, packed, sum, MatMulStore::kAdd);
            for (int64_t r = 0; r < m; ++r) {
              for (int64_t c = 0; c < n; ++c) ASSERT_EQ(sum.Row(r)[c], 2.0f + out.Row(r)[c]);
            }
          });
        }
      }
    }
  }
}

TEST(MatMul, AnEmptySumIsZero) {
  ThreadPool pool(1);
  Exec exec{pool};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    const WeightSource empty{{nullptr, dtype, 5, 0, "w"}, {}};
    const Result<PackedWeight> packed = PackWeight(exec, {&empty, 1});
    ASSERT_TRUE(packed.ok());
    const TestMatrix out(30, 5), x(30, 0, 1);
    MatMul(exec, x, *packed, out);
    for (int64_t r = 0; r < 30; ++r) {
      for (int64_t c = 0; c < 5; ++c) EXPECT_EQ(out.Row(r)[c], 0.0f);
    }
  }
}

// Each output is one chain of fused multiply-adds over k = 0, 1, 2, …, under scales one for each
// group, and one over the groups: no other order gives these bits.
TEST(MatMul, IsOneChainOverK) {
  ThreadPool pool(1);
  Exec exec{pool};
  for (const WeightFormat format : kFloatFormats) {
    const int64_t k_count = format == WeightFormat::kFp4 ? 702 : 701;
    const StoredWeight stored(format, 40, k_count, 3);
    const PackedWeight packed = Pack(exec, stored);
    const int64_t group = format == WeightFormat::kFp8   ? 128
                          : format == WeightFormat::kFp4 ? 32
                                                         : k_count;
    for (const int64_t rows : {3, 30}) {
      const TestMatrix x = TestMatrix::Random(rows, k_count, 4);
      ForEachTarget([&] {
        TestMatrix out(rows, 40);
        MatMul(exec, x, packed, out);
        for (int64_t m = 0; m < rows; ++m) {
          for (int64_t n = 0; n < 40; ++n) {
            const auto fma = [&](float a, float b, float c) {
              return IsScalar() ? a * b + c : std::fma(a, b, c);
            };
            float total = 0;
            for (int64_t begin = 0; begin < k_count; begin += group) {
              const auto first = static_cast<size_t>(n * k_count + begin);
              float sum = 0;
              for (int64_t k = begin; k < std::min(begin + group, k_count); ++k) {
                sum = fma(x.Row(m)[k], stored.elements[static_cast<size_t>(n * k_count + k)], sum);
              }
              total = group == k_count ? sum : fma(sum, stored.scales[first], total);
            }
            ASSERT_EQ(out.Row(m)[n], total) << Name(format) << " " << m << " " << n;
          }
        }
      });
    }
  }
}

// Every value of the narrow formats comes through as itself: one row of x picks them out.
TEST(MatMul, DecodesEveryValue) {
  ThreadPool pool(1);
  Exec exec{pool};
  std::vector<std::byte> f8(256 * 2), f4(16 * 16), f16(65536 * 2);
  for (size_t i = 0; i < 256; ++i) {
    const std::byte byte{static_cast<uint8_t>((i & 0x7F) == 0x7F ? 0 : i)};
    f8[2 * i] = byte;  // [256, 2]: as k = 0, and mirrored as k = 1
    f8[2 * (255 - i) + 1] = byte;
    f4[i] = std::byte{static_cast<uint8_t>(i)};  // [16, 32]: every value at every place in a word
  }
  for (size_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>((i & 0x7C00) == 0x7C00 ? 0 : i);
    std::memcpy(&f16[2 * i], &half, 2);
  }
  const std::vector<std::byte> ones(16, std::byte{127});
  const WeightSource sources[] = {
      {{f8.data(), DType::kF8E4M3, 256, 2, "f8"}, {}},
      {{f4.data(), DType::kU8, 16, 16, "f4"}, {ones.data(), DType::kF8E8M0, 16, 1, "f4_scale"}},
      {{f16.data(), DType::kF16, 32768, 2, "f16"}, {}}};
  for (const WeightSource& source : sources) {
    const Result<PackedWeight> packed = PackWeight(exec, {&source, 1});
    const Result<PackedWeight> wide = PackWeight(exec, {&source, 1}, WeightFormat::kF32);
    ASSERT_TRUE(packed.ok() && wide.ok());
    const auto* w = reinterpret_cast<const float*>(wide->data());
    const int64_t k_count = packed->cols(), n_count = packed->rows();
    for (const int64_t copies : {int64_t{1}, 40 / k_count + 1}) {
      TestMatrix x(k_count * copies, k_count);
      for (int64_t m = 0; m < x.rows(); ++m) {
        for (int64_t k = 0; k < k_count; ++k) x.Row(m)[k] = m % k_count == k ? 1.0f : 0.0f;
      }
      ForEachTarget([&] {
        TestMatrix out(x.rows(), n_count);
        MatMul(exec, x, *packed, out);
        for (int64_t m = 0; m < x.rows(); ++m) {
          for (int64_t n = 0; n < n_count; ++n) {
            ASSERT_EQ(out.Row(m)[n], w[(n / 32 * k_count + m % k_count) * 32 + n % 32])
                << source.weight.name << " " << m << " " << n;
          }
        }
      });
    }
  }
}

// The promise on which everything above rests: a row has the same bits in any batch, at any place
// in it, on any threads.
TEST(MatMul, RowsDoNotDependOnTheBatch) {
  const int64_t n = 333;
  for (const WeightFormat format : kFloatFormats) {
    const int64_t k = format == WeightFormat::kFp4 ? 330 : 331;
    const TestMatrix rows = TestMatrix::Random(512, k, 6, k + 6);
    const StoredWeight stored(format, n, k, 7);
    ForEachTarget([&] {
      ThreadPool single(1);
      Exec one{single};
      const PackedWeight packed = Pack(one, stored);
      TestMatrix alone(512, n);
      for (int64_t r = 0; r < 512; ++r) {
        MatMul(one, rows.view().RowRange(r, 1), packed, alone.view().RowRange(r, 1));
      }
      std::vector<int64_t> counts;
      // Plain loops have one path for all counts, and are slow.
      for (int64_t m = 1; m <= 64; m += IsScalar() ? 5 : 1) counts.push_back(m);
      counts.insert(counts.end(), {65, 127, 512});
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        Exec exec{pool};
        for (int64_t m : counts) {
          const int64_t first = (m * 37) % (512 - m + 1);  // so that a row takes many places
          TestMatrix out(m, n, n + 1);
          MatMul(exec, rows.view().RowRange(first, m), packed, out);
          ASSERT_TRUE(SameBits(ConstMatrix(out), alone.view().RowRange(first, m)))
              << Name(format) << ": " << m << " rows, " << threads << " threads";
        }
      }
    });
  }
}

TEST(MatMul, PartsStackAlongN) {
  ThreadPool pool(3);
  Exec exec{pool};
  for (const WeightFormat format : kFloatFormats) {
    const int64_t first = format == WeightFormat::kFp8 ? 160 : 45;
    const StoredWeight a(format, first, 70, 1), b(format, 32, 70, 2), c(format, 64, 70, 3);
    const WeightSource sources[] = {a.source, b.source, c.source};
    const Result<PackedWeight> all = PackWeight(exec, sources);
    ASSERT_TRUE(all.ok()) << all.status().message();
    const TestMatrix x = TestMatrix::Random(4, 70, 4);
    TestMatrix out(4, first + 96);
    MatMul(exec, x, *all, out);
    int64_t begin = 0;
    for (const StoredWeight* part : {&a, &b, &c}) {
      TestMatrix alone(4, part->values().rows);
      MatMul(exec, x, Pack(exec, *part), alone);
      ASSERT_TRUE(SameBits(alone.view(), ConstMatrix(out).ColRange(begin, part->values().rows)));
      begin += part->values().rows;
    }
  }
}

}  // namespace
}  // namespace firesteel
