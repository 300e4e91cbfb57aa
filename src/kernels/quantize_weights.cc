#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quantize_internal.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize_weights.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes are features: each lane goes through the same operations on vectors of any width, and
// nothing is fused, so that a checkpoint packs to the same bytes on every machine.
using D = hn::CappedTag<float, 16>;
using DI = hn::Repartition<int32_t, D>;
using Vec = hn::Vec<D>;
using VecInt = hn::Vec<DI>;
constexpr int64_t kPanel = PackedWeight::kPanel;

struct HWY_ALIGN Columns {  // one value of each feature
  float values[kPanel];
};

// A chunk of the rows, k first.
struct HWY_ALIGN Chunk {
  float values[kChunk][kPanel];
};

void LoadChunk(const ConstMatrix& rows, int64_t k_begin, Chunk* chunk) {
  const int64_t count = std::min(kChunk, rows.cols - k_begin);
  std::memset(chunk, 0, sizeof(*chunk));
  for (int64_t n = 0; n < rows.rows; ++n) {
    const float* from = rows.data + n * rows.stride + k_begin;
    for (int64_t k = 0; k < count; ++k) {
      uint32_t bits;
      std::memcpy(&bits, from + k, 4);
      // Not finite: taken as 0, the row's scale tells.
      chunk->values[k][n] = (bits & 0x7F800000u) == 0x7F800000u ? 0.0f : from[k];
    }
  }
}

// Nearest integer, ties to even, of |x| < 2^22.
Vec Nearest(Vec x) { return hn::Sub(hn::Add(x, hn::Set(D(), kRound)), hn::Set(D(), kRound)); }
VecInt RoundToInt(Vec x) {
  return hn::Sub(hn::BitCast(DI(), hn::Add(x, hn::Set(D(), kRound))), hn::Set(DI(), kRoundBits));
}

void MaxOfColumns(const Chunk& chunk, Columns* max) {
  const D d;
  for (int64_t n = 0; n < kPanel; n += static_cast<int64_t>(hn::Lanes(d))) {
    Vec m = hn::Load(d, max->values + n);
    for (int64_t k = 0; k < kChunk; ++k) m = hn::Max(m, hn::Abs(hn::Load(d, chunk.values[k] + n)));
    hn::Store(m, d, max->values + n);
  }
}

// The chunk as bytes w / scale + 128; `inverse` of the scale, 0 for none.
void StoreInt8(const Chunk& chunk, const Columns& inverse, std::byte* out) {
  const D d;
  const DI di;
  auto* words = reinterpret_cast<int32_t*>(out);
  for (int64_t step = 0; step < kChunkSteps; ++step) {
    for (int64_t n = 0; n < kPanel; n += static_cast<int64_t>(hn::Lanes(d))) {
      const Vec scale = hn::Load(d, inverse.values + n);
      const auto byte = [&](int64_t k) HWY_ATTR {
        const Vec q = hn::Mul(hn::Load(d, chunk.values[step * 4 + k] + n), scale);
        return hn::Add(RoundToInt(q), hn::Set(di, 128));
      };
      const VecInt low = hn::Or(byte(0), hn::ShiftLeft<8>(byte(1)));
      const VecInt high = hn::Or(hn::ShiftLeft<16>(byte(2)), hn::ShiftLeft<24>(byte(3)));
      hn::Store(hn::Or(low, high), di, words + step * kPanel + n);
    }
  }
}

// Scale and zero of one feature's chunk, and what they cost.
struct Int4Choice {
  Vec code, zero, error;
};

// |code| as the float that it stands for. `code` holds an integer 0 to 255.
Vec ScaleOfCode(Vec code) {
  const DI di;
  const VecInt bits = hn::ShiftLeft<kScaleCodeShift>(RoundToInt(code));
  return hn::BitCast(D(), hn::Add(bits, hn::Set(di, kScaleCodeBias)));
}

// The smallest code whose scale is at least `scale`, within 0 to 255.
Vec CodeOfScale(Vec scale) {
  const D d;
  const DI di;
  constexpr int32_t kLowBits = (1 << kScaleCodeShift) - 1;
  const VecInt bits = hn::Add(hn::BitCast(di, scale), hn::Set(di, kLowBits));
  const VecInt code = hn::ShiftRight<kScaleCodeShift>(hn::Sub(bits, hn::Set(di, kScaleCodeBias)));
  return hn::Min(hn::Max(hn::ConvertTo(d, code), hn::Zero(d)), hn::Set(d, 255.0f));
}

Vec RoundZero(Vec zero) {  // to sixteenths
  const D d;
  const Vec sixteenths = Nearest(hn::Mul(zero, hn::Set(d, 16.0f)));
  return hn::Mul(hn::Min(hn::Max(sixteenths, hn::Zero(d)), hn::Set(d, 255.0f)),
                 hn::Set(d, 0.0625f));
}

