#include "kernels/row_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/reference.h"
#include "kernels/test_support.h"

namespace firesteel {
namespace {

std::vector<int64_t> OddSizes() {
  std::vector<int64_t> sizes;
  for (int64_t n = 1; n <= 33; ++n) sizes.push_back(n);
  sizes.insert(sizes.end(), {63, 64, 65, 100, 127, 128, 1000, 2048});
  return sizes;
}

TEST(RmsNorm, MatchesReferenceInPlaceAndNot) {
  ThreadPool pool(2);
  Exec exec{pool};
  ForEachTarget([&] {
    for (int64_t n : OddSizes()) {
      const TestMatrix x = TestMatrix::Random(5, n, 1, n + 3), w = TestMatrix::Random(1, n, 2);
      TestMatrix expected(5, n), out(5, n, n + 1);
      const std::span<const float> weights = w.view().RowSpan(0);
      reference::RmsNorm(x, weights, 1e-6f, expected);
      RmsNorm(exec, x, weights, 1e-6f, out);
      ExpectNear(out, expected, 1e-5f);
      RmsNorm(exec, x, weights, 1e-6f, x);
      EXPECT_TRUE(SameBits(ConstMatrix(x), out));
    }
  });
}

TEST(RmsNorm, ARowDoesNotDependOnItsNeighbours) {
  ForEachTarget([&] {
    const TestMatrix x = TestMatrix::Random(100, 515, 3), w = TestMatrix::Random(1, 515, 4);
    TestMatrix alone(1, 515), all(100, 515);
    for (int threads : {1, 3}) {
      ThreadPool pool(threads);
      Exec exec{pool};
      RmsNorm(exec, x, w.view().RowSpan(0), 1e-5f, all);
      for (int64_t r = 0; r < 100; ++r) {
        RmsNorm(exec, x.view().RowRange(r, 1), w.view().RowSpan(0), 1e-5f, alone);
        ASSERT_TRUE(SameBits(alone.view().RowSpan(0), all.view().RowSpan(r)));
      }
    }
  });
}

TEST(HeadRmsNormInPlace, NormsEachHead) {
  ThreadPool pool(2);
  Exec exec{pool};
  ForEachTarget([&] {
    for (int64_t dim : {1, 7, 16, 64, 80}) {
      const TestMatrix x = TestMatrix::Random(3, 4 * dim, 5, 4 * dim + 5);
      const TestMatrix w = TestMatrix::Random(1, dim, 6);
      TestMatrix expected(3, 4 * dim);
      for (int64_t h = 0; h < 4; ++h) {
        reference::RmsNorm(x.view().ColRange(h * dim, dim), w.view().RowSpan(0), 1e-6f,
                           expected.view().ColRange(h * dim, dim));
      }
      HeadRmsNormInPlace(exec, x, w.view().RowSpan(0), 1e-6f);
      ExpectNear(x, expected, 1e-5f);
    }
  });
}

TEST(RopeInPlace, MatchesReference) {
  ThreadPool pool(2);
  Exec exec{pool};
  ForEachTarget([&] {
    for (int32_t dim : {2, 6, 16, 34, 64, 128}) {
      const RopeTable table(dim, 10000.0, 5000);
      const std::vector<int32_t> positions = {0, 1, 17, 4999, 3};
      const TestMatrix x = TestMatrix::Random(5, 3 * dim, 7, 3 * dim + 2);
      TestMatrix expected(5, 3 * dim);
      for (int64_t r = 0; r < 5; ++r) std::copy_n(x.Row(r), 3 * dim, expected.Row(r));
      reference::RopeInPlace(expected, positions, dim, 10000.0);
      RopeInPlace(exec, x, positions, table);
      ExpectNear(x, expected, 2e-6f);
    }
  });
}

// The fused pass gives the bits of the two that it replaces, whatever goes with a row.
// Llama 3.1's numbers: 8192 positions stretched eightfold. A pair turns 8192 f / 2 pi times within
// them; at most once: f / 8; four times or more: f; between: linear in the turns.
TEST(RopeTable, Llama3Scaling) {
  constexpr int32_t kDim = 128;
  const RopeScaling scaling{8, 1, 4, 8192};
  const RopeTable plain(kDim, 500000, 2), scaled(kDim, 500000, 2, scaling);
  int32_t kept = 0, slowed = 0;
  for (int32_t i = 0; i < kDim / 2; ++i) {
    const double f = std::pow(500000.0, -i / 64.0), turns = 8192 * f / (2 * M_PI);
    double expected = f;
    if (turns <= 1) {
      expected = f / 8;
      ++slowed;
    } else if (turns < 4) {
      expected = f / 8 + (f - f / 8) * (turns - 1) / 3;
    } else {
      ++kept;
      EXPECT_EQ(scaled.Sin(1)[i], plain.Sin(1)[i]);
    }
    EXPECT_NEAR(scaled.Sin(1)[i], std::sin(expected), 1e-7) << i;
    EXPECT_NEAR(scaled.Cos(1)[i], std::cos(expected), 1e-7) << i;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(slowed, 29);
}

TEST(NormRopeInPlace, EqualsNormThenRope) {
  ForEachTarget([&] {
    for (int32_t dim : {2, 6, 34, 64, 128}) {
      const RopeTable table(dim, 10000.0, 500);
      std::vector<int32_t> positions;
      for (int32_t r = 0; r < 40; ++r) positions.push_back(r * 7 % 500);
      for (int threads : {1, 3}) {
        ThreadPool pool(threads);
        Exec exec{pool};
        const TestMatrix qw = TestMatrix::Random(1, dim, 6), kw = TestMatrix::Random(1, dim, 7);
        const auto make = [&](int heads) { return TestMatrix::Random(40, heads * dim, 8); };
        const TestMatrix q = make(4), k = make(2), q_apart = make(4), k_apart = make(2);
        const HeadRows parts[] = {{q, qw.view().RowSpan(0)}, {k, kw.view().RowSpan(0)}};
        NormRopeInPlace(exec, parts, 1e-6f, positions, table);
        HeadRmsNormInPlace(exec, q_apart, qw.view().RowSpan(0), 1e-6f);
        HeadRmsNormInPlace(exec, k_apart, kw.view().RowSpan(0), 1e-6f);
        RopeInPlace(exec, q_apart, positions, table);
        RopeInPlace(exec, k_apart, positions, table);
        ASSERT_TRUE(SameBits(ConstMatrix(q), ConstMatrix(q_apart)));
        ASSERT_TRUE(SameBits(ConstMatrix(k), ConstMatrix(k_apart)));
        const TestMatrix alone = TestMatrix::Random(40, 4 * dim, 8);
        const HeadRows one{alone.view().RowRange(17, 1), qw.view().RowSpan(0)};
        NormRopeInPlace(exec, {&one, 1}, 1e-6f, std::span(positions).subspan(17, 1), table);
        ASSERT_TRUE(SameBits(alone.view().RowSpan(17), q.view().RowSpan(17)));
      }
    }
  });
}

TEST(SiluMul, MatchesReference) {
  ThreadPool pool(2);
  Exec exec{pool};
  ForEachTarget([&] {
    for (int64_t n : OddSizes()) {
      const TestMatrix x = TestMatrix::Random(3, 2 * n, 8, 2 * n + 1);
      for (float* p = x.Row(1); p < x.Row(1) + 2 * n; ++p)
        *p *= 60;  // into both tails of the exponential
      TestMatrix expected(3, n), out(3, n, n + 7);
      reference::SiluMul(x, expected);
      SiluMul(exec, x, out);
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          const float want = expected.Row(r)[c];
          ASSERT_NEAR(out.Row(r)[c], want, 1e-6f * std::fabs(want) + 1e-20f);
        }
      }
    }
  });
}

TEST(AddBiasedSilu, MatchesItsFormula) {
  ThreadPool pool(2);
  Exec exec{pool};
  ForEachTarget([&] {
    for (int64_t n : OddSizes()) {
      const TestMatrix y = TestMatrix::Random(3, n, 9), bias = TestMatrix::Random(1, n, 10);
      TestMatrix x = TestMatrix::Random(3, n, 11, n + 3);
      const TestMatrix before = TestMatrix::Random(3, n, 11, n + 3);
      AddBiasedSilu(exec, y, {bias.Row(0), static_cast<size_t>(n)}, x);
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          const double z = double{y.Row(r)[c]} + bias.Row(0)[c];
          ASSERT_NEAR(x.Row(r)[c], before.Row(r)[c] + z / (1 + std::exp(-z)), 1e-6);
        }
      }
    }
  });
}

