#include "sampling/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace firesteel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams Params(double temperature, int32_t top_k = 0, double top_p = 1, double min_p = 0) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

std::vector<float> Logs(std::vector<double> probs) {
  std::vector<float> logits;
  for (double p : probs) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// The definitions with full sorts in double precision: min-p, then top-k, then top-p.
std::vector<double> Reference(std::span<const float> logits, const SamplingParams& params) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInf) order.push_back(static_cast<int32_t>(i));
  }
  const auto logit = [&](int32_t id) {
    return static_cast<double>(logits[static_cast<size_t>(id)]);
  };
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  const double max = logit(order[0]);
  const auto weight = [&](int32_t id) { return std::exp((logit(id) - max) / params.temperature); };
  std::erase_if(order, [&](int32_t id) { return weight(id) < params.min_p; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  double total = 0;
  for (int32_t id : order) total += weight(id);
  double kept = 0;
  std::vector<double> probs(logits.size(), 0);
  for (int32_t id : order) {
    probs[static_cast<size_t>(id)] = weight(id);
    kept += weight(id);
    if (params.top_p < 1 && kept >= params.top_p * total) break;
  }
  for (double& p : probs) p /= kept;
  return probs;
}

void ExpectWellFormed(const Distribution& d) {
  ASSERT_EQ(d.ids.size(), d.probs.size());
  ASSERT_FALSE(d.ids.empty());
  EXPECT_TRUE(std::ranges::adjacent_find(d.ids, std::greater_equal<>()) == d.ids.end());
  double sum = 0;
  for (float p : d.probs) {
    EXPECT_GT(p, 0.0f);
    sum += p;
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

TEST(ArgMax, TakesTheLowestIdAndNeverNan) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, -kInf, kNan}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, -2, kNan, -1}), 3);
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, kNan}), 0);
  EXPECT_EQ(ArgMax(std::vector<float>{-kInf, -kInf}), 0);
}

TEST(MakeDistribution, GreedyIsOneToken) {
  const std::vector<float> logits{1, 5, 5, 0};
  for (double temperature : {0.0, 9e-6}) {
    const Distribution d = MakeDistribution(logits, Params(temperature));
    EXPECT_EQ(d.ids, std::vector<int32_t>{1});
    EXPECT_EQ(d.probs, std::vector<float>{1.0f});
  }
}

TEST(MakeDistribution, AppliesTemperature) {
  const Distribution d = MakeDistribution(Logs({0.1, 0.2, 0.3, 0.4}), Params(0.5));
  ASSERT_EQ(d.ids, (std::vector<int32_t>{0, 1, 2, 3}));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(d.probs[i], (i + 1) * (i + 1) / 30.0, 1e-6);
  }
  EXPECT_FLOAT_EQ(d.Prob(2), d.probs[2]);
  EXPECT_EQ(d.Prob(4), 0.0f);
}

TEST(MakeDistribution, TopKKeepsTheLowerIdsOfATie) {
  const Distribution d = MakeDistribution(std::vector<float>{1, 2, 1, 2, 1}, Params(1, 3));
  EXPECT_EQ(d.ids, (std::vector<int32_t>{0, 1, 3}));
}

