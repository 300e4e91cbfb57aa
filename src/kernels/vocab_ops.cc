#include "kernels/vocab_ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vocab_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// after highway.h, which sets its macros for the target
#include "hwy/contrib/math/math-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// NaN loses because a comparison with it is false.
HWY_INLINE Vec LargerOf(Vec best, Vec v) { return hn::IfThenElse(hn::Gt(v, best), v, best); }

// -infinity when nothing is larger.
float Largest(const float* HWY_RESTRICT values, int64_t n) {
  const D d;
  const Vec lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vec best0 = lowest, best1 = lowest;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    best0 = LargerOf(best0, hn::LoadU(d, values + i));
    best1 = LargerOf(best1, hn::LoadU(d, values + i + kLanes));
  }
  float best = hn::GetLane(hn::MaxOfLanes(d, LargerOf(best0, best1)));
  for (; i < n; ++i) best = values[i] > best ? values[i] : best;
  return best;
}

int64_t FirstEqual(const float* HWY_RESTRICT values, int64_t n, float wanted) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, values + i), hn::Set(d, wanted)));
    if (at >= 0) return i + at;
  }
  for (; i < n; ++i) {
    if (values[i] == wanted) return i;
  }
  return -1;
}

int64_t ArgMaxOf(const float* values, int64_t n) {
  const int64_t at = FirstEqual(values, n, Largest(values, n));
  return at < 0 ? 0 : at;  // all NaN
}

void ExpWeightsOf(const float* logits, int64_t n, float max, float inverse_temperature,
                  float* weights) {
  const D d;
  // exp(-87.3) is the smallest normal number; far below, Exp is not made for its argument.
  const Vec lowest = hn::Set(d, -87.0f);
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec x = hn::Mul(hn::Sub(LoadUpTo(logits + i, n - i), hn::Set(d, max)),
                          hn::Set(d, inverse_temperature));
    // Gt is false for NaN.
    const auto kept = hn::Gt(x, lowest);
    StoreUpTo(hn::IfThenElseZero(kept, hn::Exp(d, hn::IfThenElseZero(kept, x))), weights + i,
              n - i);
  }
}

double SumAtLeastOf(const float* HWY_RESTRICT values, int64_t n, float threshold) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  // A run of float32 sums is short enough to lose nothing that matters, and is then taken to
  // double.
  constexpr int64_t kRun = 32;
  const D d;
  const Vec least = hn::Set(d, threshold);
  HWY_ALIGN float lanes[kLanes];
  for (int64_t i = 0; i < n;) {
    Vec sum = hn::Zero(d);
    const int64_t end = std::min(n, i + kRun * kLanes);
    for (; i < end; i += kLanes) {
      const Vec v = LoadUpTo(values + i, n - i);
      const auto in = i + kLanes <= n
                          ? hn::Ge(v, least)
                          : hn::And(hn::Ge(v, least), hn::FirstN(d, static_cast<size_t>(n - i)));
      sum = hn::Add(sum, hn::IfThenElseZero(in, v));
    }
    hn::Store(sum, d, lanes);
    for (int64_t l = 0; l < kLanes; ++l) sums[l % kSums] += lanes[l];
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

int64_t SelectAtLeastOf(const float* HWY_RESTRICT values, int64_t n, float threshold,
                        int32_t* HWY_RESTRICT ids) {
  const D d;
  const Vec least = hn::Set(d, threshold);
  int64_t count = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto in = hn::Ge(hn::LoadU(d, values + i), least);
    if (hn::AllFalse(d, in)) continue;
    HWY_ALIGN uint8_t bits[16] = {};
    hn::StoreMaskBits(d, in, bits);
    for (uint32_t left = bits[0] | uint32_t{bits[1]} << 8; left != 0; left &= left - 1) {
      ids[count++] = static_cast<int32_t>(i) + __builtin_ctz(left);
    }
  }
  for (; i < n; ++i) {
    if (values[i] >= threshold) ids[count++] = static_cast<int32_t>(i);
  }
  return count;
}

// maxima[b] of whole blocks; the last may be shorter.
void BlockMaxima(const float* HWY_RESTRICT values, int64_t n, int64_t block,
                 float* HWY_RESTRICT maxima) {
  for (int64_t begin = 0; begin < n; begin += block) {
    maxima[begin / block] = Largest(values + begin, std::min(block, n - begin));
  }
}

using DU = hn::Repartition<uint32_t, D>;
using VecU = hn::Vec<DU>;

#if HWY_TARGET != HWY_SCALAR
// The two halves of the 64-bit products of a and the constant m.
HWY_INLINE void WideMul(VecU a, uint32_t m, VecU& high, VecU& low) {
  const DU du;
  const hn::Repartition<uint64_t, DU> d64;
  const VecU factor = hn::Set(du, m);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(d64, a))), factor);
  const auto low_half = hn::Set(d64, 0xFFFFFFFFu);
  low = hn::BitCast(du, hn::Or(hn::And(even, low_half), hn::ShiftLeft<32>(odd)));
  high = hn::BitCast(du, hn::Or(hn::ShiftRight<32>(even), hn::AndNot(low_half, odd)));
}
#endif

