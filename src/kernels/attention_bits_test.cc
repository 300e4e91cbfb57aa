// The bits of a row of attention depend on its query, its position, its window, and the keys and
// values that it sees: on nothing else. Contexts reach past two chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/attention_internal.h"
#include "kernels/attention_test_support.h"

namespace firesteel {
namespace {

constexpr int64_t kPositions = 2 * kAttentionChunk + 90;

// The whole sequence as one prefill of one thread: what all others are compared with.
TestMatrix Whole(const AttentionSetup& setup) {
  ThreadPool pool(1);
  Exec exec{pool};
  TestSequence s(setup);
  s.Append(exec, 0, setup.positions);
  TestMatrix out(setup.positions, s.q.cols());
  s.Attend(exec, 0, setup.positions, out);
  return out;
}

AttentionSetup Long(DType dtype, int64_t window = 0) {
  return {dtype, 4, 1, 24, 16, kPositions, window, {}};
}

// Prefill in chunks of any size, while every row that is not yet written is NaN.
TEST(AttentionBits, DoNotDependOnPrefillNorBlockSizeNorThreads) {
  for (DType dtype : kCacheTypes) {
    for (int64_t window : {0, 600}) {
      if (window > 0 && dtype != DType::kBF16) continue;
      ForEachTarget([&] {
        const TestMatrix expected = Whole(Long(dtype, window));
        for (float x : expected.view().RowSpan(kPositions - 1)) ASSERT_TRUE(std::isfinite(x));
        const struct {
          int32_t block_size;
          int64_t chunk;
          int threads;
        } kWays[] = {{16, 37, 1},   {32, 48, 2},   {64, 130, 8},
                     {128, 128, 3}, {512, 500, 2}, {16, 1, 2}};
        for (const auto& way : kWays) {
          ThreadPool pool(way.threads);
          Exec exec{pool};
          AttentionSetup setup = Long(dtype, window);
          setup.block_size = way.block_size;
          TestSequence s(setup);
          TestMatrix out(kPositions, s.q.cols());
          // One row at a time takes long: the last ones only.
          int64_t begin = 0;
          if (way.chunk == 1) {
            begin = kPositions - 40;
            s.Append(exec, 0, begin);
            s.Attend(exec, 0, begin, out);
          }
          for (; begin < kPositions; begin += way.chunk) {
            const int64_t count = std::min(way.chunk, kPositions - begin);
            s.Append(exec, begin, count);
            s.Attend(exec, begin, count, out);
          }
          ASSERT_TRUE(SameBits(ConstMatrix(out), ConstMatrix(expected)))
              << Name(dtype) << " window " << window << ", blocks of " << way.block_size
              << ", chunks of " << way.chunk << ", " << way.threads << " threads";
        }
      });
    }
  }
}

// Rows of a verification, whose number changes how many queries go together, and a tail behind.
TEST(AttentionBits, DoNotDependOnHowManyRowsGoTogether) {
  for (DType dtype : kCacheTypes) {
    ForEachTarget([&] {
      for (int32_t heads : {1, 2, 3, 4, 8}) {
        ThreadPool pool(1);
        Exec exec{pool};
        TestSequence s({dtype, heads, 1, 48, 16, 600});
        s.Append(exec, 0, 600);
        const TestMatrix tail_k = TestMatrix::Random(7, 48, 8),
                         tail_v = TestMatrix::Random(7, 48, 9);
        const int64_t context = 560;
        const auto rows_of = [&](int64_t begin, int64_t count) {
          AttentionRows rows = s.Rows(context, count);
          rows.row_begin = begin;
          rows.context = context + begin;
          rows.tail_keys = tail_k;
          rows.tail_values = tail_v;
          return rows;
        };
        TestMatrix together(20, s.q.cols()), alone(20, s.q.cols());
        const AttentionRows all = rows_of(0, 20);
        const auto attend = [&](const AttentionRows& rows, const TestMatrix& out) {
          PagedAttention(exec, s.q, std::span(&rows, 1), s.keys.view(), s.values.view(), 0.2f,
                         Matrix<float>(out.Row(0), 600, out.cols(), out.cols()));
        };
        attend(all, together);
        for (int64_t step : {1, 2, 3, 5}) {
          for (int64_t r = 0; r < 20; r += step) {
            attend(rows_of(r, std::min<int64_t>(step, 20 - r)), alone);
          }
          ASSERT_TRUE(SameBits(ConstMatrix(alone), ConstMatrix(together)))
              << heads << " heads, rows in groups of " << step;
        }
      }
    });
  }
}

// Few sequences on many threads are cut at chunks: the join must not show.
TEST(AttentionBits, DoNotDependOnThreads) {
  for (DType dtype : kCacheTypes) {
    ForEachTarget([&] {
      TestMatrix expected(10, 64);
      for (int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        Exec exec{pool};
        TestSequence s({dtype, 2, 1, 32, 64, 5 * kAttentionChunk + 3});
        s.Append(exec, 0, s.setup.positions);
        const AttentionRows rows[] = {s.Rows(s.setup.positions - 9, 9), s.Rows(700, 1)};
        TestMatrix out(s.setup.positions, 64);
        s.Attend(exec, rows, out);
        TestMatrix some(10, 64);
        for (int64_t r = 0; r < 10; ++r) {
          std::copy_n(out.Row(r < 9 ? s.setup.positions - 9 + r : 700), 64, some.Row(r));
        }
        if (threads == 1) {
          for (int64_t r = 0; r < 10; ++r) std::copy_n(some.Row(r), 64, expected.Row(r));
        }
        ASSERT_TRUE(SameBits(ConstMatrix(some), ConstMatrix(expected))) << threads << " threads";
      }
    });
  }
}

// The control of all tests here: the same positions in another order have the same attention, and
// other bits.
TEST(AttentionBits, DependOnTheOrderOfPositions) {
  ThreadPool pool(1);
  Exec exec{pool};
  ForEachTarget([&] {
    TestSequence s({DType::kF32, 2, 1, 32, 16, kPositions});
    const int64_t last = kPositions - 1;
    TestMatrix out(kPositions, 64), turned(kPositions, 64);
    s.Append(exec, 0, kPositions);
    s.Attend(exec, last, 1, out);
    for (int64_t c = 0; c < 32; ++c) {
      for (TestMatrix* m : {&s.k, &s.v}) std::swap(m->Row(3)[c], m->Row(last - 3)[c]);
    }
    s.Append(exec, 0, kPositions);
    s.Attend(exec, last, 1, turned);
    ExpectNear(turned.view().RowRange(last, 1), out.view().RowRange(last, 1), 1e-5f);
    EXPECT_FALSE(SameBits(turned.view().RowSpan(last), out.view().RowSpan(last)));
  });
}

TEST(AttentionBits, PlanCutsLongItemsOnlyAndCoversEveryChunkOnce) {
  TestSequence s({DType::kBF16, 8, 2, 32, 16, 4 * kAttentionChunk});
  for (int64_t count : {1, 9, 100}) {
    for (int threads : {1, 2, 3, 8, 64}) {
      AttentionRows rows[3] = {s.Rows(4 * kAttentionChunk - count, count), s.Rows(5, 1),
                               s.Rows(900, 2)};
      AttentionCall call;
      call.keys = s.keys.view();
      call.head_dim = 32;
      call.group = 4;
      AttentionPlan plan(call, rows, threads);
      std::vector<std::byte> items(static_cast<size_t>(plan.ItemBytes()));
      std::vector<float> partials(static_cast<size_t>(plan.PartialFloats()));
      plan.Build(items.data(), partials.data());
      AttentionPlan::Place at;
      bool cut = false;
      int64_t most = 0, all = 0, largest = 0;
      for (int piece = 0; piece < threads; ++piece) {
        const AttentionPlan::Place begin = plan.PieceBegin(piece), end = plan.PieceBegin(piece + 1);
        EXPECT_EQ(begin.item, at.item);
        EXPECT_EQ(begin.chunk, at.chunk);
        int64_t work = 0;
        for (; at.item < end.item || at.chunk < end.chunk;) {
          work += plan.item(at.item).Work(at.chunk);
          largest = std::max(largest, plan.item(at.item).Work(at.chunk));
          if (++at.chunk == plan.item(at.item).Chunks()) at = {at.item + 1, 0};
        }
        if (begin.chunk > 0) {
          cut = true;
          EXPECT_NE(plan.Partials(begin.item), nullptr);
        }
        most = std::max(most, work);
        all += work;
      }
      EXPECT_EQ(at.item, plan.num_items());
      if (threads == 1 || (threads > 2 && count == 1)) {
        EXPECT_EQ(cut, threads > 1);
      }
      // No piece exceeds its share by more than one chunk.
      EXPECT_LE(most, all / threads + largest + 1);
    }
  }
}

// The keys of a head are read once for the eight rows of a sequence and the four heads that share
// them: one item has all.
TEST(AttentionBits, EightRowsReadTheCacheOnce) {
  TestSequence s({DType::kBF16, 8, 2, 32, 16, 2 * kAttentionChunk});
  for (const int64_t head_dim : {32, 128, 256}) {
    const AttentionRows rows[1] = {s.Rows(1000, 8)};
    AttentionCall call;
    call.keys = s.keys.view();
    call.head_dim = head_dim;
    call.group = 4;
    const AttentionPlan plan(call, rows, 2);
    EXPECT_EQ(plan.num_items(), call.keys.format.heads) << head_dim;
  }
}

// Rows of several sequences in one call, in a pool they share, equal each sequence alone.
TEST(AttentionBits, DoNotDependOnNeighbours) {
  const RowFormat format{DType::kBF16, 2, 32};
  const int64_t contexts[] = {5, 1100, 0, 47}, counts[] = {1, 9, 20, 1};
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    Exec exec{pool};
    ForEachTarget([&] {
      const TestPlane keys(format, TileOrder::kByDimension, 32, 48);
      const TestPlane values(format, TileOrder::kByPosition, 32, 48);
      const TestMatrix q = TestMatrix::Random(31, 128, 1);
      std::vector<std::vector<BlockId>> tables = {{15}, {3, 9, 1, 0}, {7}, {8, 2}};
      for (BlockId b = 16; b < 48; ++b) tables[1].push_back(b);
      std::vector<AttentionRows> all;
      int64_t row = 0;
      for (size_t i = 0; i < 4; ++i) {
        const int64_t total = contexts[i] + counts[i];
        const auto seed = static_cast<uint32_t>(10 * i);
        const AppendRows append{0, total, 0, tables[i]};
        AppendPaged(exec, TestMatrix::Random(total, 64, seed), std::span(&append, 1), keys.view());
        AppendPaged(exec, TestMatrix::Random(total, 64, seed + 1), std::span(&append, 1),
                    values.view());
        all.push_back({row, counts[i], contexts[i], true, tables[i], {}, {}});
        row += counts[i];
      }
      TestMatrix together(31, 128), alone(31, 128);
      PagedAttention(exec, q, all, keys.view(), values.view(), 0.2f, together);
      for (const AttentionRows& rows : all) {
        PagedAttention(exec, q, std::span(&rows, 1), keys.view(), values.view(), 0.2f, alone);
      }
      ASSERT_TRUE(SameBits(ConstMatrix(together), ConstMatrix(alone)));
      for (int64_t r = 0; r < 31; ++r) ASSERT_TRUE(std::isfinite(together.Row(r)[0]));
    });
  }
}

// A later row of the same step may hold anything, even infinities, without any trace in the rows
// before it, though both share the reading of a tile.
TEST(AttentionBits, ALaterRowLeavesNoTrace) {
  ThreadPool pool(1);
  Exec exec{pool};
  for (DType dtype : kCacheTypes) {
    ForEachTarget([&] {
      TestMatrix before(60, 64);
      for (bool spoil : {false, true}) {
        TestSequence s({dtype, 4, 2, 16, 16, 60});
        if (spoil) {
          for (float& x : s.k.view().RowSpan(57)) x = std::numeric_limits<float>::infinity();
          for (float& x : s.v.view().RowSpan(57)) x = NAN;
        }
        s.Append(exec, 0, 60);
        TestMatrix out(60, 64);
        s.Attend(exec, 40, 20, spoil ? out : before);
        if (spoil) {
          EXPECT_TRUE(
              SameBits(out.view().RowRange(40, 17), ConstMatrix(before.view().RowRange(40, 17))));
          EXPECT_TRUE(std::isnan(out.Row(57)[0]));
        }
      }
    });
  }
}

}  // namespace
}  // namespace firesteel
