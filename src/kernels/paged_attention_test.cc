#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference.h"
#include "kernels/test_support.h"

namespace firesteel {
namespace {

// One plane of a pool. Every byte is 0xFF at first, which is NaN in all three types and in the
// scales.
class TestPlane {
 public:
  TestPlane(RowFormat format, int32_t block_size, int64_t blocks)
      : bytes_(blocks * block_size * format.RowBytes()) {
    std::fill(bytes_.span().begin(), bytes_.span().end(), std::byte{0xFF});
    plane_ = {bytes_.data(), block_size * format.RowBytes(), block_size, format};
  }
  const PagedPlane& view() const { return plane_; }

 private:
  Buffer<std::byte> bytes_;
  PagedPlane plane_;
};

struct Setup {
  DType dtype = DType::kF32;
  int32_t heads = 4, kv_heads = 2, head_dim = 16;
  int32_t block_size = 16;
  int64_t positions = 100;  // written
};

// Keys, values and queries for every position of one sequence, the cache that holds them, and its
// blocks backwards.
class Sequence {
 public:
  explicit Sequence(const Setup& setup, uint32_t seed = 1)
      : setup(setup),
        q(TestMatrix::Random(setup.positions, int64_t{setup.heads} * setup.head_dim, seed,
                             int64_t{setup.heads} * setup.head_dim + 3)),
        k(TestMatrix::Random(setup.positions, int64_t{setup.kv_heads} * setup.head_dim, seed + 1)),
        v(TestMatrix::Random(setup.positions, int64_t{setup.kv_heads} * setup.head_dim, seed + 2)),
        keys(Format(), setup.block_size, Blocks()),
        values(Format(), setup.block_size, Blocks()) {
    for (int64_t b = Blocks(); b-- > 0;) table.push_back(static_cast<BlockId>(b));
  }

  RowFormat Format() const { return {setup.dtype, setup.kv_heads, setup.head_dim}; }
  int64_t Blocks() const { return (setup.positions + setup.block_size - 1) / setup.block_size; }

  void Append(Exec& exec, int64_t begin, int64_t count) {
    const AppendRows rows{begin, count, begin, table};
    AppendPaged(exec, k, std::span(&rows, 1), keys.view());
    AppendPaged(exec, v, std::span(&rows, 1), values.view());
  }

  // Attention of query rows [begin, begin + count) as one call.
  void Attend(Exec& exec, int64_t begin, int64_t count, Matrix<float> out) const {
    AttentionRows rows;
    rows.row_count = count;
    rows.context = begin;
    rows.table = table;
    PagedAttention(exec, q.view().RowRange(begin, count), std::span(&rows, 1), keys.view(),
                   values.view(), Scale(), out.RowRange(begin, count));
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(setup.head_dim)); }

  Setup setup;
  TestMatrix q, k, v;
  TestPlane keys, values;
  std::vector<BlockId> table;
};

// What the cache keeps of a row of keys or values.
TestMatrix Stored(const TestMatrix& rows, const RowFormat& format) {
  TestMatrix stored(rows.rows(), rows.cols());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (int64_t h = 0; h < format.heads; ++h) {
      const float* from = rows.Row(r) + h * format.head_dim;
      float* to = stored.Row(r) + h * format.head_dim;
      float largest = 0;
      for (int64_t i = 0; i < format.head_dim; ++i) largest = std::max(largest, std::fabs(from[i]));
      const float scale = largest == 0 ? 1.0f : largest / 448.0f;
      for (int64_t i = 0; i < format.head_dim; ++i) {
        switch (format.dtype) {
          case DType::kF32:
            to[i] = from[i];
            break;
          case DType::kBF16:
            to[i] = BF16ToF32(reference::F32ToBF16(from[i]));
            break;
          default:
            to[i] = reference::F8E4M3ToF32(reference::F32ToF8E4M3(from[i] / scale)) * scale;
        }
      }
    }
  }
  return stored;
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF8E4M3};

TEST(PagedAttention, MatchesReference) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (DType dtype : kTypes) {
    for (int32_t head_dim : {1, 5, 16, 24, 64, 80, 128}) {
      for (int32_t group : {1, 3, 8}) {
        Sequence s({dtype, 2 * group, 2, head_dim, 16, 75});
        s.Append(exec, 0, 75);
        const TestMatrix k = Stored(s.k, s.Format()), v = Stored(s.v, s.Format());
        for (int64_t first : {0, 1, 15, 16, 17, 70}) {
          TestMatrix expected(75 - first, s.q.cols());
          const ConstMatrix q = s.q.view().RowRange(first, 75 - first);
          reference::Attention({q, k, v, {}, {}, first, true, head_dim, s.Scale()}, expected);
          ForEachTarget([&] {
            TestMatrix out(75, s.q.cols());
            s.Attend(exec, first, 75 - first, out);
            ExpectNear(out.view().RowRange(first, 75 - first), expected, 1e-5f);
          });
        }
      }
    }
  }
}