void PhiloxRangeOf(const std::array<uint32_t, 4>& counter, const std::array<uint32_t, 2>& key,
                   int64_t quads, uint32_t* HWY_RESTRICT out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const DU du;
  for (; i + kLanes <= quads; i += kLanes) {
    VecU c0 = hn::Iota(du, counter[0] + static_cast<uint32_t>(i));
    VecU c1 = hn::Set(du, counter[1]), c2 = hn::Set(du, counter[2]), c3 = hn::Set(du, counter[3]);
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
      VecU high0, low0, high1, low1;
      WideMul(c0, 0xD2511F53, high0, low0);
      WideMul(c2, 0xCD9E8D57, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(du, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(du, k1));
      c3 = low0;
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, du, out + 4 * i);
  }
#endif
  for (; i < quads; ++i) {
    const auto words = Philox4x32(
        {counter[0] + static_cast<uint32_t>(i), counter[1], counter[2], counter[3]}, key);
    std::copy(words.begin(), words.end(), out + 4 * i);
  }
}

int64_t MayArriveBeforeOf(const uint32_t* HWY_RESTRICT words, const float* HWY_RESTRICT probs,
                          int64_t n, double bound, int32_t* HWY_RESTRICT indices) {
  const D d;
  const DU du;
  const hn::Repartition<int32_t, D> di;
  // 31 bits of 1 - u, rounded down, against a bound rounded up by more than float32 can lose.
  const double wanted = bound * 1.00001 * 0x1p31;
  const auto wide = static_cast<float>(std::min(wanted, 3e38));
  int64_t count = 0, i = 0;
  if (wanted > 3e38) {  // no arrival yet, or none worth the name
    for (; i < n; ++i) indices[count++] = static_cast<int32_t>(i);
  }
  for (; i + kLanes <= n; i += kLanes) {
    const auto rest = hn::ShiftRight<1>(hn::Not(hn::LoadU(du, words + i)));
    const Vec left = hn::ConvertTo(d, hn::BitCast(di, rest));
    const auto in = hn::Lt(left, hn::Mul(hn::LoadU(d, probs + i), hn::Set(d, wide)));
    if (hn::AllFalse(d, in)) continue;
    HWY_ALIGN uint8_t bits[16] = {};
    hn::StoreMaskBits(d, in, bits);
    for (uint32_t b = bits[0] | uint32_t{bits[1]} << 8; b != 0; b &= b - 1) {
      indices[count++] = static_cast<int32_t>(i) + __builtin_ctz(b);
    }
  }
  for (; i < n; ++i) indices[count++] = static_cast<int32_t>(i);
  return count;
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(ArgMaxOf);
HWY_EXPORT(ExpWeightsOf);
HWY_EXPORT(SumAtLeastOf);
HWY_EXPORT(SelectAtLeastOf);
HWY_EXPORT(BlockMaxima);
HWY_EXPORT(PhiloxRangeOf);
HWY_EXPORT(MayArriveBeforeOf);

namespace {

constexpr int64_t kBlock = 64;  // values of a block of ThresholdOfTop
int64_t Size(std::span<const float> values) { return static_cast<int64_t>(values.size()); }

}  // namespace

int32_t ArgMax(std::span<const float> values) {
  FS_DCHECK(!values.empty());
  const int64_t at = HWY_DYNAMIC_DISPATCH(ArgMaxOf)(values.data(), Size(values));
  return static_cast<int32_t>(at);
}

void ExpWeights(std::span<const float> logits, float max, float inverse_temperature,
                std::span<float> weights) {
  FS_DCHECK(logits.size() == weights.size());
  HWY_DYNAMIC_DISPATCH(ExpWeightsOf)
  (logits.data(), Size(logits), max, inverse_temperature, weights.data());
}

double SumAtLeast(std::span<const float> values, float threshold) {
  return HWY_DYNAMIC_DISPATCH(SumAtLeastOf)(values.data(), Size(values), threshold);
}

int64_t SelectAtLeast(std::span<const float> values, float threshold, int32_t* ids) {
  return HWY_DYNAMIC_DISPATCH(SelectAtLeastOf)(values.data(), Size(values), threshold, ids);
}

float ThresholdOfTop(std::span<const float> values, int64_t count, std::span<float> scratch) {
  const int64_t blocks = (Size(values) + kBlock - 1) / kBlock;
  FS_DCHECK(Size(scratch) >= blocks);
  if (count > blocks / 4) return -std::numeric_limits<float>::infinity();
  HWY_DYNAMIC_DISPATCH(BlockMaxima)(values.data(), Size(values), kBlock, scratch.data());
  const auto begin = scratch.begin(), end = begin + blocks;
  std::nth_element(begin, begin + (count - 1), end, std::greater<>());
  return *(begin + (count - 1));
}

void PhiloxRange(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key, int64_t quads,
                 uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(PhiloxRangeOf)(counter, key, quads, out);
}

int64_t MayArriveBefore(std::span<const uint32_t> words, std::span<const float> probs, double bound,
                        int32_t* indices) {
  FS_DCHECK(words.size() == probs.size());
  return HWY_DYNAMIC_DISPATCH(MayArriveBeforeOf)(words.data(), probs.data(), Size(probs), bound,
                                                 indices);
}

}  // namespace firesteel
#endif  // HWY_ONCE
