#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using Vec = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kPanel = static_cast<int>(PackedWeight::kPanel);

// How a tile of `rows` lies in registers: `vectors` side by side in each of `panels`. Its rows *
// vectors * panels sums must stay in registers, and at least eight should be in flight to hide the
// latency of the multiply-add. One row alone takes several panels, so that their latencies overlap.
struct Shape {
  int vectors;
  int panels;
};

#if HWY_TARGET == HWY_AVX3
constexpr int kMaxTileRows = 12;  // 24 of 32 registers are sums
constexpr Shape ShapeFor(int rows) { return {2, rows <= 2 ? 4 : rows <= 6 ? 2 : 1}; }
#elif HWY_TARGET == HWY_AVX2
constexpr int kMaxTileRows = 6;  // 12 of 16
constexpr Shape ShapeFor(int rows) { return rows == 1 ? Shape{4, 2} : Shape{rows <= 3 ? 4 : 2, 1}; }
#elif HWY_TARGET == HWY_NEON
constexpr int kMaxTileRows = 6;  // 24 of 32
constexpr Shape ShapeFor(int rows) { return {rows <= 3 ? 8 : 4, 1}; }
#else
constexpr int kMaxTileRows = 4;
constexpr Shape ShapeFor(int rows) { return {2, 1}; }
#endif

// bf16 keeps k and k + 1 of a feature in one 32-bit word, low and high half, so that decoding is
// one shift or one mask.
struct BF16Weight {
  using Word = uint32_t;
  static constexpr int64_t kWordsPerPair = kPanel;
  static Vec Even(const Word* w) {
    const hn::Repartition<uint32_t, D> du;
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::Load(du, w)));
  }
  static Vec Odd(const Word* w) {
    const hn::Repartition<uint32_t, D> du;
    return hn::BitCast(D(), hn::And(hn::Load(du, w), hn::Set(du, 0xFFFF0000u)));
  }
};

struct F32Weight {
  using Word = float;
  static constexpr int64_t kWordsPerPair = 2 * kPanel;
  static Vec Even(const Word* w) { return hn::Load(D(), w); }
  static Vec Odd(const Word* w) { return hn::Load(D(), w + kPanel); }
};

// The sums of a block of rows in the panels of a group. The chains of a tile pass through here
// between blocks of K: storing and loading a float32 does not change it.
constexpr int64_t kBlockRows = 96;
constexpr int64_t kGroupPanels = 4;
struct Sums {
  HWY_ALIGN float values[kGroupPanels][kBlockRows][kPanel];
};

// Weights are asked for this many bytes before their turn. The hardware looks ahead too, but hardly
// reaches past what the multiply-adds of eight rows keep the core busy with: from memory, one row
// took 1.39 ms without and 1.14 with, eight rows 2.38 and 1.42 (AVX-512, 4096 x 2048 bf16, best of
// many; 512 bytes gave 1.98, 2048 gave 1.73).
constexpr int64_t kPrefetchBytes = 4096;

// Continues the chains of kRows rows over `k_count` further k; k_count is even unless it ends the
// row.
template <class Weight, int kRows, int kVectors, int kPanels>
void Tile(const float* HWY_RESTRICT x, int64_t x_stride,
          const typename Weight::Word* HWY_RESTRICT w, int64_t panel_words, int64_t k_count,
          float* HWY_RESTRICT sums, bool first) {
  constexpr int kColumns = kVectors * kPanels;
  const D d;
  const auto column_words = [&](int c) HWY_ATTR {
    return c / kVectors * panel_words + c % kVectors * kLanes;
  };
  const auto column_sum = [&](int r, int c) HWY_ATTR {
    return sums + (c / kVectors * kBlockRows + r) * kPanel + c % kVectors * kLanes;
  };
  Vec sum[kRows][kColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      sum[r][c] = first ? hn::Zero(d) : hn::Load(d, column_sum(r, c));
    }
  }
  int64_t k = 0;
  for (; k + 2 <= k_count; k += 2, w += Weight::kWordsPerPair) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const auto* ahead = reinterpret_cast<const std::byte*>(w + p * panel_words) + kPrefetchBytes;
#pragma GCC unroll 4
      for (int64_t b = 0; b < Weight::kWordsPerPair * 4; b += 64) hwy::Prefetch(ahead + b);
    }
    if constexpr (kRows <= 2) {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        const Vec even = Weight::Even(w + column_words(c));
        const Vec odd = Weight::Odd(w + column_words(c));
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          sum[r][c] = hn::MulAdd(even, hn::Set(d, x[r * x_stride + k]), sum[r][c]);
          sum[r][c] = hn::MulAdd(odd, hn::Set(d, x[r * x_stride + k + 1]), sum[r][c]);
        }
      }
    } else {
      Vec even[kColumns], odd[kColumns];
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) even[c] = Weight::Even(w + column_words(c));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vec xr = hn::Set(d, x[r * x_stride + k]);
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(even[c], xr, sum[r][c]);
      }
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) odd[c] = Weight::Odd(w + column_words(c));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vec xr = hn::Set(d, x[r * x_stride + k + 1]);
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(odd[c], xr, sum[r][c]);
      }
    }
  }
  if (k < k_count) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const Vec even = Weight::Even(w + column_words(c));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        sum[r][c] = hn::MulAdd(even, hn::Set(d, x[r * x_stride + k]), sum[r][c]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) hn::Store(sum[r][c], d, column_sum(r, c));
  }
}

