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
void DirectPanels(const ConstMatrix& x, const std::byte* panel, int64_t panel_bytes, int64_t panels,
                  Sums& sums) {
  // A last unit that x does not fill is decoded apart, together with what shares its chain.
  const int64_t tail = x.cols % Weight::kUnit == 0 ? 0
                       : kScaled<Weight>           ? x.cols % Weight::kGroup
                                                   : x.cols % Weight::kUnit;
  Work work = {.x = x.data,
               .x_stride = x.stride,
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
  work.x += work.k_count;
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
    TileOfRows<F32Weight, kMaxDirectRows<Weight>>(x.rows, work, 1);
  }
}

// Many rows: a block of K at a time is decoded, then all tiles pass over it while it lies in L1.
// The memory that the next block comes from is asked for meanwhile, evenly.
template <class Weight>
void DecodedPanels(const ConstMatrix& x, const std::byte* panel, int64_t panel_bytes,
                   int64_t panels, Sums& sums) {
  const int64_t tiles = (x.rows + kMaxTileRows - 1) / kMaxTileRows;
  const int64_t share = kBlockK / Weight::kUnit * Weight::kUnitBytes / tiles;
  Decoded decoded;
  for (int64_t k = 0; k < x.cols; k += kBlockK) {
    for (int64_t p = 0; p < panels; ++p) {
      const std::byte* block = panel + p * panel_bytes + Weight::UnitOffset(k);
      const std::byte* next = p + 1 < panels         ? block + panel_bytes
                              : k + kBlockK < x.cols ? panel + Weight::UnitOffset(k + kBlockK)
                                                     : panel + panels * panel_bytes;
      Work work = {.x = nullptr,
                   .x_stride = x.stride,
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
      const bool direct = !kScaled<Weight> && tiles == 2 && work.k_count % Weight::kUnit == 0;
      if (!direct && !std::is_same_v<Weight, F32Weight>) {
        Decode<Weight>(panel + p * panel_bytes, k, work.k_count, &decoded);
        work.panel = reinterpret_cast<const std::byte*>(decoded.values);
      }
      for (int64_t tile = 0; tile < tiles; ++tile, work.ahead += share) {
        const int64_t r = x.rows * tile / tiles;  // balanced: 13 rows are 6 + 7, not 12 + 1
        work.x = x.Row(r) + k;
        work.sums = sums.values[p][r];
        const int64_t tile_rows = x.rows * (tile + 1) / tiles - r;
        if (direct) {
          TileOfRows<Weight, kMaxDirectRows<Weight>>(tile_rows, work, 1);
        } else {
          TileOfRows<F32Weight, kMaxTileRows>(tile_rows, work, 1);
        }
      }
    }
  }
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
void PanelsOf(const ConstMatrix& x, const PackedWeight& weight, const Matrix<float>& out,
              MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  const int64_t blocks = (x.rows + kBlockRows - 1) / kBlockRows;
  Sums sums;
  for (int64_t panel = panel_begin; panel < panel_end; panel += kGroupPanels) {
    const int64_t panels = std::min(kGroupPanels, panel_end - panel);
    const std::byte* data = weight.data() + panel * weight.panel_bytes();
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = x.rows * block / blocks;
      const int64_t rows = x.rows * (block + 1) / blocks - row;
      const ConstMatrix x_block = x.RowRange(row, rows);
      if (x.cols == 0) {
        std::memset(&sums, 0, sizeof(sums));
      } else if (x.rows <= kMaxDirectRows<Weight>) {
        DirectPanels<Weight>(x_block, data, weight.panel_bytes(), panels, sums);
      } else {
        DecodedPanels<Weight>(x_block, data, weight.panel_bytes(), panels, sums);
      }
      StoreSums(sums, out.RowRange(row, rows), store, panel, panels);
    }
  }
}

void FloatPanels(const ConstMatrix& x, const PackedWeight& w, const Matrix<float>& out,
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

void FloatPanels(const ConstMatrix& x, const PackedWeight& w, const Matrix<float>& out,
                 MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  HWY_DYNAMIC_DISPATCH(FloatPanels)(x, w, out, store, panel_begin, panel_end);
}

}  // namespace firesteel
#endif  // HWY_ONCE
