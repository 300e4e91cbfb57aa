#include "never_worse/verdict.h"

#include <gtest/gtest.h>

#include <random>

namespace firesteel {
namespace {

TEST(NeverWorse, JudgesInOtherRepeatsThanItChoosesBy) {
  // Repeat 0 is judged against the first setting (medians 20 and 6.5 elsewhere), 1 and 2 against
  // the second: ratios 10 / 9, 10 / 12, 10 / 1.
  const KeepsUp v = Judge({10, 10, 10}, {{9, 20, 20}, {30, 12, 1}});
  EXPECT_EQ(v.best, 0u);
  EXPECT_DOUBLE_EQ(v.ratio, 10.0 / 9);
}

TEST(NeverWorse, TheIntervalHoldsTheTruth) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(1, 0.03);
  int held = 0, honest = 0;
  constexpr int kTrials = 1000;
  for (int t = 0; t < kTrials; ++t) {
    Repeats automatic;
    std::vector<Repeats> fixed(5);
    for (int r = 0; r < 4; ++r) {
      automatic.push_back(100 * noise(random));
      for (Repeats& f : fixed) f.push_back(100 * noise(random));
    }
    const KeepsUp v = Judge(automatic, fixed);
    held += v.low <= 1 && 1 <= v.high;
    honest += v.ratio >= 0.98;
  }
  EXPECT_GE(held, kTrials * 0.92);
  // All are equal: were the best chosen and judged by the same repeats, it would seem faster by
  // more than a standard error, and half the verdicts would fall below.
  EXPECT_GE(honest, kTrials * 0.7);
}

}  // namespace
}  // namespace firesteel
