#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/matmul_internal.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_float.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

// Packed rows of x: [tiles, kTileSlots, K] floats, the rows of a tile in fours: [fours, K, 4].
constexpr int64_t kTileSlots = (kMaxTileRows + 3) / 4 * 4;
constexpr int64_t kBlockTiles = kBlockRows / kMaxTileRows;
int64_t NumTiles(int64_t rows) { return (rows + kMaxTileRows - 1) / kMaxTileRows; }
// Balanced: 13 rows are 6 + 7, not 12 + 1.
int64_t TileBegin(int64_t rows, int64_t tile) { return rows * tile / NumTiles(rows); }

int64_t FloatRowsBytes(int64_t rows, int64_t cols) {
  return rows == 1 ? 0 : NumTiles(rows) * kTileSlots * cols * int64_t{sizeof(float)};
}

// Four rows, k by k.
void InterleaveFour(const float* const (&rows)[4], int64_t count, float* HWY_RESTRICT out) {
  const D d;
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    hn::StoreInterleaved4(hn::LoadU(d, rows[0] + k), hn::LoadU(d, rows[1] + k),
                          hn::LoadU(d, rows[2] + k), hn::LoadU(d, rows[3] + k), d, out + 4 * k);
  }
  for (; k < count; ++k) {
    for (int r = 0; r < 4; ++r) out[4 * k + r] = rows[r][k];
  }
}

void PackTile(const ConstMatrix& x, int64_t tile, float* out) {
  const int64_t begin = TileBegin(x.rows, tile), end = TileBegin(x.rows, tile + 1);
  out += tile * kTileSlots * x.cols;
  for (int64_t r = begin; r < end; r += 4, out += 4 * x.cols) {
    // Slots without a row repeat the last; nobody reads them.
    const float* const rows[4] = {x.Row(r), x.Row(std::min(r + 1, end - 1)),
                                  x.Row(std::min(r + 2, end - 1)), x.Row(std::min(r + 3, end - 1))};
    InterleaveFour(rows, x.cols, out);
  }
}

// A block of K of a panel as float32, small enough to stay in L1 beside the rows of a tile.
constexpr int64_t kBlockK = 128;
constexpr int64_t kMinGroup = 32;
struct Decoded {
  HWY_ALIGN float values[kBlockK][kPanel];
  HWY_ALIGN float scales[kBlockK / kMinGroup][kPanel];
};

// Elements [k_begin, k_begin + k_count) of a panel's rows, at most kBlockK, and their scales;
// k_begin begins a group. Writes the last unit whole.
template <class Weight>
void Decode(const std::byte* panel, int64_t k_begin, int64_t k_count, Decoded* decoded) {
  const D d;
  const auto unit = [&]<int... j>(std::integer_sequence<int, j...>, const std::byte* w,
                                  float* HWY_RESTRICT out) HWY_ATTR {
    Vec a[sizeof...(j)], b[sizeof...(j)];
    (Weight::template Decode<j>(w, a[j], b[j]), ...);
    (hn::Store(a[j], d, out + j * kPanel), ...);
    (hn::Store(b[j], d, out + j * kPanel + kLanes), ...);
  };
  for (int64_t i = 0; i < k_count; i += Weight::kUnit) {
    const std::byte* w = panel + Weight::UnitOffset(k_begin + i);
    for (int64_t f = 0; f < kPanel; f += 2 * kLanes) {
      unit(std::make_integer_sequence<int, static_cast<int>(Weight::kUnit)>(),
           w + f * Weight::kFeatureBytes, decoded->values[i] + f);
    }
  }
  if constexpr (kScaled<Weight>) {
    static_assert(Weight::kGroup >= kMinGroup && kBlockK % Weight::kGroup == 0);
    for (int64_t i = 0; i < k_count; i += Weight::kGroup) {
      for (int64_t f = 0; f < kPanel; f += kLanes) {
        hn::Store(Weight::Scale(panel, k_begin + i, f), d, decoded->scales[i / Weight::kGroup] + f);
      }
    }
  }
}

