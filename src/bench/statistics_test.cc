#include "bench/statistics.h"

#include <gtest/gtest.h>

namespace firesteel {
namespace {

// Expected values: numpy.percentile(x, q) with its default (linear) method, numpy.std(x).
TEST(StatisticsTest, InterpolatesBetweenOrderStatistics) {
  const Statistics s = Summarize({15, 20, 35, 40, 50});
  EXPECT_EQ(s.count, 5u);
  EXPECT_DOUBLE_EQ(s.mean, 32.0);
  EXPECT_DOUBLE_EQ(s.median, 35.0);
  EXPECT_DOUBLE_EQ(s.p95, 48.0);  // h = 3.8: 40 + 0.8 * 10
  EXPECT_DOUBLE_EQ(s.p99, 49.6);  // h = 3.96
  EXPECT_DOUBLE_EQ(s.min, 15.0);
  EXPECT_DOUBLE_EQ(s.max, 50.0);
  EXPECT_NEAR(s.std, 12.884098726725126, 1e-12);
}

TEST(StatisticsTest, EvenCountTakesTheMiddleOfTheMedianPair) {
  const Statistics s = Summarize({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.p95, 3.85);
  EXPECT_DOUBLE_EQ(s.p99, 3.97);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{1, 2, 3, 4}, 25), 1.75);
}

TEST(StatisticsTest, EndsAndSingleSamples) {
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{1, 2, 9}, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{1, 2, 9}, 100), 9);
  const Statistics one = Summarize({7});
  EXPECT_DOUBLE_EQ(one.median, 7);
  EXPECT_DOUBLE_EQ(one.p99, 7);
  EXPECT_DOUBLE_EQ(one.std, 0);
}

TEST(StatisticsTest, NoSamplesGiveNoFigure) {
  EXPECT_EQ(Summarize({}).count, 0u);
  EXPECT_FALSE(Median({}).has_value());
  EXPECT_DOUBLE_EQ(*Median({3, 1}), 2);
}

}  // namespace
}  // namespace firesteel
