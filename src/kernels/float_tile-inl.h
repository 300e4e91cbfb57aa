// The inner loops of the floating matmul: a tile of rows that passes over panels with its sums in
// registers. Include after highway.h.

#if defined(FIRESTEEL_KERNELS_FLOAT_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_FLOAT_TILE_INL_H
#undef FIRESTEEL_KERNELS_FLOAT_TILE_INL_H
#else
#define FIRESTEEL_KERNELS_FLOAT_TILE_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/float_weights-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

// How a tile of `rows` lies in registers: `vectors` side by side in each of `panels`. Its rows *
// vectors * panels sums must stay in registers, and at least eight should be in flight to hide the
// latency of the multiply-add. One row alone takes several panels, so that their latencies overlap.
struct Shape {
  int vectors;
  int panels;
};

// A block that was decoded beforehand: it lies in L1, and `ahead` is all there is to ask for.
struct DecodedWeight : F32Weight {};

template <class Weight>
constexpr bool kScaled = Weight::kGroup != kNoGroup;

// kMaxTileRows: of float32; at least three, so that a tile of one row is one row in all.
// kMaxDirectRows: of a format that is decoded in registers on the way, which needs some of them
// where it is scaled. More rows are computed from float32 that was decoded once for all, but for
// two tiles of a format without scales.

#if HWY_TARGET == HWY_AVX3
constexpr int kMaxTileRows = 12;  // 24 of 32 registers are sums
template <class Weight>
constexpr int kMaxDirectRows = 12;
template <class Weight>
constexpr Shape ShapeFor(int rows) {
  return {2, rows <= 2 ? 4 : rows <= 6 ? 2 : 1};
}
#elif HWY_TARGET == HWY_AVX2
constexpr int kMaxTileRows = 6;  // 12 of 16
template <class Weight>
constexpr int kMaxDirectRows = 6;
template <class Weight>
constexpr Shape ShapeFor(int rows) {
  return rows == 1 ? Shape{4, 2} : Shape{rows <= (kScaled<Weight> ? 2 : 3) ? 4 : 2, 1};
}
#elif HWY_TARGET == HWY_NEON
constexpr int kMaxTileRows = 6;  // 24 of 32
template <class Weight>
constexpr int kMaxDirectRows = kScaled<Weight> ? 4 : 6;
template <class Weight>
constexpr Shape ShapeFor(int rows) {
  return {rows <= (kScaled<Weight> ? 2 : 3) ? 8 : 4, 1};
}
#else
constexpr int kMaxTileRows = 4;
template <class Weight>
constexpr int kMaxDirectRows = 4;
template <class Weight>
constexpr Shape ShapeFor(int) {
  return {2, 1};
}
#endif

// The sums of a block of rows in the panels of a group. The chains of a tile pass through here
// between blocks of K: storing and loading a float32 does not change it. Under scales, what the
// groups of K before the present one add up to.
constexpr int64_t kBlockRows = 96;
constexpr int64_t kGroupPanels = 4;
struct Sums {
  HWY_ALIGN float values[kGroupPanels][kBlockRows][kPanel];
};

// Weights are asked for this many bytes before their turn: far ahead into L2, where a wait occupies
// none of the few buffers of L1, and from there into L1. The hardware looks ahead too, but hardly
// reaches past what the multiply-adds of eight rows keep the core busy with. From memory, AVX-512,
// 4096 x 2048 bf16, best of many: eight rows took 2.31 ms without, 1.52 with L1 alone asked for, at
// 4096 bytes, and 1.42 with both; one row 1.25, 1.15 and 1.10.
constexpr int64_t kPrefetchFar = 16384;
constexpr int64_t kPrefetchNear = 1024;
HWY_INLINE void PrefetchFar(const std::byte* p) { __builtin_prefetch(p, 0, 2); }

// Continues the chains of some rows in some panels over k_count further k, whole units.
struct Work {
  const float* x;          // of the first row, at k_begin
  int64_t x_group;         // from four rows to the next four
  const std::byte* panel;  // the first panel
  int64_t panel_bytes;
  int64_t k_begin, k_count;
  float* sums;  // of the first row in the first panel
  bool first;   // the chains begin here: sums hold nothing yet
  // DecodedWeight only: the scales of each `group` of k, kPanel at a time; null when there are
  // none.
  const float* scales;
  int64_t group;
  // What to prefetch meanwhile: `ahead`, and `ahead_step` bytes further after each unit; past
  // `ahead_end` the panels behind these.
  const std::byte* ahead;
  const std::byte* ahead_end;
  int64_t ahead_step;
};

// Rows of x as the tile reads them, so that it walks along a few streams: one row as it is, more
// in fours, [ceil(rows / 4), K, 4]. Rows that lie a power of two apart would share sets of L1.
template <int kRows>
struct Rows {
  static constexpr int kWidth = kRows == 1 ? 1 : 4;
  static constexpr int kGroups = (kRows + kWidth - 1) / kWidth;
  const float* groups[kGroups];

  HWY_INLINE Rows(const float* x, int64_t x_group) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) groups[g] = x + g * x_group;
  }
  HWY_INLINE Vec At(int r, int k) const {
    return hn::Set(D(), groups[r / kWidth][k * kWidth + r % kWidth]);
  }
  HWY_INLINE void Advance(int64_t k) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) groups[g] += k * kWidth;
  }
};

