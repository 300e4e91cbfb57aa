#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "kernels/attention_test_support.h"

namespace firesteel {
namespace {

TEST(AppendPaged, StoresEachTypeAsDefinedInBothOrders) {
  for (DType dtype : kCacheTypes) {
    for (TileOrder order : {TileOrder::kByPosition, TileOrder::kByDimension}) {
      for (int threads : {1, 3}) {
        ThreadPool pool(threads);
        Exec exec{pool};
        const RowFormat format{dtype, 3, 24};
        const TestPlane plane(format, order, 16, 40);
        TestMatrix rows = TestMatrix::Random(200, 72, 4);
        std::fill_n(rows.Row(150) + 24, 24, 0.0f);  // a head of zeros has scale 1
        std::vector<BlockId> a, b;
        for (BlockId i = 0; i < 20; ++i) {
          a.push_back(i * 2);
          b.push_back(i * 2 + 1);
        }
        const AppendRows appends[] = {{0, 60, 5, a}, {60, 140, 30, b}};
        AppendPaged(exec, rows, appends, plane.view());
        const TestMatrix expected = Stored(rows, format);
        for (int64_t r = 0; r < 200; ++r) {
          for (int64_t c = 0; c < 72; ++c) {
            const auto& table = r < 60 ? a : b;
            const float x =
                CachedElement(plane.view(), table, r < 60 ? r + 5 : r - 30, c / 24, c % 24);
            ASSERT_EQ(x, expected.Row(r)[c]) << Name(dtype) << " " << r << " " << c;
          }
        }
      }
    }
  }
}

// Every conversion rounds as the definition says, on every target, for values over all of the
// range.
TEST(AppendPaged, RoundsAsDefinedOnEveryTarget) {
  ThreadPool pool(1);
  Exec exec{pool};
  const std::vector<BlockId> table = {0, 1, 2, 3};
  for (DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    for (int32_t head_dim : {5, 200}) {
      const RowFormat format{dtype, 1, head_dim};
      TestMatrix rows = TestMatrix::Random(64, head_dim, 5);
      for (int64_t r = 0; r < 64; ++r) {
        for (int64_t d = 0; d < head_dim; ++d) {
          rows.Row(r)[d] = std::ldexp(rows.Row(r)[d], static_cast<int>((r * 7 + d) % 40 - 30));
          // Multiples of what a tie lies between.
          if (d % 3 == 0) rows.Row(r)[d] = static_cast<float>(static_cast<int>(rows.Row(r)[d]));
        }
        if (r % 2 == 0) rows.Row(r)[0] = 448.0f;  // a scale of 1, so that ties are met exactly
      }
      ForEachTarget([&] {
        const TestPlane plane(format, TileOrder::kByPosition, 16, 4);
        const AppendRows append{0, 64, 0, table};
        AppendPaged(exec, rows, std::span(&append, 1), plane.view());
        for (int64_t r = 0; r < 64; ++r) {
          float largest = 0;
          for (float x : rows.view().RowSpan(r)) largest = std::max(largest, std::fabs(x));
          const float scale = largest == 0 ? 1.0f : largest / 448.0f;
          for (int64_t d = 0; d < head_dim; ++d) {
            const float x = rows.Row(r)[d];
            const float expected =
                dtype == DType::kBF16
                    ? BF16ToF32(reference::F32ToBF16(x))
                    : reference::F8E4M3ToF32(reference::F32ToF8E4M3(x / scale)) * scale;
            ASSERT_EQ(CachedElement(plane.view(), table, r, 0, d), expected) << x;
          }
        }
      });
    }
  }
}

TEST(AppendPaged, BF16KeepsNaNAndInfinity) {
  ThreadPool pool(1);
  Exec exec{pool};
  const std::vector<BlockId> table = {0};
  ForEachTarget([&] {
    const TestPlane plane({DType::kBF16, 1, 3}, TileOrder::kByDimension, 16, 1);
    TestMatrix rows(1, 3);
    rows.Row(0)[0] = std::bit_cast<float>(0x7F800001u);
    rows.Row(0)[1] = -std::numeric_limits<float>::infinity();
    rows.Row(0)[2] = std::numeric_limits<float>::max();
    const AppendRows append{0, 1, 0, table};
    AppendPaged(exec, rows, std::span(&append, 1), plane.view());
    EXPECT_TRUE(std::isnan(CachedElement(plane.view(), table, 0, 0, 0)));
    EXPECT_EQ(CachedElement(plane.view(), table, 0, 0, 1), rows.Row(0)[1]);
    EXPECT_TRUE(std::isinf(CachedElement(plane.view(), table, 0, 0, 2)));
  });
}

// Rows that are not appended keep every byte, their scales too.
TEST(AppendPaged, TouchesNoOtherPosition) {
  ThreadPool pool(1);
  Exec exec{pool};
  const std::vector<BlockId> table = {0};
  for (DType dtype : kCacheTypes) {
    for (TileOrder order : {TileOrder::kByPosition, TileOrder::kByDimension}) {
      const RowFormat format{dtype, 2, 12};
      const TestPlane plane(format, order, 16, 1);
      const TestMatrix rows = TestMatrix::Random(16, 24, 5), other = TestMatrix::Random(3, 24, 6);
      const AppendRows all{0, 16, 0, table}, some{0, 3, 7, table};
      AppendPaged(exec, rows, std::span(&all, 1), plane.view());
      AppendPaged(exec, other, std::span(&some, 1), plane.view());
      const TestMatrix before = Stored(rows, format), after = Stored(other, format);
      for (int64_t r = 0; r < 16; ++r) {
        const bool written = r >= 7 && r < 10;
        for (int64_t c = 0; c < 24; ++c) {
          const float expected = written ? after.Row(r - 7)[c] : before.Row(r)[c];
          ASSERT_EQ(CachedElement(plane.view(), table, r, c / 12, c % 12), expected);
        }
      }
    }
  }
}

// A value that is not finite must not come back as a finite one.
TEST(AppendPaged, Fp8KeepsAHeadThatIsNotFiniteSo) {
  ThreadPool pool(1);
  Exec exec{pool};
  const std::vector<BlockId> table = {0};
  const RowFormat format{DType::kF8E4M3, 2, 8};
  for (float bad : {std::numeric_limits<float>::infinity(), NAN}) {
    const TestPlane plane(format, TileOrder::kByPosition, 16, 1);
    TestMatrix rows = TestMatrix::Random(1, 16, 5);
    rows.Row(0)[3] = bad;
    const AppendRows append{0, 1, 0, table};
    AppendPaged(exec, rows, std::span(&append, 1), plane.view());
    for (int64_t d = 0; d < 8; ++d) {
      EXPECT_TRUE(std::isnan(CachedElement(plane.view(), table, 0, 0, d)));
      EXPECT_TRUE(std::isfinite(CachedElement(plane.view(), table, 0, 1, d)));
    }
  }
}

}  // namespace
}  // namespace firesteel
