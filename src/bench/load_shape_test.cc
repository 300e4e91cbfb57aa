#include "bench/load_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/numpy_random.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What numpy 1.24 and Python 3.11 give.
TEST(NumpyRandomTest, IsThePublicToolsGenerator) {
  MersenneTwister twister = MersenneTwister::FromWord(42);
  std::vector<int64_t> drawn;
  for (int i = 0; i < 5; ++i) drawn.push_back(twister.Integer(0, 100));
  EXPECT_THAT(drawn, ElementsAre(51, 92, 14, 71, 60));
  twister = MersenneTwister::FromWord(42);
  drawn.clear();
  for (int i = 0; i < 5; ++i) drawn.push_back(twister.Integer(1, 1001));
  for (int i = 0; i < 5; ++i) drawn.push_back(twister.Integer(1, 257));
  EXPECT_THAT(drawn, ElementsAre(103, 436, 861, 271, 107, 72, 189, 21, 103, 122));

  const struct {
    double shape;
    std::vector<double> values;
  } kGammas[] = {
      {1.0, {0.019844227380361127, 0.3784396686396967, 0.14424546603912894}},
      {0.5, {0.0014557387567948963, 0.04805066355314873, 0.018014871509533195}},
      {3.0,
       {0.4939664468563814, 0.3936726474968306, 0.6675102888736049, 1.1744019448503404,
        0.9430968317013082}},
  };
  for (const auto& c : kGammas) {
    twister = MersenneTwister::FromWord(7);
    for (const double value : c.values) {
      EXPECT_DOUBLE_EQ(twister.Gamma(c.shape) * 0.25, value) << c.shape;
    }
  }
}

TEST(NumpyRandomTest, ShufflesAsPythonDoes) {
  const struct {
    uint64_t seed;
    std::vector<int> order;
  } kCases[] = {
      {42, {7, 3, 2, 8, 5, 6, 9, 4, 0, 1}},
      {0, {7, 8, 1, 5, 3, 4, 2, 0, 9, 6}},
      {(uint64_t{1} << 40) + 5, {1, 2, 3, 6, 7, 0, 5, 4, 9, 8}},
  };
  for (const auto& c : kCases) {
    std::vector<int> list = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    MersenneTwister::FromNumber(c.seed).Shuffle(&list);
    EXPECT_EQ(list, c.order) << c.seed;
  }
}

TEST(NumpyRandomTest, Pcg64IsTheDefaultGenerator) {
  const struct {
    uint64_t seed;
    std::vector<int64_t> small, large;
  } kCases[] = {
      {0, {850, 636, 511, 269, 307}, {6213, 11409, 2506, 26578}},
      {42, {89, 773, 654, 438, 433}, {130200, 13033, 105750, 30551}},
      {(uint64_t{1} << 40) + 5, {14, 4, 449, 372, 915}, {89049, 136393, 22958, 1496}},
  };
  for (const auto& c : kCases) {
    Pcg64 random(c.seed);
    for (const int64_t value : c.small) EXPECT_EQ(random.Integer(0, 1000), value);
    EXPECT_EQ(random.Integer(5, 6), 5);
    for (const int64_t value : c.large) EXPECT_EQ(random.Integer(0, 151643), value);
  }
}

std::vector<double> Seconds(const Result<std::vector<int64_t>>& offsets) {
  EXPECT_TRUE(offsets.ok()) << offsets.status().message();
  std::vector<double> seconds;
  if (offsets.ok()) {
    for (const int64_t ns : *offsets) seconds.push_back(static_cast<double>(ns) * 1e-9);
  }
  return seconds;
}

LoadShape Shape(const char* kind, double rate, double burstiness, uint64_t seed) {
  LoadShape shape;
  shape.kind = kind;
  shape.request_rate = rate;
  shape.burstiness = burstiness;
  shape.seed = seed;
  return shape;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-9) << i;
}

