// The verifier one call at a time, and that matching gives what plain decoding gives, whatever the
// draft. Its distributions are verifier_distribution_test.cc's.
#include "speculation/verifier.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "speculation/toy_generation.h"

namespace firesteel {
namespace {

TEST(VerifierMatch, AnyDraftGivesThePlainSequence) {
  const ToyModel target(12, 5), drafter(12, 6);
  constexpr int32_t kCount = 24;
  const Proposer none = [](auto, NoiseKey, int64_t, int32_t) { return Draft{}; };
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SamplingParams params = AtTemperature(seed % 5 == 0 ? 0.0 : 0.4 + 0.2 * (seed % 4));
    if (seed % 3 == 0) params.repetition_penalty = 1.2;
    if (seed % 4 == 0) params.top_k = 4;
    const NoiseKey noise{seed, static_cast<uint32_t>(seed % 2)};
    Generation g{target, params, VerifyRule::kMatch, static_cast<int32_t>(1 + seed % 8)};
    const Tokens plain = g.Run(noise, kCount, none);
    // The same by the definition of plain decoding, without Verify.
    Tokens text = g.prompt;
    LogitProcessor processor(params, g.prompt, {});
    for (int32_t i = 0; i < kCount; ++i) {
      std::vector<float> logits = target.Logits(text);
      processor.Process({}, logits);
      const int32_t token =
          SampleWithNoise(MakeDistribution(logits, params), noise,
                          static_cast<int64_t>(text.size()), NoisePurpose::kTargetGumbel);
      ASSERT_EQ(plain[static_cast<size_t>(i)], token);
      processor.Commit(token);
      text.push_back(token);
    }

    int64_t rounds = 0;
    const auto at = [&](int64_t position) {  // what plain decoding has there
      const auto i = static_cast<size_t>(position) - g.prompt.size();
      return i < plain.size() ? plain[i] : 0;
    };
    const auto scripted = [&](const std::function<int32_t(int64_t position)>& token) -> Proposer {
      return [&, token](std::span<const int32_t>, NoiseKey, int64_t position, int32_t max_tokens) {
        ++rounds;
        Draft draft;
        for (int32_t k = 0; k < max_tokens; ++k) draft.tokens.push_back(token(position + k));
        return draft;
      };
    };
    std::mt19937 random(static_cast<uint32_t>(seed));
    const std::map<std::string, Proposer> proposers = {
        {"right", scripted(at)},
        {"wrong", scripted([&](int64_t p) { return (at(p) + 1) % 12; })},
        {"random", scripted([&](int64_t) { return static_cast<int32_t>(random() % 12); })},
        {"half right", scripted([&](int64_t p) { return p % 2 == 0 ? at(p) : 3; })},
        {"outside the vocabulary", scripted([&](int64_t p) { return p % 2 == 0 ? 1000 : -1; })},
        {"coupled", ChainOf(drafter, 0.8, NoisePurpose::kTargetGumbel, false)},
        {"independent", ChainOf(drafter, 0.8, NoisePurpose::kDraftGumbel, false)},
    };
    for (const auto& [name, propose] : proposers) {
      rounds = 0;
      ASSERT_EQ(g.Run(noise, kCount, propose), plain) << name << ", seed " << seed;
      const int64_t per_round = g.draft_tokens + 1;
      if (name == "right") {
        EXPECT_EQ(rounds, (kCount + per_round - 1) / per_round);
      }
      if (name == "wrong") {
        EXPECT_EQ(rounds, kCount);
      }
    }
  }
}

TEST(Verifier, AsksForRowsInOrderAndStopsAtTheFirstRefusal) {
  const Distribution zero = Distribution::OneHot(0);
  for (VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection}) {
    const auto run = [&](const Tokens& draft) {
      std::vector<int32_t> rows;
      const Verdict v = Verify(rule, {draft,
                                      {},
                                      [&](int32_t row) -> const Distribution& {
                                        rows.push_back(row);
                                        return zero;
                                      },
                                      {},
                                      7});
      EXPECT_EQ(v.next_token, 0);
      return std::pair(v.accepted, rows);
    };
    EXPECT_EQ(run({}), std::pair(0, (std::vector<int32_t>{0})));
    EXPECT_EQ(run({0, 0}), std::pair(2, (std::vector<int32_t>{0, 1, 2})));
    EXPECT_EQ(run({0, 4, 0}), std::pair(1, (std::vector<int32_t>{0, 1})));
    EXPECT_EQ(run({-1, 0}), std::pair(0, (std::vector<int32_t>{0})));
  }
}

TEST(Verifier, AnEmptyResidualFallsBackToTheTarget) {
  // p - q has 5e-9 of mass, all of it rounding; token 1 must not become certain by it.
  const Distribution p{{0, 1}, {1.0f, 5e-9f}};
  const std::vector<Distribution> q{Distribution::OneHot(0)};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Verdict v =
        Verify(VerifyRule::kRejection,
               {Tokens{2}, q, [&](int32_t) -> const Distribution& { return p; }, {seed, 0}, 0});
    EXPECT_EQ(v.accepted, 0);
    EXPECT_EQ(v.next_token, 0);
  }
}

TEST(Verifier, ByDraftMatchesAOneHotDraftAndRejectsAStochasticOne) {
  const Distribution p{{0, 1, 2}, {0.5f, 0.25f, 0.25f}};
  const std::vector<Distribution> q(2, Distribution{{0, 1, 2}, {0.25f, 0.5f, 0.25f}});
  int32_t different = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto run = [&](VerifyRule rule, std::span<const Distribution> probs) {
      const Verdict v = Verify(
          rule,
          {Tokens{0, 1}, probs, [&](int32_t) -> const Distribution& { return p; }, {seed, 0}, 3});
      return std::pair(v.accepted, v.next_token);
    };
    EXPECT_EQ(run(VerifyRule::kByDraft, {}), run(VerifyRule::kMatch, {}));
    EXPECT_EQ(run(VerifyRule::kByDraft, q), run(VerifyRule::kRejection, q));
    different += run(VerifyRule::kMatch, {}) != run(VerifyRule::kRejection, {});
    different += run(VerifyRule::kMatch, q) != run(VerifyRule::kRejection, q);
  }
  EXPECT_GT(different, 100);  // else the above says nothing
}

TEST(ChooseRule, FollowsTheTable) {
  EXPECT_EQ(ChooseRule("auto", false, false), VerifyRule::kByDraft);
  EXPECT_EQ(ChooseRule("auto", false, true), VerifyRule::kMatch);
  EXPECT_EQ(ChooseRule("auto", true, false), VerifyRule::kMatch);
  EXPECT_EQ(ChooseRule("match", false, false), VerifyRule::kMatch);
  EXPECT_EQ(ChooseRule("rejection", false, false), VerifyRule::kRejection);
  EXPECT_EQ(ChooseRule("rejection", false, true), VerifyRule::kRejection);
  EXPECT_EQ(ChooseRule("rejection", true, true), VerifyRule::kMatch);
  EXPECT_EQ(ChooseRule("block", false, true), VerifyRule::kBlock);
  EXPECT_EQ(ChooseRule("block", true, false), VerifyRule::kMatch);
}

}  // namespace
}  // namespace firesteel