Vec Quantized(Vec steps) {
  return hn::Min(hn::Max(Nearest(steps), hn::Zero(D())), hn::Set(D(), 15));
}

// Tries a scale of `code` * `unit`: with the zero in the middle of the range, then moved to where
// the mean error vanishes.
void Try(const Chunk& chunk, int64_t n, Vec unit, Vec code, Vec middle, Int4Choice* best) {
  const D d;
  const Vec scale = hn::Mul(ScaleOfCode(code), unit);
  const Vec inverse = hn::Div(hn::Set(d, 1.0f), scale);
  Vec zero = RoundZero(hn::Sub(hn::Set(d, 7.5f), hn::Mul(middle, inverse)));
  for (int round = 0; round < 3; ++round) {
    Vec sum = hn::Zero(d), squares = hn::Zero(d);
    for (int64_t k = 0; k < kChunk; ++k) {
      const Vec steps = hn::Add(hn::Mul(hn::Load(d, chunk.values[k] + n), inverse), zero);
      const Vec error = hn::Sub(steps, Quantized(steps));
      sum = hn::Add(sum, error);
      squares = hn::Add(squares, hn::Mul(error, error));
    }
    const Vec error = hn::Mul(squares, hn::Mul(ScaleOfCode(code), ScaleOfCode(code)));
    const auto better = hn::Lt(error, best->error);
    best->code = hn::IfThenElse(better, code, best->code);
    best->zero = hn::IfThenElse(better, zero, best->zero);
    best->error = hn::IfThenElse(better, error, best->error);
    zero = RoundZero(hn::Sub(zero, hn::Mul(sum, hn::Set(d, 1.0f / kChunk))));
  }
}

// Steps of a chunk that would just cover its range, which takes in zero.
struct Range {
  Vec low, high;
};
Range RangeOf(const Chunk& chunk, int64_t n) {
  const D d;
  Range range{hn::Zero(d), hn::Zero(d)};
  for (int64_t k = 0; k < kChunk; ++k) {
    const Vec x = hn::Load(d, chunk.values[k] + n);
    range.low = hn::Min(range.low, x);
    range.high = hn::Max(range.high, x);
  }
  return range;
}
// Halves first: the whole range of large floats would overflow.
Vec CoveringStep(const Range& range) {
  const D d;
  const Vec half = hn::Set(d, 0.5f / 15);
  return hn::Add(hn::Mul(range.high, half), hn::Mul(hn::Neg(range.low), half));  // times 2: below
}

// Clipping the range a little costs less than a coarser step: scales down to about three quarters
// of the covering one are tried.
constexpr int kScaleTries = 8;

void StoreInt4(const Chunk& chunk, const Columns& unit, std::byte* out) {
  const D d;
  const DI di;
  auto* words = reinterpret_cast<int32_t*>(out + kInt4HeadBytes);
  for (int64_t n = 0; n < kPanel; n += static_cast<int64_t>(hn::Lanes(d))) {
    const Vec u = hn::Load(d, unit.values + n);
    const Range range = RangeOf(chunk, n);
    const Vec middle = hn::Add(hn::Mul(range.low, hn::Set(d, 0.5f)),  //
                               hn::Mul(range.high, hn::Set(d, 0.5f)));
    const Vec covering = CodeOfScale(hn::Div(hn::Mul(CoveringStep(range), hn::Set(d, 2.0f)), u));
    Int4Choice best{covering, hn::Zero(d), hn::Set(d, std::numeric_limits<float>::infinity())};
    for (int i = 0; i < kScaleTries; ++i) {
      const Vec code = hn::Max(hn::Sub(covering, hn::Set(d, static_cast<float>(i))), hn::Zero(d));
      Try(chunk, n, u, code, middle, &best);
    }
    const Vec inverse = hn::Div(hn::Set(d, 1.0f), hn::Mul(ScaleOfCode(best.code), u));
    const VecInt zero_bytes = RoundToInt(hn::Mul(best.zero, hn::Set(d, 16.0f)));
    const hn::Rebind<uint8_t, DI> d8;
    hn::StoreU(hn::DemoteTo(d8, RoundToInt(best.code)), d8, reinterpret_cast<uint8_t*>(out) + n);
    hn::StoreU(hn::DemoteTo(d8, zero_bytes), d8, reinterpret_cast<uint8_t*>(out) + kPanel + n);
    for (int64_t w = 0; w < kChunk / 8; ++w) {
      VecInt word = hn::Zero(di);
      for (int j = 0; j < 8; ++j) {
        const Vec steps =
            hn::Add(hn::Mul(hn::Load(d, chunk.values[w * 8 + j] + n), inverse), best.zero);
        word = hn::Or(word, hn::ShiftLeftSame(RoundToInt(Quantized(steps)), 4 * kNibbleOrder[j]));
      }
      hn::Store(word, di, words + w * kPanel + n);
    }
  }
}

