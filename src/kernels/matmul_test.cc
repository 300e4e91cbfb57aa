#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/reference.h"
#include "kernels/test_support.h"

namespace firesteel {
namespace {

// A random weight as a checkpoint would hold it.
struct StoredWeight {
  StoredWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed, const char* name = "w")
      : bytes(static_cast<size_t>(rows * cols) * SizeOf(dtype)) {
    const TestMatrix values = TestMatrix::Random(rows, cols, seed);
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float x = values.view().data[i];
      if (dtype == DType::kF32) std::memcpy(&bytes[static_cast<size_t>(i) * 4], &x, 4);
      // Any 16 bits that are finite will do for f16.
      const uint16_t half =
          dtype == DType::kBF16 ? F32ToBF16(x) : static_cast<uint16_t>(F32ToBF16(x) & 0xBFFF);
      if (dtype != DType::kF32) std::memcpy(&bytes[static_cast<size_t>(i) * 2], &half, 2);
    }
    view = {bytes.data(), dtype, rows, cols, name};
  }
  std::vector<std::byte> bytes;
  WeightView view;
};

PackedWeight Pack(Exec& exec, const StoredWeight& weight) {
  Result<PackedWeight> packed = PackWeight(exec, std::span(&weight.view, 1));
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  return *std::move(packed);
}

constexpr DType kTypes[] = {DType::kBF16, DType::kF32};

TEST(MatMul, MatchesReferenceAtOddSizes) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
    for (int64_t n : {1, 31, 32, 33, 100, 300}) {
      for (int64_t k : {1, 2, 3, 17, 64, 257}) {
        const StoredWeight stored(dtype, n, k, static_cast<uint32_t>(n + k));
        const std::vector<float> wide = reference::Widen(stored.view);
        const PackedWeight packed = Pack(exec, stored);
        EXPECT_EQ(packed.rows(), n);
        EXPECT_EQ(packed.cols(), k);
        for (int64_t m : {1, 2, 3, 5, 8, 13, 29}) {
          const TestMatrix x = TestMatrix::Random(m, k, 5, k + 3);
          TestMatrix expected(m, n);
          reference::MatMul(x, ConstMatrix(wide.data(), n, k), expected);
          float tolerance = 1e-5f;  // |x||w| summed over k, times the rounding of a chain of k
          for (float w : wide)
            tolerance = std::max(tolerance, std::fabs(w) * 4e-7f * static_cast<float>(k));
          ForEachTarget([&] {
            TestMatrix out(m, n, n + 5);
            MatMul(exec, x, packed, out);
            ExpectNear(out, expected, tolerance);
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

// Each output is one chain of fused multiply-adds over k = 0, 1, 2, …: no other order gives these
// bits.
TEST(MatMul, IsOneChainOverK) {
  ThreadPool pool(1);
  Exec exec{pool};
  for (DType dtype : kTypes) {
    const StoredWeight stored(dtype, 40, 701, 3);
    const std::vector<float> w = reference::Widen(stored.view);
    const PackedWeight packed = Pack(exec, stored);
    const TestMatrix x = TestMatrix::Random(30, 701, 4);
    ForEachTarget([&] {
      const bool fused = std::string(SimdTargetName()) != "SCALAR";
      TestMatrix out(30, 40);
      MatMul(exec, x, packed, out);
      for (int64_t m = 0; m < 30; ++m) {
        for (int64_t n = 0; n < 40; ++n) {
          float sum = 0;
          for (int64_t k = 0; k < 701; ++k) {
            const float a = x.Row(m)[k], b = w[static_cast<size_t>(n * 701 + k)];
            sum = fused ? std::fma(a, b, sum) : sum + a * b;
          }
          ASSERT_EQ(out.Row(m)[n], sum) << m << " " << n;
        }
      }
    });
  }
}

// The promise on which everything above rests: a row has the same bits in any batch, at any place
// in it, on any threads.
TEST(MatMul, RowsDoNotDependOnTheBatch) {
  const int64_t n = 333, k = 530;
  const TestMatrix rows = TestMatrix::Random(512, k, 6, k + 6);
  for (DType dtype : kTypes) {
    const StoredWeight stored(dtype, n, k, 7);
    ForEachTarget([&] {
      ThreadPool single(1);
      Exec one{single};
      const PackedWeight packed = Pack(one, stored);
      TestMatrix alone(512, n);
      for (int64_t r = 0; r < 512; ++r) {
        MatMul(one, rows.view().RowRange(r, 1), packed, alone.view().RowRange(r, 1));
      }
      std::vector<int64_t> counts;
      for (int64_t m = 1; m <= 64; ++m) counts.push_back(m);
      counts.insert(counts.end(), {65, 127, 512});
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        Exec exec{pool};
        for (int64_t m : counts) {
          const int64_t first = (m * 37) % (512 - m + 1);  // so that a row takes many places
          TestMatrix out(m, n, n + 1);
          MatMul(exec, rows.view().RowRange(first, m), packed, out);
          ASSERT_TRUE(SameBits(ConstMatrix(out), alone.view().RowRange(first, m)))
              << m << " rows, " << threads << " threads";
        }
      }
    });
  }
}

TEST(MatMul, PartsStackAlongN) {
  ThreadPool pool(3);
  Exec exec{pool};
  for (DType dtype : kTypes) {
    const StoredWeight a(dtype, 45, 70, 1), b(dtype, 3, 70, 2), c(dtype, 64, 70, 3);
    const WeightView views[] = {a.view, b.view, c.view};
    const Result<PackedWeight> all = PackWeight(exec, views);
    ASSERT_TRUE(all.ok());
    const TestMatrix x = TestMatrix::Random(4, 70, 4);
    TestMatrix out(4, 112);
    MatMul(exec, x, *all, out);
    int64_t begin = 0;
    for (const StoredWeight* part : {&a, &b, &c}) {
      TestMatrix alone(4, part->view.rows);
      MatMul(exec, x, Pack(exec, *part), alone);
      ASSERT_TRUE(SameBits(alone.view(), ConstMatrix(out).ColRange(begin, part->view.rows)));
      begin += part->view.rows;
    }
  }
}

TEST(PackWeight, IsHardlyLargerThanTheCheckpoint) {
  ThreadPool pool(1);
  Exec exec{pool};
  const StoredWeight bf16(DType::kBF16, 320, 100, 1), f32(DType::kF32, 320, 99, 1);
  EXPECT_EQ(Pack(exec, bf16).bytes(), 320 * 100 * 2);
  EXPECT_LE(Pack(exec, f32).bytes(), 320 * 99 * 4 * 1.02);
}

TEST(PackWeight, SaysWhichTensorDoesNotFit) {
  ThreadPool pool(1);
  Exec exec{pool};
  const StoredWeight bf16(DType::kBF16, 4, 8, 1, "q"), f32(DType::kF32, 4, 8, 1, "k");
  const StoredWeight narrow(DType::kBF16, 4, 7, 1, "v");
  WeightView whole = bf16.view;
  whole.dtype = DType::kI8;
  Status status = PackWeight(exec, std::span(&whole, 1)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(), "weights: q is I8, expected BF16, F16 or F32");
  const WeightView mixed[] = {bf16.view, f32.view};
  EXPECT_EQ(PackWeight(exec, mixed).status().message(),
            "weights: k is F32, expected BF16 as q beside it");
  const WeightView widths[] = {bf16.view, narrow.view};
  EXPECT_EQ(PackWeight(exec, widths).status().code(), StatusCode::kDataCorrupt);
  EXPECT_FALSE(PackWeight(exec, {}).ok());
}

}  // namespace
}  // namespace firesteel
