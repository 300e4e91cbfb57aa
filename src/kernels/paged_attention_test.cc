#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention_test_support.h"

namespace firesteel {
namespace {

// What attention over the cached values should give for query rows [first, first + count).
TestMatrix Expected(const TestSequence& s, int64_t first, int64_t count) {
  const TestMatrix k = Stored(s.k, s.Format()), v = Stored(s.v, s.Format());
  TestMatrix expected(count, s.q.cols());
  reference::AttentionInput input;
  input.q = s.q.view().RowRange(first, count);
  input.keys = k;
  input.values = v;
  input.context = first;
  input.head_dim = s.setup.head_dim;
  input.scale = s.Scale();
  input.window = s.setup.window;
  input.sinks = s.setup.sinks;
  reference::Attention(input, expected);
  return expected;
}

void ExpectMatchesReference(Exec& exec, const TestSequence& s, int64_t first, int64_t count) {
  const TestMatrix expected = Expected(s, first, count);
  ForEachTarget([&] {
    TestMatrix out(s.setup.positions, s.q.cols());
    s.Attend(exec, first, count, out);
    ExpectNear(out.view().RowRange(first, count), expected, 1e-5f);
  });
}

TEST(PagedAttention, MatchesReference) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (DType dtype : kCacheTypes) {
    for (int32_t head_dim : {1, 5, 24, 80, 128}) {
      for (int32_t group : {1, 3}) {
        TestSequence s({dtype, 2 * group, 2, head_dim, 16, 75});
        s.Append(exec, 0, 75);
        for (int64_t first : {0, 15, 17, 70}) {
          ExpectMatchesReference(exec, s, first, 75 - first);
        }
        for (int64_t count : {1, 2, 3}) ExpectMatchesReference(exec, s, 70, count);
      }
    }
  }
}

// Past two chunks, where their softmaxes are joined; and heads so large that a group is parted.
TEST(PagedAttention, MatchesReferenceOverManyChunks) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    Exec exec{pool};
    for (DType dtype : kCacheTypes) {
      for (int64_t positions : {512, 513, 1600}) {
        TestSequence s({dtype, 8, 2, 64, 16, positions});
        // Scores that grow and fall, so that the largest one changes from chunk to chunk.
        for (int64_t p = 0; p < positions; ++p) {
          const auto factor = static_cast<float>(1.0 + 2.0 * std::sin(0.01 * p));
          for (float& x : s.k.view().RowSpan(p)) x *= factor;
        }
        s.Append(exec, 0, positions);
        ExpectMatchesReference(exec, s, positions - 1, 1);
        ExpectMatchesReference(exec, s, positions - 9, 9);
      }
    }
    TestSequence large({DType::kBF16, 40, 1, 512, 32, 600});
    large.Append(exec, 0, 600);
    ExpectMatchesReference(exec, large, 597, 3);
  }
}

TEST(PagedAttention, SlidingWindows) {
  ThreadPool pool(3);
  Exec exec{pool};
  for (DType dtype : kCacheTypes) {
    for (int64_t window : {1, 2, 16, 17, 512, 513, 5000}) {
      TestSequence s({dtype, 3, 1, 24, 16, 1100, window});
      s.Append(exec, 0, 1100);
      ExpectMatchesReference(exec, s, 0, 40);
      ExpectMatchesReference(exec, s, 505, 40);
      ExpectMatchesReference(exec, s, 1060, 40);
      ExpectMatchesReference(exec, s, 1099, 1);
    }
  }
}

TEST(PagedAttention, Sinks) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (DType dtype : kCacheTypes) {
    // Far below all scores, among them, and far above.
    TestSequence s({dtype, 4, 2, 32, 16, 600, 0, {-200.0f, 0.3f, 1.5f, 30.0f}});
    s.Append(exec, 0, 600);
    ExpectMatchesReference(exec, s, 0, 20);
    ExpectMatchesReference(exec, s, 590, 10);
    // The head whose sink takes nearly all weight gives nearly nothing: a sink does count.
    TestMatrix out(600, s.q.cols());
    s.Attend(exec, 599, 1, out);
    for (int64_t d = 0; d < 32; ++d) EXPECT_LE(std::fabs(out.Row(599)[3 * 32 + d]), 1e-3f);
    s.setup.window = 64;
    ExpectMatchesReference(exec, s, 590, 10);
  }
}

