#include "analysis/significance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace firesteel {
namespace {

std::vector<double> Repeats(double mean, double noise, int count, std::mt19937_64* random) {
  std::normal_distribution<double> normal(mean, mean * noise);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(normal(*random));
  return values;
}

// Share of comparisons that are called different.
double ShareCalled(double ratio, double noise, int repeats, int comparisons, uint64_t seed) {
  std::mt19937_64 random(seed);
  int called = 0;
  for (int i = 0; i < comparisons; ++i) {
    const auto a = Repeats(1000 * ratio, noise, repeats, &random);
    const auto b = Repeats(1000, noise, repeats, &random);
    called += CompareRatio(a, b, noise)->significant() ? 1 : 0;
  }
  return static_cast<double>(called) / comparisons;
}

TEST(Significance, FalseAlarmsStayBelowFivePercent) {
  for (const int repeats : {2, 3, 5, 8})
    EXPECT_LE(ShareCalled(1, 0.03, repeats, 1000, 7), 0.05) << repeats;
  // A thousand comparisons scatter by 0.7 %; these show the rate itself.
  EXPECT_LE(ShareCalled(1, 0.03, 5, 50'000, 1), 0.05);
}

// Two repeats a side, with the noise known from other cells: usable, and no more false alarms.
TEST(Significance, TwoRepeatsWithPooledNoise) {
  std::mt19937_64 random(5);
  int alarms = 0, found = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto a = Repeats(1000, 0.03, 2, &random), b = Repeats(1000, 0.03, 2, &random);
    const auto c = Repeats(1200, 0.03, 2, &random);
    alarms += CompareRatio(a, b, 0.03, 12)->significant() ? 1 : 0;
    found += CompareRatio(c, b, 0.03, 12)->significant() ? 1 : 0;
  }
  EXPECT_LE(alarms, 100);
  EXPECT_GE(found, 1600);
}

TEST(Significance, EightPercentIsFound) {
  EXPECT_GE(ShareCalled(1.08, 0.03, 5, 1000, 7), 0.80);
  EXPECT_GE(ShareCalled(1 / 1.08, 0.03, 5, 1000, 8), 0.80);
}

// The negative control: with an interval of half the width the false alarms are found.
TEST(Significance, NarrowIntervalsWouldFailTheTest) {
  std::mt19937_64 random(3);
  int called = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto a = Repeats(1000, 0.03, 5, &random), b = Repeats(1000, 0.03, 5, &random);
    RatioEstimate estimate = *CompareRatio(a, b, 0.03);
    estimate.low = std::sqrt(estimate.low * estimate.ratio);
    estimate.high = std::sqrt(estimate.high * estimate.ratio);
    called += estimate.significant() ? 1 : 0;
  }
  EXPECT_GT(called, 150);
}

TEST(Significance, IntervalsCoverTheTruth) {
  std::mt19937_64 random(11);
  int covered = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto a = Repeats(1200, 0.05, 4, &random), b = Repeats(1000, 0.02, 6, &random);
    const RatioEstimate estimate = *CompareRatio(a, b, 0.03);
    covered += estimate.low <= 1.2 && 1.2 <= estimate.high ? 1 : 0;
  }
  EXPECT_GE(covered, 1880);  // 95 % less three standard deviations
}

TEST(Significance, SingleRunsGetTheAssumedNoise) {
  const double a[] = {1050}, b[] = {1000};
  const RatioEstimate estimate = *CompareRatio(a, b, 0.03);
  EXPECT_DOUBLE_EQ(estimate.ratio, 1.05);
  EXPECT_FALSE(estimate.from_repeats);
  EXPECT_NEAR(std::log(estimate.high / 1.05), 1.96 * 0.03 * std::sqrt(2.0), 1e-4);
  EXPECT_FALSE(estimate.significant());
  EXPECT_TRUE(CompareRatio(a, b, 0.01)->significant());
}

TEST(Significance, WhatCannotBeCompared) {
  const double zero[] = {0, 1}, fine[] = {1, 2};
  EXPECT_FALSE(CompareRatio(zero, fine, 0.03));
  EXPECT_FALSE(CompareRatio({}, fine, 0.03));
  EXPECT_FALSE(MeanInterval(std::vector<double>{1}));
  // No scatter at all: an interval of no width, not a division by zero.
  const double same[] = {2, 2};
  EXPECT_DOUBLE_EQ(CompareRatio(same, same, 0.03)->high, 1);
}

TEST(Significance, QuantilesOfStudent) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 8), 2.3060, 1e-4);
  const double values[] = {1, 2, 3};
  EXPECT_NEAR(MeanInterval(values)->high, 2 + 4.30265 / std::sqrt(3.0), 1e-4);
}

}  // namespace
}  // namespace firesteel
