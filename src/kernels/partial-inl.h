// Vectors of up to 16 floats, and loads and stores that stop at the end of a row. Include after
// highway.h.
//
// A short vector takes the same instructions as a full one, so an element has the same bits
// wherever it stands in its row.

#if defined(FIRESTEEL_KERNELS_PARTIAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_PARTIAL_INL_H
#undef FIRESTEEL_KERNELS_PARTIAL_INL_H
#else
#define FIRESTEEL_KERNELS_PARTIAL_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

using D = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using Vec = hwy::HWY_NAMESPACE::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hwy::HWY_NAMESPACE::MaxLanes(D()));

// The first min(n, kLanes) of p, zeros behind. REQUIRES: n > 0.
HWY_INLINE Vec LoadUpTo(const float* p, int64_t n) {
  const D d;
  if (n >= kLanes) return hwy::HWY_NAMESPACE::LoadU(d, p);
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return hwy::HWY_NAMESPACE::Load(d, lanes);
}

HWY_INLINE void StoreUpTo(Vec v, float* p, int64_t n) {
  const D d;
  if (n >= kLanes) return hwy::HWY_NAMESPACE::StoreU(v, d, p);
  HWY_ALIGN float lanes[kLanes];
  hwy::HWY_NAMESPACE::Store(v, d, lanes);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