// Few rows: one tile, which decodes in registers, over all of K.
template <class Weight>
void DirectPanels(const FloatRows& x, const std::byte* panel, int64_t panel_bytes, int64_t panels,
                  Sums& sums) {
  // A last unit that x does not fill is decoded apart, together with what shares its chain.
  const int64_t tail = x.cols % Weight::kUnit == 0 ? 0
                       : kScaled<Weight>           ? x.cols % Weight::kGroup
                                                   : x.cols % Weight::kUnit;
  const int64_t width = x.rows == 1 ? 1 : 4;
  Work work = {.x = x.data,
               .x_group = 4 * x.cols,
               .panel = panel,
               .panel_bytes = panel_bytes,
               .k_begin = 0,
               .k_count = x.cols - tail,
               .sums = sums.values[0][0],
               .first = true,
               .scales = nullptr,
               .group = kNoGroup,
               .ahead = panel + Weight::UnitOffset(0) + kPrefetchFar,
               .ahead_end = panel + panel_bytes,
               .ahead_step = Weight::kUnitBytes};
  if (work.k_count > 0) TileOfRows<Weight, kMaxDirectRows<Weight>>(x.rows, work, panels);
  if (tail == 0) return;
  Decoded decoded;
  work.x += work.k_count * width;
  work.first = work.k_count == 0;
  work.panel = work.ahead = reinterpret_cast<const std::byte*>(decoded.values);
  work.ahead_step = 0;
  if (kScaled<Weight>) {
    work.scales = decoded.scales[0];
    work.group = Weight::kGroup;
  }
  for (int64_t p = 0; p < panels; ++p) {
    Decode<Weight>(panel + p * panel_bytes, x.cols - tail, tail, &decoded);
    work.k_count = tail;
    work.sums = sums.values[p][0];
    TileOfRows<DecodedWeight, kMaxDirectRows<Weight>>(x.rows, work, 1);
  }
}

// Many rows, tiles [tile_begin, tile_end): a block of K at a time is decoded, then the tiles pass
// over it while it lies in L1. The memory that the next block comes from is asked for meanwhile,
// evenly.
template <class Weight>
void DecodedPanel(const FloatRows& x, int64_t tile_begin, int64_t tile_end, const std::byte* panel,
                  int64_t panel_bytes, Sums& sums) {
  const int64_t tiles = tile_end - tile_begin, row_begin = TileBegin(x.rows, tile_begin);
  const int64_t share = kBlockK / Weight::kUnit * Weight::kUnitBytes / tiles;
  Decoded decoded;
  for (int64_t k = 0; k < x.cols; k += kBlockK) {
    const std::byte* block = panel + Weight::UnitOffset(k);
    const std::byte* next =
        k + kBlockK < x.cols ? panel + Weight::UnitOffset(k + kBlockK) : panel + panel_bytes;
    Work work = {.x = nullptr,
                 .x_group = 4 * x.cols,
                 .panel = block,
                 .panel_bytes = 0,
                 .k_begin = 0,
                 .k_count = std::min(kBlockK, x.cols - k),
                 .sums = nullptr,
                 .first = k == 0,
                 .scales = kScaled<Weight> ? decoded.scales[0] : nullptr,
                 .group = Weight::kGroup,
                 .ahead = next,
                 .ahead_end = nullptr,
                 .ahead_step = share / kBlockK};
    // For two tiles storing costs more than decoding twice.
    static_assert(kScaled<Weight> || kMaxDirectRows<Weight> == kMaxTileRows);
    const bool direct = !kScaled<Weight> && tiles == 2 && work.k_count % Weight::kUnit == 0;
    if (direct) work.ahead_step *= Weight::kUnit;
    if (!direct && !std::is_same_v<Weight, F32Weight>) {
      Decode<Weight>(panel, k, work.k_count, &decoded);
      work.panel = reinterpret_cast<const std::byte*>(decoded.values);
    }
    for (int64_t tile = tile_begin; tile < tile_end; ++tile, work.ahead += share) {
      const int64_t r = TileBegin(x.rows, tile);
      work.x = x.data + tile * kTileSlots * x.cols + 4 * k;
      work.sums = sums.values[0][r - row_begin];
      const int64_t tile_rows = TileBegin(x.rows, tile + 1) - r;
      if (direct) {
        TileOfRows<Weight, kMaxDirectRows<Weight>>(tile_rows, work, 1);
      } else {
        TileOfRows<DecodedWeight, kMaxTileRows>(tile_rows, work, 1);
      }
    }
  }
}

void Zero(const Matrix<float>& out, MatMulStore store, int64_t panel, int64_t panels) {
  if (store == MatMulStore::kAdd) return;
  const int64_t begin = panel * kPanel, end = std::min((panel + panels) * kPanel, out.cols);
  for (int64_t r = 0; r < out.rows; ++r) std::fill(out.Row(r) + begin, out.Row(r) + end, 0.0f);
}