// Golden values: numpy 1.24 driven by vLLM's rule as documented.
TEST(LoadShapeTest, VllmsArrivals) {
  ExpectNear(Seconds(ArrivalsOf(Shape("poisson", 4, 1, 3), Dialect::kVllm, 6, {})),
             {0.1581332965709033, 0.4014753952476084, 0.4694023634121999, 0.6106920914216811,
              1.0522086314663108, 1.5});
  ExpectNear(Seconds(ArrivalsOf(Shape("gamma", 4, 0.5, 3), Dialect::kVllm, 6, {})),
             {0.22700092872917724, 0.2896894311272811, 1.4856933157142347, 1.497376574320925,
              1.4993387931637467, 1.5});
  LoadShape ramp = Shape("poisson", 4, 1, 3);
  ramp.ramp_up = "linear";
  ramp.ramp_start_rate = 1;
  ramp.ramp_end_rate = 9;
  ExpectNear(Seconds(ArrivalsOf(ramp, Dialect::kVllm, 5, {})),
             {0.8002823868824798, 1.2107850024625946, 1.2795380828008336, 1.381686697947807,
              1.629956788348395});
  ramp.ramp_up = "exponential";
  ramp.ramp_end_rate = 16;
  ExpectNear(Seconds(ArrivalsOf(ramp, Dialect::kVllm, 5, {})),
             {0.8002823868824798, 1.416036310252652, 1.501977660675451, 1.5913576989290528,
              1.7310096247793834});
}

TEST(LoadShapeTest, PoissonGapsAreExponential) {
  constexpr size_t kCount = 10'001;
  constexpr double kRate = 0.5;  // less than one a second
  const std::vector<double> times =
      Seconds(ArrivalsOf(Shape("poisson", kRate, 1, 1), Dialect::kNative, kCount, {}));
  EXPECT_EQ(times.front(), 0);
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  std::sort(gaps.begin(), gaps.end());
  double distance = 0;  // Kolmogorov and Smirnov's
  const auto n = static_cast<double>(gaps.size());
  for (size_t i = 0; i < gaps.size(); ++i) {
    const double cdf = 1 - std::exp(-gaps[i] * kRate);
    distance = std::max({distance, std::abs(cdf - static_cast<double>(i) / n),
                         std::abs(cdf - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance, 1.63 / std::sqrt(n));  // 1 %
}

TEST(LoadShapeTest, GammaGapsHaveMeanAndVariance) {
  for (const double burstiness : {0.25, 4.0}) {
    const std::vector<double> times =
        Seconds(ArrivalsOf(Shape("gamma", 10, burstiness, 5), Dialect::kNative, 20'001, {}));
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(times.size() - 1);
    for (size_t i = 1; i < times.size(); ++i) {
      const double gap = times[i] - times[i - 1];
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / n;
    EXPECT_NEAR(mean, 0.1, 0.1 * 4 / std::sqrt(n * burstiness));
    EXPECT_NEAR(squares / n - mean * mean, 0.01 / burstiness, 0.01 / burstiness * 0.15);
  }
}

TEST(LoadShapeTest, ConstantTraceAndClosed) {
  ExpectNear(Seconds(ArrivalsOf(Shape("constant", 4, 1, 0), Dialect::kNative, 3, {})),
             {0, 0.25, 0.5});
  LoadShape trace;
  trace.kind = "trace";
  EXPECT_THAT(*ArrivalsOf(trace, Dialect::kNative, 3, {1000, 1000.5, 4000}),
              ElementsAre(0, 500'000, 3'000'000'000));
  EXPECT_TRUE(ArrivalsOf(LoadShape(), Dialect::kNative, 3, {})->empty());
}

TEST(LoadShapeTest, WhatCannotBeIsSaid) {
  LoadShape trace;
  trace.kind = "trace";
  LoadShape ramp = Shape("poisson", 1, 1, 0);
  ramp.ramp_up = "linear";
  const struct {
    LoadShape shape;
    std::vector<double> timestamps;
    const char* message;
  } kCases[] = {
      {Shape("poisson", 0, 1, 0), {}, "need a request rate above 0"},
      {Shape("gamma", 1, 0, 0), {}, "burstiness is 0"},
      {ramp, {}, "needs a start and an end rate"},
      {trace, {1}, "rows with timestamps"},
      {trace, {2, 1}, "in the order of their timestamps"},
  };
  for (const auto& c : kCases) {
    const auto offsets = ArrivalsOf(c.shape, Dialect::kNative, 2, c.timestamps);
    ASSERT_FALSE(offsets.ok()) << c.message;
    EXPECT_THAT(offsets.status().message(), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace firesteel