TEST(PagedAttention, SeesTailsAndNothingElseWhenNotCausal) {
  ThreadPool pool(2);
  Exec exec{pool};
  const std::vector<float> sinks = {0.5f, -1.0f, 2.0f, 0.0f};
  for (DType dtype : kCacheTypes) {
    for (int64_t tail : {0, 1, 16, 17, 530}) {
      for (int64_t context : {0, 1, 33}) {
        if (tail + context == 0) continue;
        for (bool causal : {false, true}) {
          TestSequence s({dtype, 4, 2, 20, 16, 64});
          s.Append(exec, 0, context + (causal ? 6 : 0));
          const TestMatrix tail_k = TestMatrix::Random(tail, 40, 8, 43);
          const TestMatrix tail_v = TestMatrix::Random(tail, 40, 9, 41);
          const ConstMatrix q = s.q.view().RowRange(0, 6);
          const TestMatrix k = Stored(s.k, s.Format()), v = Stored(s.v, s.Format());
          for (int64_t window : {0, 9}) {
            TestMatrix expected(6, 80);
            reference::Attention(
                {q, k, v, tail_k, tail_v, context, causal, 20, 0.3f, window, sinks}, expected);
            const AttentionRows rows{0, 6, context, causal, s.table, tail_k, tail_v, window};
            ForEachTarget([&] {
              TestMatrix out(6, 80);
              PagedAttention(exec, q, std::span(&rows, 1), s.keys.view(), s.values.view(), 0.3f,
                             out, sinks);
              ExpectNear(out, expected, 1e-5f);
            });
          }
        }
      }
    }
  }
}

TEST(PagedAttention, NothingToSeeGivesZeros) {
  ThreadPool pool(2);
  Exec exec{pool};
  const TestSequence s({});
  for (int64_t window : {0, 1}) {
    for (int64_t context : {0, 40}) {
      // A window of 1 ends above the cache, for the row itself is not in it.
      if (window == 0 && context > 0) continue;
      const AttentionRows rows{0, 2, context, false, s.table, {}, {}, window};
      ForEachTarget([&] {
        TestMatrix out(2, s.q.cols());
        PagedAttention(exec, s.q.view().RowRange(0, 2), std::span(&rows, 1), s.keys.view(),
                       s.values.view(), 1.0f, out);
        for (int64_t r = 0; r < 2; ++r) {
          for (float x : out.view().RowSpan(r)) EXPECT_EQ(x, 0.0f);
        }
      });
    }
  }
  TestMatrix out(2, s.q.cols());
  PagedAttention(exec, s.q.view().RowRange(0, 2), {}, s.keys.view(), s.values.view(), 1.0f, out);
}

// A bf16 cache decodes to exactly what was stored: attention over it equals attention over a
// float32 cache of the same values, bit for bit.
TEST(PagedAttention, DecodingBF16IsExact) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (int32_t head_dim : {36, 64}) {
    for (int64_t count : {1, 70}) {
      ForEachTarget([&] {
        TestSequence stored({DType::kBF16, 4, 2, head_dim, 16, 70});
        TestSequence wide({DType::kF32, 4, 2, head_dim, 16, 70});
        stored.Append(exec, 0, 70);
        wide.k = Stored(stored.k, stored.Format());
        wide.v = Stored(stored.v, stored.Format());
        wide.Append(exec, 0, 70);
        TestMatrix a(70, stored.q.cols()), b(70, stored.q.cols());
        stored.Attend(exec, 70 - count, count, a);
        wide.Attend(exec, 70 - count, count, b);
        ASSERT_TRUE(SameBits(a.view().RowRange(70 - count, count),
                             ConstMatrix(b.view().RowRange(70 - count, count))));
      });
    }
  }
}

// Every code of e4m3, with both signs, in keys and in values, for few queries and for many. One
// position: its weight is 1, so the output is the value.
TEST(PagedAttention, DecodesEveryFp8Code) {
  ThreadPool pool(1);
  Exec exec{pool};
  for (int64_t rows : {1, 20}) {
    ForEachTarget([&] {
      TestSequence s({DType::kF8E4M3, 1, 1, 256, 16, 1});
      s.Append(exec, 0, 1);
      std::byte* tile = s.values.view().Tile(s.table, 0);
      const RowFormat& format = s.values.view().format;
      const float scale = 0.75f;
      std::memcpy(tile + format.ScaleOffset(0, 0), &scale, sizeof(scale));
      for (int64_t d = 0; d < 256; ++d) {
        const bool is_nan = (d & 0x7F) == 0x7F;  // never stored
        tile[format.ElementOffset(0, 0, d)] = static_cast<std::byte>(is_nan ? 0 : d);
      }
      AttentionRows all{0, rows, 1, false, s.table, {}, {}};
      const TestMatrix q = TestMatrix::Random(rows, 256, 3);
      TestMatrix out(rows, 256);
      PagedAttention(exec, q, std::span(&all, 1), s.keys.view(), s.values.view(), 1.0f, out);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t d = 0; d < 256; ++d) {
          const auto code = static_cast<uint8_t>((d & 0x7F) == 0x7F ? 0 : d);
          ASSERT_EQ(out.Row(r)[d], F8E4M3ToF32(code) * scale) << d;
        }
      }
    });
  }
}

}  // namespace
}  // namespace firesteel