// Below, a row counts as zero: its inverse scale would overflow.
constexpr float kLeastMagnitude = 0x1p-100f;

void PanelInt8(const ConstMatrix& rows, const Columns& bad, int64_t chunk_begin, int64_t chunk_end,
               std::byte* panel) {
  Chunk chunk;
  Columns max{}, inverse{};
  for (int64_t c = chunk_begin; c < chunk_end; ++c) {
    LoadChunk(rows, c * kChunk, &chunk);
    MaxOfColumns(chunk, &max);
  }
  auto* scales = reinterpret_cast<float*>(panel);
  for (int64_t n = 0; n < kPanel; ++n) {
    const bool zero = max.values[n] < kLeastMagnitude;
    scales[n] = (zero ? 0.0f : max.values[n] / 127.0f) + bad.values[n];
    inverse.values[n] = zero ? 0.0f : 127.0f / max.values[n];
  }
  for (int64_t c = chunk_begin; c < chunk_end; ++c) {
    LoadChunk(rows, c * kChunk, &chunk);
    StoreInt8(chunk, inverse, panel + kScaleBytes + (c - chunk_begin) * kInt8ChunkBytes);
  }
}

void PanelInt4(const ConstMatrix& rows, const Columns& bad, std::byte* panel) {
  const D d;
  Chunk chunk;
  Columns step{}, unit{};
  const int64_t chunks = NumChunks(rows.cols);
  for (int64_t c = 0; c < chunks; ++c) {
    LoadChunk(rows, c * kChunk, &chunk);
    for (int64_t n = 0; n < kPanel; n += static_cast<int64_t>(hn::Lanes(d))) {
      hn::Store(hn::Max(hn::Load(d, step.values + n), CoveringStep(RangeOf(chunk, n))), d,
                step.values + n);
    }
  }
  auto* scales = reinterpret_cast<float*>(panel);
  for (int64_t n = 0; n < kPanel; ++n) {
    const bool zero = step.values[n] < kLeastMagnitude;
    // Half of the largest, as the step is a half.
    unit.values[n] = zero ? 1.0f : step.values[n] / (0.5f * Int4Scale(255));
    scales[n] = (zero ? 0.0f : unit.values[n] / 16) + bad.values[n];
  }
  for (int64_t c = 0; c < chunks; ++c) {
    LoadChunk(rows, c * kChunk, &chunk);
    StoreInt4(chunk, unit, panel + kScaleBytes + c * kInt4ChunkBytes);
  }
}

void QuantizePanelImpl(WeightFormat format, const ConstMatrix& rows, std::byte* panel) {
  Columns bad{};  // NaN for a row that is not finite, else 0
  for (int64_t n = 0; n < rows.rows; ++n) {
    for (int64_t k = 0; k < rows.cols; ++k) {
      uint32_t bits;
      std::memcpy(&bits, rows.data + n * rows.stride + k, 4);
      if ((bits & 0x7F800000u) == 0x7F800000u) {
        bad.values[n] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  const int64_t chunks = NumChunks(rows.cols);
  if (format == WeightFormat::kInt4) {
    PanelInt4(rows, bad, panel);
  } else if (format == WeightFormat::kInt8) {
    PanelInt8(rows, bad, 0, chunks, panel);
  } else {
    for (int64_t c = 0; c < chunks; c += kBlockChunks) {
      PanelInt8(rows, bad, c, std::min(c + kBlockChunks, chunks),
                panel + c * kInt8ChunkBytes + c / kBlockChunks * kScaleBytes);
    }
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(QuantizePanelImpl);

int64_t PanelBytes(WeightFormat format, int64_t cols) {
  FS_DCHECK(IsInteger(format));
  if (format == WeightFormat::kInt4) return kScaleBytes + NumChunks(cols) * kInt4ChunkBytes;
  const int64_t scales = format == WeightFormat::kInt8 ? 1 : NumBlocks(cols);
  return scales * kScaleBytes + NumChunks(cols) * kInt8ChunkBytes;
}

void QuantizePanel(WeightFormat format, ConstMatrix rows, std::byte* panel) {
  FS_DCHECK(IsInteger(format) && rows.rows <= PackedWeight::kPanel);
  HWY_DYNAMIC_DISPATCH(QuantizePanelImpl)(format, rows, panel);
}

}  // namespace firesteel
#endif  // HWY_ONCE
