#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exp2_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// after foreach_target.h, for it includes highway.h
#include "kernels/exp2-inl.h"
#include "kernels/test_support.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

void Exp2Row(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    StoreUpTo(Exp2(LoadUpTo(from + i, count - i)), to + i, count - i);
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(Exp2Row);

namespace {

std::vector<float> PowersOf(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(Exp2Row)(x.data(), static_cast<int64_t>(x.size()), y.data());
  return y;
}

TEST(Exp2, IsWithinOnePartInTenMillion) {
  std::vector<float> x;
  for (int i = 0; i <= 1000000; ++i) x.push_back(-100.0f * static_cast<float>(i) / 1e6f);
  for (float tiny = 1; tiny > 1e-40f; tiny /= 3) x.push_back(-tiny);
  ForEachTarget([&] {
    const std::vector<float> y = PowersOf(x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      worst = std::max(worst, std::fabs(y[i] - exact) / exact);
    }
    EXPECT_LE(worst, 1e-7);
    EXPECT_GE(worst, 1e-8);  // float32 can do no better: the comparison is not vacuous
  });
}

TEST(Exp2, EndsOfTheRange) {
  ForEachTarget([&] {
    const std::vector<float> y =
        PowersOf({0.0f, -0.0f, -1.0f, -100.0f, -100.5f, -1e30f, -INFINITY});
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    EXPECT_EQ(y[2], 0.5f);
    for (size_t i = 3; i < y.size(); ++i) EXPECT_EQ(y[i], 0x1p-100f);
    EXPECT_TRUE(std::isnan(PowersOf({NAN})[0]));
  });
}

}  // namespace
}  // namespace firesteel
#endif  // HWY_ONCE