// The multiply-adds of elements j, j + 1, … of a unit.
template <class Weight, int j, int kRows, int kVectors, int kColumns>
HWY_INLINE void UnitFrom(const Rows<kRows>& x, const std::byte* HWY_RESTRICT w, int64_t panel_bytes,
                         Vec (&sum)[kRows][kColumns]) {
  if constexpr (j < Weight::kUnit) {
    const auto column = [&](int c) HWY_ATTR {
      return w + c / kVectors * panel_bytes + c % kVectors * kLanes * Weight::kFeatureBytes;
    };
    if constexpr (kRows <= 2) {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; c += 2) {
        Vec a, b;
        Weight::template Decode<j>(column(c), a, b);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const Vec xr = x.At(r, j);
          sum[r][c] = hn::MulAdd(a, xr, sum[r][c]);
          sum[r][c + 1] = hn::MulAdd(b, xr, sum[r][c + 1]);
        }
      }
    } else {
      Vec weight[kColumns];
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; c += 2) {
        Weight::template Decode<j>(column(c), weight[c], weight[c + 1]);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vec xr = x.At(r, j);
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(weight[c], xr, sum[r][c]);
      }
    }
    UnitFrom<Weight, j + 1, kRows, kVectors>(x, w, panel_bytes, sum);
  }
}

// kVectors vectors of features from `feature` on in kPanels panels.
template <class Weight, int kRows, int kVectors, int kPanels>
void Tile(const Work& work, int64_t feature) {
  constexpr int kColumns = kVectors * kPanels;
  const D d;
  const int64_t panel_bytes = work.panel_bytes;
  const auto column_sum = [&](int r, int c) HWY_ATTR {
    return work.sums + (c / kVectors * kBlockRows + r) * kPanel + feature + c % kVectors * kLanes;
  };
  constexpr bool kDecoded = std::is_same_v<Weight, DecodedWeight>;
  const bool scaled = kDecoded ? work.scales != nullptr : kScaled<Weight>;
  const int64_t group = kDecoded ? work.group : Weight::kGroup;
  const float* scales = work.scales;
  Rows<kRows> x(work.x, work.x_group);
  const std::byte* ahead = work.ahead;
  const std::byte* ahead_end = work.ahead_end;
  const int64_t k_end = work.k_begin + work.k_count;
  bool first = work.first;
  for (int64_t k = work.k_begin; k < k_end; first = false) {
    const int64_t group_begin = k, group_end = std::min(k_end, (k / group + 1) * group);
    const std::byte* HWY_RESTRICT w =
        work.panel + Weight::UnitOffset(k) + feature * Weight::kFeatureBytes;
    Vec sum[kRows][kColumns];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        sum[r][c] = first || scaled ? hn::Zero(d) : hn::Load(d, column_sum(r, c));
      }
    }
    for (; k < group_end; k += Weight::kUnit) {
      if constexpr (kDecoded) {
        PrefetchFar(ahead);
      } else {
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
          for (int64_t b = 0; b < Weight::kUnitBytes; b += 64) {
            PrefetchFar(ahead + p * panel_bytes + b);
            hwy::Prefetch(w + p * panel_bytes + b + kPrefetchNear);
          }
        }
      }
      UnitFrom<Weight, 0, kRows, kVectors>(x, w, panel_bytes, sum);
      x.Advance(Weight::kUnit);
      w += Weight::kUnitBytes;
      ahead += work.ahead_step;
      if (kPanels > 1 && ahead >= ahead_end) {
        ahead += (kPanels - 1) * panel_bytes;
        ahead_end += kPanels * panel_bytes;
      }
    }
    if (scaled) {
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        const int64_t f = feature + c % kVectors * kLanes;
        Vec scale;
        if constexpr (kDecoded) {
          scale = hn::Load(d, scales + f);
        } else if constexpr (kScaled<Weight>) {
          scale = Weight::Scale(work.panel + c / kVectors * panel_bytes, group_begin, f);
        } else {
          scale = hn::Zero(d);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const Vec before = first ? hn::Zero(d) : hn::Load(d, column_sum(r, c));
          hn::Store(hn::MulAdd(sum[r][c], scale, before), d, column_sum(r, c));
        }
      }
      if constexpr (kDecoded) scales += kPanel;
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) hn::Store(sum[r][c], d, column_sum(r, c));
      }
    }
  }
}

// All features of `panels` panels for kRows rows.
template <class Weight, int kRows>
void TileOverPanels(Work work, int64_t panels) {
  constexpr Shape kShape = ShapeFor<Weight>(kRows);
  constexpr int64_t kStep = kShape.vectors * kLanes;  // features of a panel in one pass
  const auto next = [&](int64_t count) {
    work.panel += count * work.panel_bytes;
    work.ahead += count * work.panel_bytes;
    work.ahead_end += count * work.panel_bytes;
    work.sums += count * kBlockRows * kPanel;
    panels -= count;
  };
  for (; panels >= kShape.panels; next(kShape.panels)) {
    for (int64_t f = 0; f < kPanel; f += kStep) {
      Tile<Weight, kRows, kShape.vectors, kShape.panels>(work, f);
    }
  }
  if constexpr (kShape.panels > 1) {
    for (; panels > 0; next(1)) {
      for (int64_t f = 0; f < kPanel; f += kStep) Tile<Weight, kRows, kShape.vectors, 1>(work, f);
    }
  }
}

static_assert(kMaxTileRows >= 3);

// REQUIRES: 1 <= rows <= kRows.
template <class Weight, int kRows>
void TileOfRows(int64_t rows, const Work& work, int64_t panels) {
  if (rows == kRows) {
    TileOverPanels<Weight, kRows>(work, panels);
  } else if constexpr (kRows > 1) {
    TileOfRows<Weight, kRows - 1>(rows, work, panels);
  } else {
    FS_DCHECK(false, "a tile of {} rows", rows);
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