// All features of `panels` panels for kRows rows.
template <class Weight, int kRows>
void TileOverPanels(const float* x, int64_t x_stride, const typename Weight::Word* w,
                    int64_t panel_words, int64_t panels, int64_t k_count, float* sums, bool first) {
  constexpr Shape kShape = ShapeFor(kRows);
  constexpr int kStep = kShape.vectors * kLanes;  // features of a panel in one pass
  int64_t p = 0;
  for (; p + kShape.panels <= panels; p += kShape.panels) {
    for (int f = 0; f < kPanel; f += kStep) {
      Tile<Weight, kRows, kShape.vectors, kShape.panels>(x, x_stride, w + p * panel_words + f,
                                                         panel_words, k_count,
                                                         sums + p * kBlockRows * kPanel + f, first);
    }
  }
  for (; p < panels; ++p) {
    for (int f = 0; f < kPanel; f += kStep) {
      Tile<Weight, kRows, kShape.vectors, 1>(x, x_stride, w + p * panel_words + f, panel_words,
                                             k_count, sums + p * kBlockRows * kPanel + f, first);
    }
  }
}

template <class Weight, int kRows = kMaxTileRows>
void TileOfRows(int64_t rows, const float* x, int64_t x_stride, const typename Weight::Word* w,
                int64_t panel_words, int64_t panels, int64_t k_count, float* sums, bool first) {
  if (rows == kRows) {
    TileOverPanels<Weight, kRows>(x, x_stride, w, panel_words, panels, k_count, sums, first);
  } else if constexpr (kRows > 1) {
    TileOfRows<Weight, kRows - 1>(rows, x, x_stride, w, panel_words, panels, k_count, sums, first);
  }
}

void StoreSums(const Sums& sums, const Matrix<float>& out, MatMulStore store, int64_t row,
               int64_t rows, int64_t panel, int64_t panels) {
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t begin = (panel + p) * kPanel;
    const int64_t count = std::min<int64_t>(kPanel, out.cols - begin);
    for (int64_t r = 0; r < rows; ++r) {
      const float* HWY_RESTRICT from = sums.values[p][r];
      float* HWY_RESTRICT to = out.Row(row + r) + begin;
      if (store == MatMulStore::kSet) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      } else {
        for (int64_t i = 0; i < count; ++i) to[i] += from[i];
      }
    }
  }
}

template <class Weight>
void PanelsOf(const ConstMatrix& x, const PackedWeight& weight, const Matrix<float>& out,
              MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  // A block of K keeps its part of a panel in L1 while the tiles of a block of rows pass over it. A
  // single tile needs none.
  constexpr int64_t kBlockK = std::is_same_v<Weight, F32Weight> ? 128 : 256;
  const int64_t k_step = x.rows <= kMaxTileRows ? std::max<int64_t>(x.cols, 1) : kBlockK;
  const int64_t panel_words = (x.cols + 1) / 2 * Weight::kWordsPerPair;
  const auto* words = reinterpret_cast<const typename Weight::Word*>(weight.data());
  const int64_t blocks = (x.rows + kBlockRows - 1) / kBlockRows;
  Sums sums;
  for (int64_t panel = panel_begin; panel < panel_end; panel += kGroupPanels) {
    const int64_t panels = std::min(kGroupPanels, panel_end - panel);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = x.rows * block / blocks;
      const int64_t rows = x.rows * (block + 1) / blocks - row;
      const int64_t tiles = (rows + kMaxTileRows - 1) / kMaxTileRows;
      for (int64_t k = 0; k < x.cols; k += k_step) {
        const int64_t k_count = std::min(k_step, x.cols - k);
        const auto* w = words + panel * panel_words + k / 2 * Weight::kWordsPerPair;
        for (int64_t p = 0; p < panels; p += tiles == 1 ? panels : 1) {
          const int64_t together = tiles == 1 ? panels : 1;
          for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t r = rows * tile / tiles;  // balanced: 13 rows are 6 + 7, not 12 + 1
            TileOfRows<Weight>(rows * (tile + 1) / tiles - r, x.Row(row + r) + k, x.stride,
                               w + p * panel_words, panel_words, together, k_count,
                               sums.values[p][r], k == 0);
          }
        }
      }
      if (x.cols == 0) std::memset(&sums, 0, sizeof(sums));
      StoreSums(sums, out, store, row, rows, panel, panels);
    }
  }
}

void MatMulPanels(const ConstMatrix& x, const PackedWeight& weight, const Matrix<float>& out,
                  MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  if (weight.dtype() == DType::kBF16) {
    PanelsOf<BF16Weight>(x, weight, out, store, panel_begin, panel_end);
  } else {
    PanelsOf<F32Weight>(x, weight, out, store, panel_begin, panel_end);
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(MatMulPanels);

void MatMul(Exec& exec, ConstMatrix x, const PackedWeight& w, Matrix<float> out,
            MatMulStore store) {
  FS_DCHECK(x.cols == w.cols() && out.cols == w.rows() && out.rows == x.rows);
  if (x.rows == 0 || w.rows() == 0) return;
  const int64_t panels = (w.rows() + PackedWeight::kPanel - 1) / PackedWeight::kPanel;
  // A thread's share should take some 8 us, or waking it costs more than it brings: about 12 bytes
  // of weights or 40 multiply-adds in a nanosecond.
  const int64_t panel_ns =
      1 + std::max(w.bytes() / panels / 12, x.rows * x.cols * PackedWeight::kPanel / 40);
  const int64_t grain = (8000 / panel_ns + 4) / 4 * 4;
  exec.pool.ParallelFor(panels, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(MatMulPanels)(x, w, out, store, begin, end);
  });
}

}  // namespace firesteel
#endif  // HWY_ONCE
