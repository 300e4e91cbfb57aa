// The two loops that attention spends its time in, in registers: scores of queries against vectors
// of positions, and weighted sums of values. Include after highway.h, inside no namespace.
//
// A score adds its products in order of dimension, a sum of values in order of position, each in
// one accumulator; so how many queries and vectors go together never shows in the bits.

#if defined(FIRESTEEL_KERNELS_ATTENTION_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_ATTENTION_LOOPS_INL_H
#undef FIRESTEEL_KERNELS_ATTENTION_LOOPS_INL_H
#else
#define FIRESTEEL_KERNELS_ATTENTION_LOOPS_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/attention_internal.h"
#include "kernels/kv_tile-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 32 vector registers, or 16.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;
// Queries that are packed together. Few: keys and values are decoded in registers, four queries to
// each. Many: they were widened before.
constexpr int kFewPack = 4, kManyPack = kManyRegisters ? 8 : 4;
constexpr int kFewVectors = kManyRegisters ? 4 : 2, kManyVectors = kManyRegisters ? 3 : 2;
constexpr int kValueVectors = kManyRegisters ? 4 : 2;

// Where vectors of positions begin at dimension 0, what to prefetch on the way (`ahead_step`
// further for each dimension), and the scales of the positions (FP8).
template <int kV>
struct Columns {
  const std::byte* keys[kV];
  const std::byte* ahead[kV];
  int64_t ahead_step;
  const float* scales[kV];
};

// scores[q * kScoreStride + v * kLanes + lane] for kQ queries, packed [head_dim][kQ].
template <class Cells, int kQ, int kV>
HWY_INLINE void Scores(const float* HWY_RESTRICT queries, const Columns<kV>& columns,
                       int64_t head_dim, float* HWY_RESTRICT scores) {
  const D d;
  constexpr int64_t kStep = kTile * Cells::kBytes;
  Vec sum[kQ][kV];
#pragma GCC unroll 8
  for (int q = 0; q < kQ; ++q) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[q][v] = hn::Zero(d);
  }
  int64_t i = 0;
  // Where a vector holds a tile, two of them that lie side by side are two dimensions.
  constexpr int kTogether = kTileVectors == 1 && Cells::kPairs ? 2 : 1;
  for (; i + kTogether <= head_dim; i += kTogether) {
    Vec key[kTogether][kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      if (v % kTileVectors == 0) hwy::Prefetch(columns.ahead[v] + i * columns.ahead_step);
      if constexpr (kTogether == 2) {
        Cells::LoadPair(columns.keys[v] + i * kStep, key[0][v], key[1][v]);
      } else {
        key[0][v] = Cells::Load(columns.keys[v] + i * kStep);
      }
    }
#pragma GCC unroll 2
    for (int e = 0; e < kTogether; ++e) {
#pragma GCC unroll 8
      for (int q = 0; q < kQ; ++q) {
        const Vec x = hn::Set(d, queries[(i + e) * kQ + q]);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) sum[q][v] = hn::MulAdd(x, key[e][v], sum[q][v]);
      }
    }
  }
  for (; i < head_dim; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      const Vec key = Cells::Load(columns.keys[v] + i * kStep);
#pragma GCC unroll 8
      for (int q = 0; q < kQ; ++q) {
        sum[q][v] = hn::MulAdd(hn::Set(d, queries[i * kQ + q]), key, sum[q][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kV; ++v) {
    Vec scale = hn::Zero(d);
    if constexpr (Cells::kScaled) {
      scale = hn::Mul(hn::LoadU(d, columns.scales[v]), hn::Set(d, Cells::kUnit));
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQ; ++q) {
      Vec s = sum[q][v];
      if constexpr (Cells::kScaled) s = hn::Mul(s, scale);
      hn::Store(s, d, scores + q * kScoreStride + v * kLanes);
    }
  }
}

// All `count` queries, kPack of them at a time, the rest in fours, twos and ones. What is to be
// prefetched, `ahead_bytes` for each tile, is spread over all of them: in a burst it would wait.
template <class Cells, int kPack, int kV>
void ScoresOfAll(const float* queries, int64_t count, Columns<kV> columns, int64_t ahead_bytes,
                 int64_t head_dim, float* scores) {
  const int64_t share = ahead_bytes * kPack / HWY_MAX(count, int64_t{kPack});
  columns.ahead_step = (share + head_dim - 1) / head_dim;
  int64_t q = 0;
  for (; q + kPack <= count; q += kPack) {
    Scores<Cells, kPack, kV>(queries + q * head_dim, columns, head_dim, scores + q * kScoreStride);
    for (int v = 0; v < kV; ++v) columns.ahead[v] += share;
  }
  if constexpr (kPack > 4) {
    if (q + 4 <= count) {
      Scores<Cells, 4, kV>(queries + q * head_dim, columns, head_dim, scores + q * kScoreStride);
      q += 4;
    }
  }
  if (q + 2 <= count) {
    Scores<Cells, 2, kV>(queries + q * head_dim, columns, head_dim, scores + q * kScoreStride);
    q += 2;
  }
  if (q < count) {
    Scores<Cells, 1, kV>(queries + q * head_dim, columns, head_dim, scores + q * kScoreStride);
  }
}

// The order that ScoresOfAll reads queries in: to[d * width + q] for each group of `width`.
inline int64_t PackWidth(int64_t left, int64_t pack) {
  if (left >= pack) return pack;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

// Tiles of values in order of position: where the rows of each begin, and what to prefetch.
struct ValueTile {
  const std::byte* rows;
  const std::byte* ahead;
};

struct ValueSpan {
  const ValueTile* tiles;
  int64_t count;
  int64_t begin;  // rows [begin, end) of each; less than all of a tile only when it is alone
  int64_t end;
  int64_t row_bytes;
  int64_t ahead_step;  // for each row
};

// sums[q * stride + v * kLanes + lane] += weights[q * kScoreStride + p] * value p, rows in order.
// Vectors begin `offset` bytes into a row. kLines: what to prefetch for each row.
template <class Cells, int kLines, int kQ, int kV>
HWY_INLINE void AddValues(const float* HWY_RESTRICT weights, const ValueSpan& values,
                          int64_t offset, int64_t ahead_offset, int64_t stride,
                          float* HWY_RESTRICT sums) {
  const D d;
  constexpr int64_t kVectorBytes = kLanes * Cells::kBytes;
  Vec sum[kQ][kV];
#pragma GCC unroll 4
  for (int q = 0; q < kQ; ++q) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[q][v] = hn::Load(d, sums + q * stride + v * kLanes);
  }
  for (int64_t t = 0; t < values.count; ++t) {
    const std::byte* row = values.tiles[t].rows + offset + values.begin * values.row_bytes;
    const std::byte* ahead = values.tiles[t].ahead + ahead_offset;
    const float* HWY_RESTRICT w = weights + t * kTile;
    for (int64_t p = values.begin; p < values.end; ++p) {
#pragma GCC unroll 4
      for (int line = 0; line < kLines; ++line) hwy::Prefetch(ahead + line * kLine);
      Vec value[kV];
      if constexpr (kV % 2 == 0) {
#pragma GCC unroll 2
        for (int v = 0; v < kV; v += 2) {
          Cells::LoadPair(row + v * kVectorBytes, value[v], value[v + 1]);
        }
      } else {
        value[0] = Cells::Load(row);
      }
#pragma GCC unroll 4
      for (int q = 0; q < kQ; ++q) {
        const Vec weight = hn::Set(d, w[q * kScoreStride + p]);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) sum[q][v] = hn::MulAdd(weight, value[v], sum[q][v]);
      }
      row += values.row_bytes;
      ahead += values.ahead_step;
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQ; ++q) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) hn::Store(sum[q][v], d, sums + q * stride + v * kLanes);
  }
}