TEST(MakeDistribution, TopPIsTheSmallestSetThatReachesIt) {
  const auto logits = Logs({0.05, 0.5, 0.15, 0.3});
  EXPECT_EQ(MakeDistribution(logits, Params(1, 0, 0.79)).ids, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(MakeDistribution(logits, Params(1, 0, 0.81)).ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(MakeDistribution(logits, Params(1, 0, 1e-9)).ids, (std::vector<int32_t>{1}));
  // After top-k two tokens are left, 0.625 and 0.375.
  EXPECT_EQ(MakeDistribution(logits, Params(1, 2, 0.6)).ids, (std::vector<int32_t>{1}));
  EXPECT_EQ(MakeDistribution(logits, Params(1, 2, 0.65)).ids, (std::vector<int32_t>{1, 3}));
}

TEST(MakeDistribution, MinPIsRelativeToTheLargest) {
  const auto logits = Logs({0.05, 0.5, 0.15, 0.3});
  EXPECT_EQ(MakeDistribution(logits, Params(1, 0, 1, 0.29)).ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(MakeDistribution(logits, Params(1, 0, 1, 0.31)).ids, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(MakeDistribution(logits, Params(1, 0, 1, 1)).ids, (std::vector<int32_t>{1}));
  // At temperature 2 the ratio 0.3 has become its root, 0.55.
  EXPECT_EQ(MakeDistribution(logits, Params(2, 0, 1, 0.5)).ids, (std::vector<int32_t>{1, 2, 3}));
}

TEST(MakeDistribution, LeavesOutWhatIsImpossible) {
  EXPECT_EQ(MakeDistribution(std::vector<float>{-kInf, 1, kNan, 2}, Params(1)).ids,
            (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(MakeDistribution(std::vector<float>{-kInf, -kInf}, Params(1)).ids,
            (std::vector<int32_t>{0}));
  EXPECT_EQ(MakeDistribution(std::vector<float>{kNan, kNan}, Params(1)).ids,
            (std::vector<int32_t>{0}));
  EXPECT_EQ(MakeDistribution(std::vector<float>{0, kInf, kInf}, Params(1)).ids,
            (std::vector<int32_t>{1}));
  EXPECT_EQ(MakeDistribution(std::vector<float>{0, -3e38f, 3e38f}, Params(1e-4)).ids,
            (std::vector<int32_t>{2}));
}

TEST(MakeDistribution, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<float> logits(1 + random() % 1500);
    for (float& l : logits) {
      l = normal(random);
      if (trial % 3 == 0) l = std::round(l);  // ties
    }
    const auto params = Params(0.3 + 0.1 * (random() % 20), static_cast<int32_t>(random() % 3 * 40),
                               random() % 2 == 0 ? 1.0 : 0.9, random() % 2 == 0 ? 0.0 : 0.0123);
    const Distribution d = MakeDistribution(logits, params);
    ExpectWellFormed(d);
    const std::vector<double> want = Reference(logits, params);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(d.Prob(static_cast<int32_t>(i)), want[i], 2e-6) << "trial " << trial;
    }
  }
}

// Too many near the edge to be sorted; all equal in the end.
TEST(MakeDistribution, TopPOfAFlatDistributionAgreesWithTheDefinition) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 1);
  for (const float width : {2.0f, 0.3f, 0.01f, 1e-6f, 0.0f}) {
    for (const double top_p : {0.1, 0.5, 0.95}) {
      std::vector<float> logits(20000);
      for (float& l : logits) l = width * normal(random);
      logits[777] = kNan;
      const auto params = Params(1, 0, top_p, width > 1 ? 0.001 : 0);
      const Distribution d = MakeDistribution(logits, params);
      ExpectWellFormed(d);
      logits[777] = -kInf;
      const std::vector<double> want = Reference(logits, params);
      const auto kept = std::ranges::count_if(want, [](double p) { return p > 0; });
      // Sums of thousands differ in the last digits: the cut may fall on a neighbour.
      EXPECT_NEAR(static_cast<double>(d.ids.size()), static_cast<double>(kept), 2);
      std::vector<int32_t> order = d.ids;
      std::ranges::stable_sort(order, {}, [&](int32_t id) { return -logits[size_t(id)]; });
      const int32_t last = order.back();
      for (int32_t id = 0; id < 20000; ++id) {
        const float logit = logits[static_cast<size_t>(id)], least = logits[size_t(last)];
        ASSERT_EQ(d.Prob(id) > 0, logit > least || (logit == least && id <= last)) << width;
      }
    }
  }
}

TEST(SampleWithNoise, IsTheArgmaxOfItsDefinition) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 3);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<float> logits(1 + random() % 300);
    for (float& l : logits) l = normal(random);
    const Distribution d = MakeDistribution(
        logits, Params(1, trial % 2 == 0 ? 0 : 7));  // dense, and with gaps between the ids
    const NoiseKey key{random(), static_cast<uint32_t>(trial % 3)};
    const int64_t position = random() % 5000;
    double best_race = kInf, best_sum = -kInf, second_sum = -kInf;
    int32_t race = -1, sum = -1;
    for (size_t i = 0; i < d.ids.size(); ++i) {
      const double u = UniformNoise(key, position, NoisePurpose::kDraftGumbel, d.ids[i]);
      const double arrival = -std::log(u) / static_cast<double>(d.probs[i]);
      if (arrival < best_race) {
        best_race = arrival;
        race = d.ids[i];
      }
      const double score = std::log(static_cast<double>(d.probs[i])) +
                           GumbelNoise(key, position, NoisePurpose::kDraftGumbel, d.ids[i]);
      if (score > best_sum) {
        second_sum = best_sum;
        best_sum = score;
        sum = d.ids[i];
      } else {
        second_sum = std::max(second_sum, score);
      }
    }
    const int32_t got = SampleWithNoise(d, key, position, NoisePurpose::kDraftGumbel);
    ASSERT_EQ(got, race);
    if (best_sum - second_sum > 1e-5) {
      ASSERT_EQ(got, sum);
    }
  }
}

