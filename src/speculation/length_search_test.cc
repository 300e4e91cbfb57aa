#include "speculation/length_search.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "speculation/acceptance_model.h"
#include "speculation/drafter.h"

namespace firesteel {
namespace {

using Rows = std::vector<std::vector<float>>;

Draft WithConfidence(const std::vector<float>& confidence) {
  Draft draft;
  draft.tokens.assign(confidence.size(), 0);
  draft.confidence = confidence;
  return draft;
}

SelectionFreeChances Free(const Rows& rows) {
  SelectionFreeChances chances;
  for (const auto& row : rows) {
    const Draft draft = WithConfidence(row);
    chances.AddUnsampled(PreTokenConfidence(draft), true, false);
  }
  return chances;
}

PreTokenChances PreToken(const Rows& rows) {
  PreTokenChances chances;
  for (const auto& row : rows) {
    const Draft draft = WithConfidence(row);
    chances.AddPreToken(PreTokenConfidence(draft));
  }
  return chances;
}

CertainWork Anchors(const Rows& rows) {
  return {static_cast<int64_t>(rows.size()), static_cast<double>(rows.size())};
}

const Rows kPaper = {
    {.95f, .9f, .85f, .8f, .7f}, {.6f, .5f, .5f, .4f, .3f}, {.9f, .7f, .4f, .3f, .2f}};

double Smooth(int64_t b) { return (10 + 0.5 * static_cast<double>(b)) / 1000; }
double StepsOf8(int64_t b) { return (10 + 0.5 * 8 * std::ceil(static_cast<double>(b) / 8)) / 1000; }
double StepsOf4(int64_t b) { return (10 + 2.5 * 4 * std::ceil(static_cast<double>(b) / 4)) / 1000; }

struct Vector {
  double (*seconds)(int64_t);
  std::vector<int32_t> causal;
  double causal_rate;
  std::vector<int32_t> global;
  double global_rate;
};

TEST(LengthSearch, GivesTheVectors) {
  const std::vector<Vector> vectors = {
      {Smooth, {5, 2, 2}, 559.38, {5, 2, 2}, 559.38},
      {StepsOf8, {3, 0, 2}, 504.41, {5, 4, 4}, 527.10},
      {StepsOf4, {1, 0, 0}, 197.50, {3, 0, 2}, 235.39},
  };
  LengthSearch search;
  LengthChoice choice;
  for (const Vector& v : vectors) {
    const auto rate = [&] { return choice.tokens / v.seconds(3 + choice.draft_tokens); };
    search.Causal(PreToken(kPaper), Anchors(kPaper), v.seconds, 0, &choice);
    EXPECT_EQ(choice.lengths, v.causal);
    EXPECT_NEAR(rate(), v.causal_rate, 0.005);
    search.Best(Free(kPaper), Anchors(kPaper), v.seconds, 0, &choice);
    EXPECT_EQ(choice.lengths, v.global);
    EXPECT_NEAR(rate(), v.global_rate, 0.005);
  }
}

// Every combination of lengths, for few drafts and any cost that does not fall.
double BruteForce(const Rows& rows, const std::vector<double>& seconds) {
  double best = 0;
  std::vector<size_t> length(rows.size(), 0);
  while (true) {
    double tokens = static_cast<double>(rows.size());
    size_t b = rows.size();
    for (size_t r = 0; r < rows.size(); ++r) {
      double a = 1;
      for (size_t j = 0; j < length[r]; ++j) tokens += a *= rows[r][j];
      b += length[r];
    }
    best = std::max(best, tokens / seconds[b]);
    size_t r = 0;
    while (r < rows.size() && length[r] == rows[r].size()) length[r++] = 0;
    if (r == rows.size()) return best;
    ++length[r];
  }
}

TEST(LengthSearch, BestIsTheBestOfAll) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  LengthSearch search;
  LengthChoice choice;
  for (int trial = 0; trial < 500; ++trial) {
    Rows rows(1 + random() % 4);
    for (auto& row : rows) {
      row.resize(random() % 5);
      for (float& c : row) c = static_cast<float>(0.05 + 0.95 * uniform(random));
    }
    std::vector<double> seconds(32);
    double now = 0.1 + uniform(random);
    for (double& s : seconds) s = now += random() % 3 == 0 ? uniform(random) : 0.0;
    const auto cost = [&](int64_t b) { return seconds[static_cast<size_t>(b)]; };
    search.Best(Free(rows), Anchors(rows), cost, trial, &choice);
    const double rate =
        choice.tokens / cost(static_cast<int64_t>(rows.size()) + choice.draft_tokens);
    EXPECT_NEAR(rate, BruteForce(rows, seconds), 1e-5 * rate);
    // More rows for the same work never help the search that stops early.
    search.Causal(PreToken(rows), Anchors(rows), cost, trial, &choice);
    EXPECT_LE(choice.tokens / cost(static_cast<int64_t>(rows.size()) + choice.draft_tokens),
              rate * (1 + 1e-9));
  }
}

// "Is token k verified" must not change with what is known only after token k was drawn.
TEST(LengthSearch, CausalAndTopDoNotLookAhead) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(0, 1);
  LengthSearch search;
  LengthChoice before, after;
  const auto cost = [](int64_t b) { return StepsOf4(b); };
  for (int trial = 0; trial < 300; ++trial) {
    Rows rows(1 + random() % 3, std::vector<float>(4));
    for (auto& row : rows) {
      for (float& c : row) c = uniform(random);
    }
    Rows changed = rows;
    const size_t k = 1 + random() % 3;  // tokens 1 … k were drawn when the rest is computed
    for (size_t j = k; j < 4; ++j) changed[0][j] = uniform(random);
    const auto same = [&] {
      const auto limit = static_cast<int32_t>(k);
      EXPECT_EQ(std::min(before.lengths[0], limit), std::min(after.lengths[0], limit));
    };
    search.Causal(PreToken(rows), Anchors(rows), cost, 0, &before);
    search.Causal(PreToken(changed), Anchors(rows), cost, 0, &after);
    same();
    search.Top(PreToken(rows), Anchors(rows), 5, 0, &before);
    search.Top(PreToken(changed), Anchors(rows), 5, 0, &after);
    same();
  }
}

