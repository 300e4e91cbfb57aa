// The integer matmul over one instruction set. Included by integer_<isa>.cc, inside the region that
// is compiled for it.
//
// A chunk of weights, 32 k of the panel's 32 features, is decoded once and stays in registers (or
// L1, where those are few) while all rows of a block pass over it; the rows' sums live in L1. So
// decoding costs nothing from a few rows on, and one loop serves any number of rows.
//
// `Isa` has Int and Float vectors of kLanes 32-bit lanes, kParts words of activations for each word
// of weights, kTileRows rows whose sums stay in registers, and the operations used below.
namespace firesteel {
namespace {

constexpr int64_t kPanelWidth = 32;
constexpr int kSteps = 8;  // of 4 k: a chunk
// Sums and activations of a block must stay in L1 beside the weights, its activations over all of K
// in L2 while a group of panels passes by.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kGroupPanels = 4;
// Bytes ahead into L2 and from there into L1, as in the float path. Against L1 alone, from 4096
// bytes: 6 to 12 % less time for one to eight rows.
constexpr int64_t kPrefetchFar = 16384;
constexpr int64_t kPrefetchNear = 1024;

struct Sums {
  alignas(64) int32_t dots[kBlockRows][kPanelWidth];  // of int8, within a group of 128 k
  alignas(64) float values[kBlockRows][kPanelWidth];
};
// With so few rows the panels of a group are read side by side, a chunk of each in turn: the sums
// of one do not wait for those of the other.
constexpr int64_t kFewRows = 8;
static_assert(kFewRows * kGroupPanels <= kBlockRows);
// Those of one panel.
struct PanelSums {
  int32_t (*dots)[kPanelWidth];
  float (*values)[kPanelWidth];
};

template <class Isa>
class IntegerKernel {
 public:
  static void Run(const IntegerTask& t) {
    const int64_t blocks = (t.rows + kBlockRows - 1) / kBlockRows;
    Sums sums;
    for (int64_t group = t.panel_begin; group < t.panel_end; group += kGroupPanels) {
      const int64_t end = group + kGroupPanels < t.panel_end ? group + kGroupPanels : t.panel_end;
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t row = t.rows * block / blocks;
        const int64_t rows = t.rows * (block + 1) / blocks - row;
        const int64_t together = rows <= kFewRows ? end - group : 1;
        for (int64_t panel = group; panel < end; panel += together) {
          switch (t.layout) {
            case IntegerLayout::kInt8:
              Panels<IntegerLayout::kInt8>(t, panel, together, row, rows, sums);
              break;
            case IntegerLayout::kInt8Group:
              Panels<IntegerLayout::kInt8Group>(t, panel, together, row, rows, sums);
              break;
            case IntegerLayout::kInt4:
              Panels<IntegerLayout::kInt4>(t, panel, together, row, rows, sums);
              break;
          }
        }
      }
    }
  }

 private:
  using Int = typename Isa::Int;
  using Float = typename Isa::Float;
  static constexpr int kLanes = Isa::kLanes;
  static constexpr int kVectors = kPanelWidth / kLanes;
  static constexpr int kParts = Isa::kParts;
  static constexpr int kXWords = kSteps * kParts;  // of a row's chunk

  // A decoded chunk and what scales it.
  struct Chunk {
    Int words[kSteps][kVectors][kParts];
    Int zeros[kVectors];
    Float scales[kVectors];
  };

  // Where a row's chunk begins: activations, the group's scale and zero.
  struct Rows {
    const uint32_t* x;
    int64_t x_stride;
    const float* scales;
    const int32_t* zeros;
    int64_t groups;
  };
  static Rows RowsAt(const IntegerTask& t, int64_t row, int64_t chunk, int64_t group) {
    return {t.x + row * t.x_stride + chunk * kXWords, t.x_stride, t.scales + row * t.groups + group,
            t.zeros + row * t.groups + group, t.groups};
  }

  template <int kCount>
  FS_ISA_INLINE static void Dots(const Chunk& chunk, const uint32_t* x, int64_t x_stride,
                                 Int (&dots)[kCount][kVectors]) {
#pragma GCC unroll 16
    for (int s = 0; s < kSteps; ++s) {
#pragma GCC unroll 16
      for (int p = 0; p < kParts; ++p) {
#pragma GCC unroll 16
        for (int r = 0; r < kCount; ++r) {
          const Int word = Isa::Broadcast(x + r * x_stride + s * kParts + p);
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) {
            dots[r][v] = Isa::Dot(dots[r][v], chunk.words[s][v][p], word);
          }
        }
      }
    }
  }