// All of a row, `width` elements, a multiple of kLanes, for `count` queries. kWidened: the rows
// were widened from tiles of `tile_bytes`, and what comes next is prefetched spread over all of the
// work; otherwise it lies as these tiles do.
template <class Cells, bool kWidened>
void AddTiles(const float* weights, int64_t count, ValueSpan values, int64_t width,
              int64_t tile_bytes, int64_t stride, float* sums) {
  constexpr int64_t kVectorBytes = kLanes * Cells::kBytes;
  constexpr int kLines =
      kWidened ? 1 : static_cast<int>((kValueVectors * kVectorBytes + kLine - 1) / kLine);
  int64_t share = 0, ahead_offset = 0;
  values.ahead_step = values.row_bytes;
  if constexpr (kWidened) {
    const int64_t blocks = (count + 3) / 4 * HWY_MAX(width / (kValueVectors * kLanes), int64_t{1});
    values.ahead_step = (tile_bytes / kTile + blocks - 1) / blocks;
    share = values.ahead_step * kTile;
  }
  for (int64_t i = 0; i < width;) {
    const int64_t offset = i * Cells::kBytes;
    if constexpr (!kWidened) ahead_offset = offset;
    const bool wide = i + kValueVectors * kLanes <= width;
    for (int64_t q = 0; q < count;) {
      const float* w = weights + q * kScoreStride;
      float* to = sums + q * stride + i;
      const int64_t left = count - q;
      if (wide && left >= 4) {
        AddValues<Cells, kLines, 4, kValueVectors>(w, values, offset, ahead_offset, stride, to);
      } else if (wide && left >= 2) {
        AddValues<Cells, kLines, 2, kValueVectors>(w, values, offset, ahead_offset, stride, to);
      } else if (wide) {
        AddValues<Cells, kLines, 1, kValueVectors>(w, values, offset, ahead_offset, stride, to);
      } else if (left >= 4) {
        AddValues<Cells, 1, 4, 1>(w, values, offset, ahead_offset, stride, to);
      } else if (left >= 2) {
        AddValues<Cells, 1, 2, 1>(w, values, offset, ahead_offset, stride, to);
      } else {
        AddValues<Cells, 1, 1, 1>(w, values, offset, ahead_offset, stride, to);
      }
      q += left >= 4 ? 4 : left >= 2 ? 2 : 1;
      ahead_offset += share;
    }
    i += wide ? kValueVectors * kLanes : kLanes;
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
