#include "kernels/vocab_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/test_support.h"

namespace firesteel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSizes[] = {1, 3, 15, 16, 17, 63, 64, 65, 1000, 4096, 151'936};

std::vector<float> RandomRow(int64_t n, uint32_t seed) {
  const TestMatrix m = TestMatrix::Random(1, n, seed);
  return {m.Row(0), m.Row(0) + n};
}

TEST(VocabOps, ArgMaxIsTheLowestIdOfTheLargest) {
  ForEachTarget([] {
    for (const int64_t n : kSizes) {
      std::vector<float> row = RandomRow(n, 1);
      for (float& x : row) x = std::round(x * 4);  // ties
      EXPECT_EQ(ArgMax(row), std::ranges::max_element(row) - row.begin()) << n;
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<float> one = row;
        one[static_cast<size_t>(at)] = 1e9f;
        one[static_cast<size_t>((at + 1) % n)] = n > 1 ? kNan : 1e9f;
        EXPECT_EQ(ArgMax(one), at) << n;
      }
      EXPECT_EQ(ArgMax(std::vector<float>(static_cast<size_t>(n), kNan)), 0);
      EXPECT_EQ(ArgMax(std::vector<float>(static_cast<size_t>(n), -kInf)), 0);
    }
    EXPECT_EQ(ArgMax(std::vector<float>{kNan, -kInf, kNan}), 1);
  });
}

TEST(VocabOps, ExpWeightsAreExponentials) {
  ForEachTarget([] {
    for (const int64_t n : kSizes) {
      std::vector<float> row = RandomRow(n, 2);
      const float max = *std::ranges::max_element(row);
      std::vector<float> weights(row.size());
      ExpWeights(row, max, 1.7f, weights);
      for (size_t i = 0; i < row.size(); ++i) {
        const double x = (double{row[i]} - max) * 1.7;
        // The argument is rounded to float32 twice.
        ASSERT_NEAR(weights[i], std::exp(x), (2e-7 - 1.2e-7 * x) * std::exp(x)) << n;
      }
    }
    std::vector<float> odd{0, -kInf, kNan, -1e30f, -86, -100};
    ExpWeights(odd, 0, 1, odd);  // in place
    EXPECT_EQ(odd[0], 1);
    for (const size_t i : {1, 2, 3, 5}) EXPECT_EQ(odd[i], 0) << i;
    EXPECT_GT(odd[4], 0);
  });
}

TEST(VocabOps, SelectsAndSumsWhatReachesAThreshold) {
  ForEachTarget([] {
    for (const int64_t n : kSizes) {
      std::vector<float> row = RandomRow(n, 3);
      if (n > 20) row[7] = kNan;
      for (const float threshold : {-kInf, 0.0f, 1.5f, 100.0f}) {
        std::vector<int32_t> want, ids(row.size());
        double sum = 0;
        for (size_t i = 0; i < row.size(); ++i) {
          if (!(row[i] >= threshold)) continue;
          want.push_back(static_cast<int32_t>(i));
          sum += row[i];
        }
        ids.resize(static_cast<size_t>(SelectAtLeast(row, threshold, ids.data())));
        EXPECT_EQ(ids, want) << n;
        EXPECT_NEAR(SumAtLeast(row, threshold), sum, 1e-4 * std::sqrt(n)) << n;
      }
    }
  });
}

TEST(VocabOps, ThresholdOfTopKeepsEnoughAndLittleMore) {
  ForEachTarget([] {
    for (const int64_t n : kSizes) {
      const std::vector<float> row = RandomRow(n, 4);
      std::vector<float> scratch(static_cast<size_t>((n + 63) / 64));
      std::vector<int32_t> ids(row.size());
      for (const int64_t count : {int64_t{1}, int64_t{20}, int64_t{500}, n}) {
        const float threshold = ThresholdOfTop(row, count, scratch);
        const int64_t reached = SelectAtLeast(row, threshold, ids.data());
        EXPECT_GE(reached, std::min(count, n)) << n;
        if (threshold > -kInf) {
          EXPECT_LE(reached, 3 * count + 10) << n;
        }
      }
    }
  });
}

TEST(VocabOps, PhiloxRangeIsPhilox) {
  ForEachTarget([] {
    for (const int64_t quads : {1, 15, 16, 17, 300}) {
      std::vector<uint32_t> words(static_cast<size_t>(4 * quads));
      PhiloxRange({4'294'967'290u, 7, 9, 0x80000001u}, {0xDEADBEEFu, 0x12345678u}, quads,
                  words.data());
      for (uint32_t i = 0; i < quads; ++i) {
        const auto want =
            Philox4x32({4'294'967'290u + i, 7, 9, 0x80000001u}, {0xDEADBEEFu, 0x12345678u});
        for (size_t j = 0; j < 4; ++j) ASSERT_EQ(words[4 * i + j], want[j]) << quads;
      }
    }
  });
}

TEST(VocabOps, MayArriveBeforeLeavesNobodyOut) {
  ForEachTarget([] {
    for (const int64_t n : {1, 16, 17, 1024}) {
      std::vector<uint32_t> words(static_cast<size_t>((n + 3) / 4 * 4));
      PhiloxRange({1, 2, 3, 4}, {5, 6}, (n + 3) / 4, words.data());
      words.resize(static_cast<size_t>(n));
      words[0] = 0xFFFFFFFFu;
      std::vector<float> probs = RandomRow(n, 5);
      for (float& p : probs) p = std::exp(p) / static_cast<float>(n);
      std::vector<int32_t> indices(probs.size());
      for (const double bound : {1e-12, 1e-3, 0.3, 10.0, double{kInf}}) {
        const int64_t count = MayArriveBefore(words, probs, bound, indices.data());
        const auto end = indices.begin() + count;
        ASSERT_TRUE(std::is_sorted(indices.begin(), end));
        int64_t needed = 0;
        for (size_t i = 0; i < probs.size(); ++i) {
          const double left = 1.0 - (words[i] + 0.5) * 0x1p-32;
          if (!(left < bound * probs[i])) continue;
          ++needed;
          ASSERT_TRUE(std::binary_search(indices.begin(), end, static_cast<int32_t>(i)));
        }
        EXPECT_LE(count, needed + 16) << n << " " << bound;
      }
    }
  });
}

}  // namespace
}  // namespace firesteel