void StoreSums(const Sums& sums, const Matrix<float>& out, MatMulStore store, int64_t panel,
               int64_t panels) {
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t begin = (panel + p) * kPanel;
    const int64_t count = std::min<int64_t>(kPanel, out.cols - begin);
    for (int64_t r = 0; r < out.rows; ++r) {
      const float* HWY_RESTRICT from = sums.values[p][r];
      float* HWY_RESTRICT to = out.Row(r) + begin;
      if (store == MatMulStore::kSet) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      } else {
        for (int64_t i = 0; i < count; ++i) to[i] += from[i];
      }
    }
  }
}

template <class Weight>
void PanelsOf(const FloatRows& x, const PackedWeight& weight, const Matrix<float>& out,
              MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  const int64_t tiles = NumTiles(x.rows);
  Sums sums;
  for (int64_t panel = panel_begin; panel < panel_end; panel += kGroupPanels) {
    const int64_t panels = std::min(kGroupPanels, panel_end - panel);
    const std::byte* data = weight.data() + panel * weight.panel_bytes();
    if (x.cols == 0) {
      Zero(out, store, panel, panels);
    } else if (x.rows <= kMaxDirectRows<Weight>) {
      DirectPanels<Weight>(x, data, weight.panel_bytes(), panels, sums);
      StoreSums(sums, out, store, panel, panels);
    } else {
      for (int64_t tile = 0; tile < tiles; tile += kBlockTiles) {
        const int64_t tile_end = std::min(tile + kBlockTiles, tiles);
        const int64_t row = TileBegin(x.rows, tile);
        const Matrix<float> rows = out.RowRange(row, TileBegin(x.rows, tile_end) - row);
        for (int64_t p = 0; p < panels; ++p) {
          DecodedPanel<Weight>(x, tile, tile_end, data + p * weight.panel_bytes(),
                               weight.panel_bytes(), sums);
          StoreSums(sums, rows, store, panel + p, 1);
        }
      }
    }
  }
}

void FloatPanels(const FloatRows& x, const PackedWeight& w, const Matrix<float>& out,
                 MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  switch (w.format()) {
    case WeightFormat::kF32:
      return PanelsOf<F32Weight>(x, w, out, store, panel_begin, panel_end);
    case WeightFormat::kBF16:
      return PanelsOf<BF16Weight>(x, w, out, store, panel_begin, panel_end);
    case WeightFormat::kF16:
      return PanelsOf<F16Weight>(x, w, out, store, panel_begin, panel_end);
    case WeightFormat::kFp8:
      return PanelsOf<Fp8Weight>(x, w, out, store, panel_begin, panel_end);
    case WeightFormat::kFp4:
      return PanelsOf<Fp4Weight>(x, w, out, store, panel_begin, panel_end);
    default:
      FS_CHECK(false, "{} is not a floating format", Name(w.format()));
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(FloatPanels);
HWY_EXPORT(FloatRowsBytes);
HWY_EXPORT(NumTiles);
HWY_EXPORT(PackTile);

int64_t FloatRowsBytes(int64_t rows, int64_t cols) {
  return HWY_DYNAMIC_DISPATCH(FloatRowsBytes)(rows, cols);
}

FloatRows PackFloatRows(Exec& exec, ConstMatrix x, std::byte* scratch) {
  if (x.rows == 1) return {1, x.cols, x.data};
  auto* packed = reinterpret_cast<float*>(scratch);
  const int64_t tiles = HWY_DYNAMIC_DISPATCH(NumTiles)(x.rows);
  const int64_t grain =
      std::max<int64_t>(1, kGrainElements * tiles / std::max<int64_t>(x.rows * x.cols, 1));
  exec.pool.ParallelFor(tiles, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t tile = begin; tile < end; ++tile) HWY_DYNAMIC_DISPATCH(PackTile)(x, tile, packed);
  });
  return {x.rows, x.cols, packed};
}

void FloatPanels(const FloatRows& x, const PackedWeight& w, const Matrix<float>& out,
                 MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  HWY_DYNAMIC_DISPATCH(FloatPanels)(x, w, out, store, panel_begin, panel_end);
}

}  // namespace firesteel
#endif  // HWY_ONCE