  // kCount rows over one chunk of int8. The dots of a group of 128 k add up in integers: `first`
  // begins it, `last` ends it.
  template <int kCount, bool kGroupScales>
  FS_ISA_INLINE static void TileInt8(const Chunk& chunk, const Rows& rows, int64_t r0, bool first,
                                     bool last, const PanelSums& sums) {
    Int dots[kCount][kVectors];
    if (first) {
#pragma GCC unroll 16
      for (int r = 0; r < kCount; ++r) {
        const Int zero =
            Isa::Broadcast(reinterpret_cast<const uint32_t*>(rows.zeros + (r0 + r) * rows.groups));
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) dots[r][v] = zero;
      }
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) dots[r][v] = Isa::Load(sums.dots[r0 + r] + v * kLanes);
      }
    }
    Dots<kCount>(chunk, rows.x + r0 * rows.x_stride, rows.x_stride, dots);
    if (!last) {
#pragma GCC unroll 16
      for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) Isa::Store(sums.dots[r0 + r] + v * kLanes, dots[r][v]);
      }
      return;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r) {
      const Float scale = Isa::BroadcastFloat(rows.scales + (r0 + r) * rows.groups);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        float* sum = sums.values[r0 + r] + v * kLanes;
        const Float factor = kGroupScales ? Isa::Mul(chunk.scales[v], scale) : scale;
        Isa::StoreFloat(sum, Isa::Fma(Isa::ToFloat(dots[r][v]), factor, Isa::LoadFloat(sum)));
      }
    }
  }

  template <int kCount>
  FS_ISA_INLINE static void TileInt4(const Chunk& chunk, const Rows& rows, int64_t r0,
                                     const PanelSums& sums) {
    Int dots[kCount][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r) {
      const Int zero =
          Isa::Broadcast(reinterpret_cast<const uint32_t*>(rows.zeros + (r0 + r) * rows.groups));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) dots[r][v] = Isa::PairDot(chunk.zeros[v], zero);
    }
    Dots<kCount>(chunk, rows.x + r0 * rows.x_stride, rows.x_stride, dots);
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r) {
      const Float scale = Isa::BroadcastFloat(rows.scales + (r0 + r) * rows.groups);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        float* sum = sums.values[r0 + r] + v * kLanes;
        const Float factor = Isa::Mul(chunk.scales[v], scale);
        Isa::StoreFloat(sum, Isa::Fma(Isa::ToFloat(dots[r][v]), factor, Isa::LoadFloat(sum)));
      }
    }
  }

  // All rows over a chunk, kTileRows at a time.
  template <bool kGroupScales>
  FS_ISA_INLINE static void RowsInt8(const Chunk& chunk, const Rows& rows, int64_t count,
                                     bool first, bool last, const PanelSums& sums) {
    int64_t r = 0;
    for (; r + Isa::kTileRows <= count; r += Isa::kTileRows) {
      TileInt8<Isa::kTileRows, kGroupScales>(chunk, rows, r, first, last, sums);
    }
    if constexpr (Isa::kTileRows > 2) {
      for (; r + 2 <= count; r += 2) {
        TileInt8<2, kGroupScales>(chunk, rows, r, first, last, sums);
      }
    }
    for (; r < count; ++r) TileInt8<1, kGroupScales>(chunk, rows, r, first, last, sums);
  }

  FS_ISA_INLINE static void RowsInt4(const Chunk& chunk, const Rows& rows, int64_t count,
                                     const PanelSums& sums) {
    int64_t r = 0;
    for (; r + Isa::kTileRows <= count; r += Isa::kTileRows) {
      TileInt4<Isa::kTileRows>(chunk, rows, r, sums);
    }
    if constexpr (Isa::kTileRows > 2) {
      for (; r + 2 <= count; r += 2) TileInt4<2>(chunk, rows, r, sums);
    }
    for (; r < count; ++r) TileInt4<1>(chunk, rows, r, sums);
  }

  template <IntegerLayout kLayout>
  static constexpr int64_t kChunkBytes =
      kLayout == IntegerLayout::kInt4 ? 2 * kPanelWidth + kSteps / 2 * kPanelWidth * 4
                                      : kSteps* kPanelWidth * 4;
  // Where a chunk begins; for int8 with groups behind the scales of the block.
  template <IntegerLayout kLayout>
  static int64_t ChunkOffset(int64_t c) {
    const int64_t heads = kLayout == IntegerLayout::kInt8Group ? c / 4 + 1 : 1;
    return heads * kPanelWidth * 4 + c * kChunkBytes<kLayout>;
  }

  // `count` panels side by side.
  template <IntegerLayout kLayout>
  static void Panels(const IntegerTask& t, int64_t panel, int64_t count, int64_t row, int64_t rows,
                     Sums& sums) {
    const unsigned char* weight = t.weight + panel * t.panel_bytes;
    Clear(rows * count, sums);
    for (int64_t c = 0; c < t.chunks; ++c) {
      const int64_t offset = ChunkOffset<kLayout>(c);
      // Past the end of a panel the same of the next panels is ahead.
      int64_t far = offset + kPrefetchFar;
      if (far >= t.panel_bytes) far += (count - 1) * t.panel_bytes;
      for (int64_t p = 0; p < count; ++p) {
        const unsigned char* w = weight + p * t.panel_bytes;
#pragma GCC unroll 16
        for (int64_t b = 0; b < kChunkBytes<kLayout>; b += 64) {
          __builtin_prefetch(w + far + b, 0, 2);
          __builtin_prefetch(w + offset + kPrefetchNear + b);
        }
        const PanelSums panel_sums = {sums.dots + p * rows, sums.values + p * rows};
        if constexpr (kLayout == IntegerLayout::kInt4) {
          ChunkInt4(t, w + offset, c, row, rows, panel_sums);
        } else {
          constexpr bool kGroupScales = kLayout == IntegerLayout::kInt8Group;
          ChunkInt8<kGroupScales>(t, w + offset, c, row, rows, panel_sums);
        }
      }
    }
    for (int64_t p = 0; p < count; ++p) {
      StoreRows(t, weight + p * t.panel_bytes, panel + p, row, rows, sums.values + p * rows);
    }
  }

  FS_ISA_INLINE static void Clear(int64_t rows, Sums& sums) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        Isa::StoreFloat(sums.values[r] + v * kLanes, Isa::ZeroFloat());
      }
    }
  }

  template <bool kGroupScales>
  FS_ISA_INLINE static void ChunkInt8(const IntegerTask& t, const unsigned char* weight, int64_t c,
                                      int64_t row, int64_t rows, const PanelSums& sums) {
    const bool first = c % 4 == 0, last = c % 4 == 3 || c + 1 == t.chunks;
    Chunk chunk;
    if (kGroupScales) {  // they stand before the block's first chunk
      const auto* scales = reinterpret_cast<const float*>(
          weight - c % 4 * kChunkBytes<IntegerLayout::kInt8Group> - kPanelWidth * 4);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) chunk.scales[v] = Isa::LoadFloat(scales + v * kLanes);
    }
    const auto* words = reinterpret_cast<const int32_t*>(weight);
