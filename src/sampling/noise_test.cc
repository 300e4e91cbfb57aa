#include "sampling/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/rng.h"

namespace firesteel {
namespace {

TEST(Noise, HasTheLayoutOfItsHeader) {
  const NoiseKey key{0x0123456789ABCDEF, 3};
  const int64_t position = (int64_t{0x456789} << 32) | 0xFEDCBA98;
  const auto lanes =
      Philox4x32({1000 / 4, 0xFEDCBA98, 3, (2u << 24) | 0x456789}, {0x89ABCDEF, 0x01234567});
  EXPECT_EQ(NoiseLanes(key, position, NoisePurpose::kAcceptUniform, 250), lanes);
  for (int32_t token = 1000; token < 1004; ++token) {
    EXPECT_EQ(UniformNoise(key, position, NoisePurpose::kAcceptUniform, token),
              (lanes[static_cast<size_t>(token - 1000)] + 0.5) / 4294967296.0);
  }
}

TEST(Noise, EveryPartOfTheKeyCounts) {
  std::set<double> values;
  int draws = 0;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (uint32_t choice : {0u, 1u}) {
      for (int64_t position : {int64_t{0}, int64_t{1}, int64_t{1} << 32}) {
        for (uint32_t purpose = 0; purpose < 5; ++purpose) {
          for (int32_t token : {0, 1, 4, 151'000}) {
            values.insert(
                UniformNoise({seed, choice}, position, static_cast<NoisePurpose>(purpose), token));
            ++draws;
          }
        }
      }
    }
  }
  EXPECT_EQ(values.size(), static_cast<size_t>(draws));
}

TEST(Noise, UniformStaysInsideTheInterval) {
  EXPECT_GT(UniformFromLane(0), 0.0);
  EXPECT_LT(UniformFromLane(~0u), 1.0);
}

TEST(Noise, GumbelHasItsMoments) {
  constexpr int kDraws = 200'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double g = GumbelNoise({7, 0}, i / 16, NoisePurpose::kTargetGumbel, i % 16);
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5772, 0.015);  // 5 standard errors
  EXPECT_NEAR(squares / kDraws - mean * mean, M_PI * M_PI / 6, 0.04);
}

}  // namespace
}  // namespace firesteel
