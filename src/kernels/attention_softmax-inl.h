// The softmax of a query over a chunk, and how the chunks of a query are joined. Include after
// highway.h, inside no namespace.

#if defined(FIRESTEEL_KERNELS_ATTENTION_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_ATTENTION_SOFTMAX_INL_H
#undef FIRESTEEL_KERNELS_ATTENTION_SOFTMAX_INL_H
#else
#define FIRESTEEL_KERNELS_ATTENTION_SOFTMAX_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/attention_internal.h"
#include "kernels/exp2-inl.h"
#include "kernels/kv_tile-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline float Exp2Of(float x) { return hn::GetLane(Exp2(hn::Set(D(), x))); }

// Turns the scores of positions [first, end) of a chunk, not none, into weights 2^(score -
// largest), in place. FP8: scales of the values by tile, which go into the weights; or null.
inline void Weigh(float* HWY_RESTRICT scores, int64_t first, int64_t end,
                  const float* const* value_scales, float* out_largest, float* out_total) {
  const D d;
  const int64_t begin = first / kLanes * kLanes;
  const Vec nothing = hn::Set(d, -std::numeric_limits<float>::infinity());
  // What the query does not see becomes a score of -inf.
  if (begin < first) {
    const auto unseen = hn::FirstN(d, static_cast<size_t>(first - begin));
    hn::Store(hn::IfThenElse(unseen, nothing, hn::Load(d, scores + begin)), d, scores + begin);
  }
  if (end % kLanes != 0) {
    const int64_t last = end / kLanes * kLanes;
    const auto seen = hn::FirstN(d, static_cast<size_t>(end - last));
    hn::Store(hn::IfThenElse(seen, hn::Load(d, scores + last), nothing), d, scores + last);
  }
  Vec most = nothing, more = nothing;  // two, for a maximum takes longer than the next load
  int64_t p = begin;
  for (; p + kLanes < end; p += 2 * kLanes) {
    most = hn::Max(most, hn::Load(d, scores + p));
    more = hn::Max(more, hn::Load(d, scores + p + kLanes));
  }
  if (p < end) most = hn::Max(most, hn::Load(d, scores + p));
  const float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, more)));
  const Vec subtract = hn::Set(d, largest);
  Vec total = hn::Zero(d);
  for (p = begin; p < end; p += kLanes) {
    Vec weight = Exp2(hn::Sub(hn::Load(d, scores + p), subtract));
    if (p < first || p + kLanes > end) {
      weight = hn::IfThenZeroElse(hn::Eq(hn::Load(d, scores + p), nothing), weight);
    }
    total = hn::Add(total, weight);
    if (value_scales != nullptr) {
      const Vec scale = hn::LoadU(d, value_scales[p / kTile] + p % kTile);
      weight = hn::Mul(weight, hn::Mul(scale, hn::Set(d, F8Cells::kUnit)));
    }
    hn::Store(weight, d, scores + p);
  }
  *out_largest = largest;
  *out_total = hn::GetLane(hn::SumOfLanes(d, total));
}

// Joins the softmax of `next` for query q to that of all positions before it.
inline void Join(int64_t q, const AttentionPartial& next, int64_t stride,
                 const AttentionPartial& joined) {
  if (next.totals[q] == 0.0f) return;
  const D d;
  const float* HWY_RESTRICT sums = next.sums + q * stride;
  float* HWY_RESTRICT to = joined.sums + q * stride;
  if (joined.totals[q] == 0.0f) {
    joined.largest[q] = next.largest[q];
    joined.totals[q] = next.totals[q];
    std::copy_n(sums, stride, to);
    return;
  }
  const float largest = std::max(joined.largest[q], next.largest[q]);
  const float before = Exp2Of(joined.largest[q] - largest);
  const float after = Exp2Of(next.largest[q] - largest);
  joined.largest[q] = largest;
  joined.totals[q] = joined.totals[q] * before + next.totals[q] * after;
  const Vec a = hn::Set(d, before), b = hn::Set(d, after);
  for (int64_t i = 0; i < stride; i += kLanes) {
    const Vec old = hn::Mul(hn::Load(d, to + i), a);
    hn::Store(hn::MulAdd(hn::Load(d, sums + i), b, old), d, to + i);
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
