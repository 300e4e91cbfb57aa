#include "speculation/step_cost.h"

#include <gtest/gtest.h>

namespace firesteel {
namespace {

TEST(CostCurve, IsAStraightLineBetweenPointsAndBeyond) {
  const CostCurve curve({{1, 1.0}, {4, 1.6}, {8, 4.8}});
  EXPECT_DOUBLE_EQ(curve.At(1), 1.0);
  EXPECT_DOUBLE_EQ(curve.At(2), 1.2);
  EXPECT_DOUBLE_EQ(curve.At(8), 4.8);
  EXPECT_DOUBLE_EQ(curve.At(10), 6.4);
  EXPECT_DOUBLE_EQ(curve.At(0), 0);
  EXPECT_DOUBLE_EQ(CostCurve().At(5), 0);
  EXPECT_DOUBLE_EQ(CostCurve({{1, 2.0}}).At(7), 2.0);
}

TEST(CostCurve, NeverFalls) {
  const CostCurve curve({{1, 1.0}, {2, 0.9}, {4, 1.5}});
  EXPECT_DOUBLE_EQ(curve.At(2), 1.0);
}

TEST(CostCurve, FollowsAMachineThatBecomesSlower) {
  CostCurve curve({{1, 1.0}, {4, 1.0}, {8, 2.0}});
  for (int i = 0; i < 200; ++i) curve.Observe(8, 3.0);
  EXPECT_NEAR(curve.At(8), 3.0, 0.1);
  EXPECT_NEAR(curve.At(1), 1.0, 1e-9);
}

TEST(CostCurve, OneLongStepHardlyMovesIt) {
  CostCurve curve({{1, 1.0}, {8, 2.0}});
  curve.Observe(8, 1000.0);
  EXPECT_LE(curve.At(8), 2.2001);
  curve.Observe(8, 0);
  curve.Observe(8, -1);
  EXPECT_LE(curve.At(8), 2.2001);
}

TEST(CostCurve, SmallChangesDoNotShow) {
  CostCurve curve({{1, 1.0}, {8, 2.0}});
  for (int i = 0; i < 100; ++i) curve.Observe(8, 2.04);
  EXPECT_DOUBLE_EQ(curve.At(8), 2.0);
}

}  // namespace
}  // namespace firesteel