TEST(SampleWithNoise, EqualDistributionsShareTheirTokens) {
  // The same noise, so a nearly equal distribution nearly always gives the same token: what coupled
  // drafts live on.
  const Distribution p = MakeDistribution(Logs({0.5, 0.3, 0.2}), Params(1));
  const Distribution q = MakeDistribution(Logs({0.48, 0.31, 0.21}), Params(1));
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    same += SampleWithNoise(p, {9, 0}, i, NoisePurpose::kTargetGumbel) ==
            SampleWithNoise(q, {9, 0}, i, NoisePurpose::kTargetGumbel);
  }
  EXPECT_GT(same, 950);
}

TEST(RawLogprob, IsTheLogSoftmax) {
  const auto logits = Logs({0.1, 0.2, 0.2, 0.4, 0.1});
  const TokenLogprob got = RawLogprob(logits, 4, 3);
  EXPECT_EQ(got.token, 4);
  EXPECT_NEAR(got.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(got.top.size(), 3u);
  EXPECT_EQ(got.top[0].first, 3);
  EXPECT_NEAR(got.top[0].second, std::log(0.4), 1e-6);
  EXPECT_EQ(got.top[1].first, 1);  // the lower id of a tie
  EXPECT_EQ(got.top[2].first, 2);
  EXPECT_TRUE(RawLogprob(logits, 0, 0).top.empty());
  EXPECT_EQ(RawLogprob(logits, 0, 20).top.size(), 5u);
}

TEST(RawLogprob, NamesTheMostLikelyOfMany) {
  std::mt19937 random(3);
  std::vector<float> logits(3000);
  for (float& l : logits) l = static_cast<float>(random() % 500) * 0.01f;
  const TokenLogprob got = RawLogprob(logits, 17, 20);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  ASSERT_EQ(got.top.size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(got.top[i].first, order[i]);
}

TEST(RawLogprob, SurvivesOddLogits) {
  EXPECT_EQ(RawLogprob(std::vector<float>{-kInf, -kInf}, 0, 1).logprob, 0.0f);
  EXPECT_EQ(RawLogprob(std::vector<float>{0, kInf}, 1, 1).logprob, 0.0f);
  EXPECT_EQ(RawLogprob(std::vector<float>{0, kInf}, 0, 1).logprob, -kInf);
  EXPECT_EQ(RawLogprob(std::vector<float>{0, -kInf}, 1, 2).logprob, -kInf);
  EXPECT_NEAR(RawLogprob(std::vector<float>{1000, 1000, kNan}, 0, 3).logprob, std::log(0.5), 1e-6);
}

}  // namespace
}  // namespace firesteel
