#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/integer_kernels_internal.h"
#include "kernels/quantize_internal.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using DI = hn::Repartition<int32_t, D>;
using Vec = hn::Vec<D>;
using VecInt = hn::Vec<DI>;

constexpr int32_t kInfinityBits = 0x7F800000;
// Below, a group counts as zero: its inverse scale would overflow.
constexpr float kLeastMagnitude = 0x1p-119f;

// What one group of activations became.
struct Group {
  float scale;
  int32_t sum;  // of its bytes
};

// Rounds `size` floats (a multiple of the lanes) to bytes in `out`.
Group QuantizeGroup(const float* HWY_RESTRICT x, int64_t size, int8_t* HWY_RESTRICT out) {
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Magnitudes order as their bits do, infinity and NaN above all.
  VecInt max_bits = hn::Zero(di);
  for (int64_t k = 0; k < size; k += lanes) {
    max_bits = hn::Max(max_bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + k))));
  }
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(di, max_bits));
  float max;
  std::memcpy(&max, &bits, sizeof(max));
  if (bits >= kInfinityBits || max < kLeastMagnitude) {
    std::memset(out, 0, static_cast<size_t>(size));
    return {bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f, 0};
  }
  const Vec inverse = hn::Set(d, 127.0f / max);
  const Vec round = hn::Set(d, kRound);
  VecInt sum = hn::Zero(di);
  const hn::Rebind<int8_t, DI> d8;
  for (int64_t k = 0; k < size; k += lanes) {
    const Vec shifted = hn::Add(hn::Mul(hn::LoadU(d, x + k), inverse), round);
    const VecInt q = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, kRoundBits));
    sum = hn::Add(sum, q);
    hn::StoreU(hn::DemoteTo(d8, q), d8, out + k);
  }
  return {max / 127.0f, hn::GetLane(hn::SumOfLanes(di, sum))};
}

// Words of 4 bytes as pairs of 16 bits: elements 0 and 2, then 1 and 3. `words` is a multiple of 8.
void WidenWords(const int8_t* HWY_RESTRICT bytes, int64_t words, uint32_t* HWY_RESTRICT out) {
  const hn::CappedTag<int32_t, 8> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* from = reinterpret_cast<const int32_t*>(bytes);
  const auto pair = [&](V low, V high) HWY_ATTR {  // from the highest byte of each
    return hn::Or(hn::And(hn::ShiftRight<24>(low), hn::Set(d, 0xFFFF)),
                  hn::ShiftLeft<16>(hn::ShiftRight<24>(high)));
  };
  for (int64_t w = 0; w < words; w += lanes) {
    const V v = hn::LoadU(d, from + w);
    const V even = pair(hn::ShiftLeft<24>(v), hn::ShiftLeft<8>(v));
    const V odd = pair(hn::ShiftLeft<16>(v), v);
    hn::StoreInterleaved2(even, odd, d, reinterpret_cast<int32_t*>(out) + 2 * w);
  }
}

// A row into words of `parts` parts, with group_size columns (128 or 32) to a scale.
void QuantizeRow(const float* x, int64_t cols, bool is_int4, int parts, uint32_t* words,
                 float* scales, int32_t* zeros) {
  constexpr int64_t kBlock = kChunk * kBlockChunks;
  const int64_t group_size = is_int4 ? kChunk : kBlock;
  HWY_ALIGN float tail[kBlock];
  HWY_ALIGN int8_t bytes[kBlock];
  for (int64_t g = 0, k = 0; k < cols; ++g, k += group_size) {
    const float* from = x + k;
    int64_t size = group_size;
    if (cols - k < group_size) {
      size = NumChunks(cols - k) * kChunk;
      std::memset(tail, 0, sizeof(tail));
      std::memcpy(tail, from, static_cast<size_t>(cols - k) * sizeof(float));
      from = tail;
    }
    int8_t* to = parts == 1 ? reinterpret_cast<int8_t*>(words + k / 4) : bytes;
    const Group group = QuantizeGroup(from, size, to);
    if (parts == 2) WidenWords(bytes, size / 4, words + k / 2);
    scales[g] = group.scale;
    zeros[g] = is_int4 ? -group.sum & 0xFFFF : -128 * group.sum;
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {
namespace {

HWY_EXPORT(QuantizeRow);

constexpr int64_t kLine = 64;  // bytes

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// An odd number of cache lines, so that the rows of a tile do not share L1 sets.
int64_t WordStride(int64_t cols, int parts) {
  const int64_t lines = RoundUp(NumChunks(cols) * kChunk * parts, kLine) / kLine;
  return (lines | 1) * kLine / int64_t{sizeof(uint32_t)};
}

int64_t NumGroups(int64_t cols, WeightFormat format) {
  return format == WeightFormat::kInt4 ? NumChunks(cols) : NumBlocks(cols);
}

}  // namespace

int64_t QuantizedBytesFor(const IntegerKernelEntry& kernel, int64_t rows, int64_t cols,
                          WeightFormat format) {
  const int64_t groups = rows * NumGroups(cols, format);
  return rows * WordStride(cols, kernel.parts) * int64_t{sizeof(uint32_t)} +
         groups * int64_t{sizeof(float) + sizeof(int32_t)};
}

QuantizedRows QuantizeRowsFor(const IntegerKernelEntry& kernel, Exec& exec, ConstMatrix x,
                              WeightFormat format, std::byte* scratch) {
  FS_DCHECK(IsInteger(format));
  QuantizedRows q{.kernel = &kernel,
                  .rows = x.rows,
                  .cols = x.cols,
                  .x_stride = WordStride(x.cols, kernel.parts),
                  .groups = NumGroups(x.cols, format)};
  auto* words = reinterpret_cast<uint32_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(words + x.rows * q.x_stride);
  auto* zeros = reinterpret_cast<int32_t*>(scales + x.rows * q.groups);
  q.x = words;
  q.scales = scales;
  q.zeros = zeros;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(x.cols, 1));
  exec.pool.ParallelFor(x.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(QuantizeRow)
      (x.Row(r), x.cols, format == WeightFormat::kInt4, kernel.parts, words + r * q.x_stride,
       scales + r * q.groups, zeros + r * q.groups);
    }
  });
  return q;
}

}  // namespace firesteel
#endif  // HWY_ONCE