TEST(PagedAttention, SeesTailsAndNothingElseWhenNotCausal) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (DType dtype : kTypes) {
    for (int64_t tail : {0, 1, 5, 16, 17, 40}) {
      for (int64_t context : {0, 1, 16, 33}) {
        if (tail + context == 0) continue;
        for (bool causal : {false, true}) {
          Sequence s({dtype, 4, 2, 20, 16, 64});
          s.Append(exec, 0, context + (causal ? 6 : 0));
          const TestMatrix tail_k = TestMatrix::Random(tail, 40, 8, 43);
          const TestMatrix tail_v = TestMatrix::Random(tail, 40, 9, 41);
          const ConstMatrix q = s.q.view().RowRange(0, 6);
          const TestMatrix k = Stored(s.k, s.Format()), v = Stored(s.v, s.Format());
          TestMatrix expected(6, 80);
          reference::Attention({q, k, v, tail_k, tail_v, context, causal, 20, 0.3f}, expected);
          const AttentionRows rows{0, 6, context, causal, s.table, tail_k, tail_v};
          ForEachTarget([&] {
            TestMatrix out(6, 80);
            PagedAttention(exec, q, std::span(&rows, 1), s.keys.view(), s.values.view(), 0.3f, out);
            ExpectNear(out, expected, 1e-5f);
          });
        }
      }
    }
  }
}

TEST(PagedAttention, NothingToSeeGivesZeros) {
  ThreadPool pool(1);
  Exec exec{pool};
  const Sequence s({});
  const AttentionRows rows{0, 2, 0, false, s.table, {}, {}};
  ForEachTarget([&] {
    TestMatrix out(2, s.q.cols());
    PagedAttention(exec, s.q.view().RowRange(0, 2), std::span(&rows, 1), s.keys.view(),
                   s.values.view(), 1.0f, out);
    for (int64_t r = 0; r < 2; ++r) {
      for (float x : out.view().RowSpan(r)) EXPECT_EQ(x, 0.0f);
    }
  });
}

// Prefill in chunks of any size, decode and verification give a row the same bits, whatever the
// block size and the threads, and while every row that is not yet written is NaN.
TEST(PagedAttention, RowsDoNotDependOnTheChunks) {
  const int64_t positions = 300;
  for (DType dtype : kTypes) {
    ForEachTarget([&] {
      ThreadPool single(1);
      Exec one{single};
      Sequence whole({dtype, 8, 2, 40, 16, positions});
      whole.Append(one, 0, positions);
      TestMatrix expected(positions, whole.q.cols());
      whole.Attend(one, 0, positions, expected);
      for (float x : expected.view().RowSpan(positions - 1)) ASSERT_TRUE(std::isfinite(x));

      for (int32_t block_size : {16, 64, 256}) {
        for (int64_t chunk : {1, 2, 7, 16, 33, 128}) {
          const int threads = static_cast<int>(1 + chunk % 3);
          ThreadPool pool(threads);
          Exec exec{pool};
          Sequence s({dtype, 8, 2, 40, block_size, positions});
          TestMatrix out(positions, s.q.cols());
          for (int64_t begin = 0; begin < positions; begin += chunk) {
            const int64_t count = std::min(chunk, positions - begin);
            s.Append(exec, begin, count);
            s.Attend(exec, begin, count, out);
          }
          ASSERT_TRUE(SameBits(ConstMatrix(out), ConstMatrix(expected)))
              << Name(dtype) << " blocks of " << block_size << ", chunks of " << chunk;
        }
      }
    });
  }
}

// Rows of several sequences in one call, in a pool they share, equal each sequence alone.
TEST(PagedAttention, SequencesDoNotDependOnTheirNeighbours) {
  const RowFormat format{DType::kBF16, 2, 32};
  const int64_t contexts[] = {5, 100, 0, 47}, counts[] = {1, 9, 20, 1};
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Exec exec{pool};
    ForEachTarget([&] {
      const TestPlane keys(format, 32, 16), values(format, 32, 16);
      const TestMatrix q = TestMatrix::Random(31, 128, 1);
      std::vector<std::vector<BlockId>> tables = {{15}, {3, 9, 1, 0}, {7}, {8, 2}};
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

TEST(AppendPaged, StoresEachTypeAsDefined) {
  for (DType dtype : kTypes) {
    for (int threads : {1, 3}) {
      ThreadPool pool(threads);
      Exec exec{pool};
      const RowFormat format{dtype, 3, 24};
      const TestPlane plane(format, 16, 40);
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
        const std::byte* row = r < 60 ? plane.view().Row(a, r + 5) : plane.view().Row(b, r - 30);
        for (int64_t c = 0; c < 72; ++c) {
          float x = 0;
          uint16_t half = 0;
          if (dtype == DType::kF32) std::memcpy(&x, row + c * 4, 4);
          if (dtype == DType::kBF16) {
            std::memcpy(&half, row + c * 2, 2);
            x = BF16ToF32(half);
          }
          if (dtype == DType::kF8E4M3) {
            std::memcpy(&x, row + 72 + c / 24 * 4, 4);
            x *= F8E4M3ToF32(static_cast<uint8_t>(row[c]));
          }
          ASSERT_EQ(x, expected.Row(r)[c]) << Name(dtype) << " " << r << " " << c;
        }
      }
    }
  }
}

// A cache row decodes to exactly what was stored: attention over a bf16 or FP8 cache equals
// attention over a float32 cache of the same values, bit for bit.
TEST(PagedAttention, DecodingIsExact) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    ForEachTarget([&] {
      Sequence stored({dtype, 4, 2, 36, 16, 70}), wide({DType::kF32, 4, 2, 36, 16, 70});
      stored.Append(exec, 0, 70);
      wide.k = Stored(stored.k, stored.Format());
      wide.v = Stored(stored.v, stored.Format());
      wide.Append(exec, 0, 70);
      TestMatrix a(70, stored.q.cols()), b(70, stored.q.cols());
      stored.Attend(exec, 0, 70, a);
      wide.Attend(exec, 0, 70, b);
      ASSERT_TRUE(SameBits(ConstMatrix(a), ConstMatrix(b)));
    });
  }
}

}  // namespace
}  // namespace firesteel