#pragma GCC unroll 16
    for (int s = 0; s < kSteps; ++s) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        Isa::Split(Isa::Load(words + s * kPanelWidth + v * kLanes), chunk.words[s][v]);
      }
    }
    RowsInt8<kGroupScales>(chunk, RowsAt(t, row, c, c / 4), rows, first, last, sums);
  }

  FS_ISA_INLINE static void ChunkInt4(const IntegerTask& t, const unsigned char* weight, int64_t c,
                                      int64_t row, int64_t rows, const PanelSums& sums) {
    Chunk chunk;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      chunk.scales[v] = Isa::ScaleOfCodes(Isa::WidenBytes(weight + v * kLanes));
      chunk.zeros[v] = Isa::WidenBytes(weight + kPanelWidth + v * kLanes);
    }
    const auto* words = reinterpret_cast<const int32_t*>(weight + 2 * kPanelWidth);
#pragma GCC unroll 16
    for (int s = 0; s < kSteps; s += 2) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const Int word = Isa::Load(words + s / 2 * kPanelWidth + v * kLanes);
        Isa::Split(Isa::LowNibbles(word), chunk.words[s][v]);
        Isa::Split(Isa::HighNibbles(word), chunk.words[s + 1][v]);
      }
    }
    RowsInt4(chunk, RowsAt(t, row, c, c), rows, sums);
  }

  static void StoreRows(const IntegerTask& t, const unsigned char* weight, int64_t panel,
                        int64_t row, int64_t rows, float (*values)[kPanelWidth]) {
    const int64_t begin = panel * kPanelWidth;
    const int64_t count = t.out_cols - begin < kPanelWidth ? t.out_cols - begin : kPanelWidth;
    const auto* scales = reinterpret_cast<const float*>(weight);
    for (int64_t r = 0; r < rows; ++r) {
      float* sum = values[r];
      if (t.layout != IntegerLayout::kInt8Group) {
        for (int v = 0; v < kVectors; ++v) {
          Isa::StoreFloat(sum + v * kLanes, Isa::Mul(Isa::LoadFloat(sum + v * kLanes),
                                                     Isa::LoadFloat(scales + v * kLanes)));
        }
      }
      float* out = t.out + (row + r) * t.out_stride + begin;
      if (t.add) {
        for (int64_t n = 0; n < count; ++n) out[n] += sum[n];
      } else {
        for (int64_t n = 0; n < count; ++n) out[n] = sum[n];
      }
    }
  }
};

}  // namespace
}  // namespace firesteel