TEST(SiluMul, LargeGatesDoNotOverflow) {
  ThreadPool pool(1);
  Exec exec{pool};
  ForEachTarget([&] {
    TestMatrix x(1, 8), out(1, 4);
    const float values[8] = {1e30f, -1e30f, 89.0f, -89.0f, 1, 1, 1, 1};
    std::copy_n(values, 8, x.Row(0));
    SiluMul(exec, x, out);
    EXPECT_EQ(out.Row(0)[0], 1e30f);
    EXPECT_EQ(out.Row(0)[1], 0.0f);
    EXPECT_EQ(out.Row(0)[2], 89.0f);
    EXPECT_LE(std::fabs(out.Row(0)[3]), 1e-36f);
  });
}

// An element must have the same bits in the body and in the tail of a row.
TEST(SiluMul, AnElementDoesNotDependOnItsPlace) {
  ThreadPool pool(1);
  Exec exec{pool};
  ForEachTarget([&] {
    const int64_t n = 64;
    const TestMatrix x = TestMatrix::Random(1, 2 * n, 9);
    TestMatrix all(1, n);
    SiluMul(exec, x, all);
    for (int64_t c = 0; c < n; ++c) {
      TestMatrix one(1, 2), out(1, 1);
      one.Row(0)[0] = x.Row(0)[c];
      one.Row(0)[1] = x.Row(0)[n + c];
      SiluMul(exec, one, out);
      ASSERT_TRUE(SameBits(out.view().RowSpan(0), all.view().ColRange(c, 1).RowSpan(0)));
    }
  });
}

TEST(EmbedTokens, CopiesAndWidensRows) {
  ThreadPool pool(2);
  Exec exec{pool};
  std::vector<uint16_t> table(10 * 5);
  for (size_t i = 0; i < table.size(); ++i) table[i] = F32ToBF16(static_cast<float>(i));
  const WeightView view{reinterpret_cast<const std::byte*>(table.data()), DType::kBF16, 10, 5, "e"};
  const std::vector<int32_t> tokens = {9, 0, 3, 3};
  TestMatrix out(4, 5, 8);
  EmbedTokens(exec, tokens, view, out);
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t c = 0; c < 5; ++c) {
      EXPECT_EQ(out.Row(t)[c], static_cast<float>(tokens[static_cast<size_t>(t)] * 5 + c));
    }
  }
}

}  // namespace
}  // namespace firesteel
