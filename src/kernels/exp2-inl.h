// Powers of two for the weights of a softmax. Include after highway.h, inside no namespace.

#if defined(FIRESTEEL_KERNELS_EXP2_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_EXP2_INL_H
#undef FIRESTEEL_KERNELS_EXP2_INL_H
#else
#define FIRESTEEL_KERNELS_EXP2_INL_H
#endif

#include "hwy/highway.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

// 2^x for x <= 0, within 1e-7 of the value; exactly 1 for 0. Below -100 it stays at 2^-100: beside
// a weight of 1 that is nothing, and no product of it becomes a subnormal, which would cost a trap.
// NaN stays NaN.
HWY_INLINE Vec Exp2(Vec x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const D d;
  const hn::Repartition<uint32_t, D> du;
  const Vec least = hn::Set(d, -100.0f);
  x = hn::IfThenElse(hn::Lt(x, least), least, x);  // where a maximum could drop NaN
  // Rounds to the nearest integer and leaves it in the low bits of the mantissa.
  const Vec magic = hn::Set(d, 0x1.8p23f);
  const Vec shifted = hn::Add(x, magic);
  const Vec f = hn::Sub(x, hn::Sub(shifted, magic));  // in [-0.5, 0.5]
  // (2^f - 1) / f, interpolated at the Chebyshev nodes.
  Vec p = hn::Set(d, 1.545316294e-04f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.339086336e-03f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.618082557e-03f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550357114e-02f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402265076e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931471880e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(du, p), exponent));
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