// The negative control of the test above: the whole curve does look ahead (docs/speculation.md).
TEST(LengthSearch, BestLooksAhead) {
  LengthSearch search;
  LengthChoice choice;
  const double steps[] = {0, 1.0, 0.5, 0.45};
  const auto seconds = [&](int64_t b) { return 1 / steps[b]; };
  search.Best(Free({{.8f, .9f}}), {1, 1}, seconds, 0, &choice);
  EXPECT_EQ(choice.lengths, std::vector<int32_t>{2});
  search.Best(Free({{.8f, 1e-9f}}), {1, 1}, seconds, 0, &choice);
  EXPECT_EQ(choice.lengths, std::vector<int32_t>{0});
  search.Causal(PreToken({{.8f, .9f}}), {1, 1}, seconds, 0, &choice);
  EXPECT_EQ(choice.lengths, std::vector<int32_t>{0});
}

TEST(LengthSearch, SurvivesOddChances) {
  LengthSearch search;
  LengthChoice choice;
  const auto flat = [](int64_t) { return 1.0; };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  search.Best(Free({{1, 1, 1}, {nan, 1}, {0, 1}, {}, {.5f, nan, 1}, {2, .5f}}), {6, 6}, flat, 3,
              &choice);
  EXPECT_EQ(choice.lengths, (std::vector<int32_t>{3, 0, 0, 0, 1, 2}));
  search.Best(Free({}), {0, 0}, flat, 0, &choice);
  EXPECT_TRUE(choice.lengths.empty());
}

// Equal chances: one row each before anybody has two, and the turn says who is first.
TEST(LengthSearch, ServesEqualsInTurn) {
  LengthSearch search;
  LengthChoice choice;
  const Rows rows(4, std::vector<float>(3, 1.0f));
  search.Top(PreToken(rows), Anchors(rows), 6, 3, &choice);
  EXPECT_EQ(choice.lengths, (std::vector<int32_t>{2, 1, 1, 2}));
}

TEST(LengthSearch, ASampledDraftMayNotBeSearched) {
  SelectionFreeChances chances;
  const Draft draft = WithConfidence({.5f});
  EXPECT_DEATH(chances.AddUnsampled(PreTokenConfidence(draft), false, false), "rejection rule");
}

}  // namespace
}  // namespace firesteel
