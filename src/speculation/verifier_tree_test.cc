// Trees: the output against the target's distribution, and against plain decoding with the same
// seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "speculation/draft_tree.h"
#include "speculation/test_statistics.h"
#include "speculation/toy_generation.h"

namespace firesteel {
namespace {

constexpr int32_t kVocab = 6;
constexpr int32_t kArity = 3;
constexpr int64_t kTrials = 200'000;
constexpr double kSignificance = 1e-6;

// What is proposed behind `context`; `position` is that of the first level.
using TreeProposer =
    std::function<Draft(std::span<const int32_t> context, NoiseKey noise, int64_t position)>;
using TreeRule = std::function<Verdict(const TreeVerifyInput&, std::vector<int32_t>* path)>;

// Three children of the anchor and three of each, as `children` chooses them.
Draft ThreeByThree(std::span<const int32_t> context,
                   const std::function<Tokens(std::span<const int32_t>, int32_t level)>& children) {
  Draft tree;
  Tokens text(context.begin(), context.end());
  for (int32_t token : children(text, 0)) {
    tree.parents.push_back(-1);
    tree.tokens.push_back(token);
  }
  for (int32_t parent = 0; parent < kArity; ++parent) {
    text.push_back(tree.tokens[static_cast<size_t>(parent)]);
    for (int32_t token : children(text, 1)) {
      tree.parents.push_back(parent);
      tree.tokens.push_back(token);
    }
    text.pop_back();
  }
  return tree;
}

TreeProposer TopOf(const ToyModel& drafter) {
  return [&drafter](std::span<const int32_t> context, NoiseKey, int64_t) {
    return ThreeByThree(context, [&](std::span<const int32_t> text, int32_t) {
      const std::vector<float>& logits = drafter.Logits(text);
      Tokens order(kVocab);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, [&](int32_t a, int32_t b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
      });
      order.resize(kArity);
      return order;
    });
  };
}

// Children drawn without replacement, with the noise of the draft or even that of the target.
TreeProposer DrawnFrom(const ToyModel& drafter, NoisePurpose purpose) {
  return [&drafter, purpose](std::span<const int32_t> context, NoiseKey noise, int64_t position) {
    return ThreeByThree(context, [&](std::span<const int32_t> text, int32_t level) {
      std::vector<float> logits = drafter.Logits(text);
      Tokens drawn;
      for (int32_t i = 0; i < kArity; ++i) {
        drawn.push_back(SampleWithNoise(MakeDistribution(logits, AtTemperature(1)), noise,
                                        position + level, purpose));
        logits[static_cast<size_t>(drawn.back())] = -1e30f;
      }
      return drawn;
    });
  };
}

// The first `count` tokens of a text that is made in rounds.
Tokens Generate(const ToyModel& target, const SamplingParams& params, NoiseKey noise, size_t count,
                const TreeProposer& propose, const TreeRule& rule) {
  const Tokens prompt{0};
  LogitProcessor processor(params, prompt, {});
  Tokens text = prompt;
  Distribution p;
  std::vector<int32_t> path;
  while (text.size() < prompt.size() + count) {
    const auto anchor = static_cast<int64_t>(text.size()) - 1;
    const Draft tree = propose(text, noise, anchor + 1);
    Tokens prefix;
    const auto behind = [&](int32_t node) -> const Distribution& {
      if (node >= 0) prefix.push_back(tree.tokens[static_cast<size_t>(node)]);
      Tokens context = text;
      context.insert(context.end(), prefix.begin(), prefix.end());
      std::vector<float> logits = target.Logits(context);
      processor.Process(prefix, logits);
      p = MakeDistribution(logits, params);
      return p;
    };
    const Verdict v = rule({tree.tokens, tree.parents, behind, noise, anchor}, &path);
    EXPECT_EQ(static_cast<size_t>(v.accepted), path.size());
    Tokens committed;
    for (int32_t node : path) committed.push_back(tree.tokens[static_cast<size_t>(node)]);
    committed.push_back(v.next_token);
    for (int32_t token : committed) {
      processor.Commit(token);
      text.push_back(token);
    }
  }
  return {text.begin() + 1, text.begin() + 1 + static_cast<std::ptrdiff_t>(count)};
}

// Probability of every pair of first tokens, in double precision.
std::vector<double> ExactPairs(const ToyModel& target) {
  const auto softmax = [](const std::vector<float>& logits) {
    std::vector<double> p;
    for (float l : logits) p.push_back(std::exp(static_cast<double>(l)));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= sum;
    return p;
  };
  std::vector<double> pairs;
  const std::vector<double> first = softmax(target.Logits(Tokens{0}));
  for (int32_t a = 0; a < kVocab; ++a) {
    for (double b : softmax(target.Logits(Tokens{0, a}))) {
      pairs.push_back(first[static_cast<size_t>(a)] * b);
    }
  }
  return pairs;
}

ChiSquare FitOf(const ToyModel& target, const TreeProposer& propose, const TreeRule& rule) {
  std::vector<int64_t> counts(kVocab * kVocab);
  for (int64_t i = 0; i < kTrials; ++i) {
    const Tokens pair =
        Generate(target, AtTemperature(1), {static_cast<uint64_t>(i), 0}, 2, propose, rule);
    ++counts[static_cast<size_t>(pair[0] * kVocab + pair[1])];
  }
  return TestFit(counts, ExactPairs(target));
}

TEST(VerifierTree, JointOfTwoTokens) {
  const ToyModel target(kVocab, 11), drafter(kVocab, 12);
  const auto expect = [&](const TreeProposer& propose, const char* what) {
    const ChiSquare fit = FitOf(target, propose, VerifyTree);
    EXPECT_GT(fit.p_value, kSignificance)
        << what << ": chi-square " << fit.statistic << " on " << fit.degrees;
  };
  expect(TopOf(drafter), "top three");
  expect(DrawnFrom(drafter, NoisePurpose::kDraftGumbel), "drawn");
  expect(DrawnFrom(drafter, NoisePurpose::kTargetGumbel), "drawn with the target's noise");
}

TEST(VerifierTree, DescendingToTheFirstChildWhateverWasDrawnIsSeen) {
  const ToyModel target(kVocab, 11), drafter(kVocab, 12);
  const TreeRule first_child = [](const TreeVerifyInput& input, std::vector<int32_t>* path) {
    Verdict v = VerifyTree(input, path);
    const auto refused = std::ranges::find(input.parents, path->empty() ? -1 : path->back());
    if (refused == input.parents.end()) return v;
    // The correction gives way to a child that was not drawn.
    v.next_token = input.draft[static_cast<size_t>(refused - input.parents.begin())];
    return v;
  };
  const ChiSquare fit = FitOf(target, TopOf(drafter), first_child);
  EXPECT_LT(fit.p_value, kSignificance) << "a planted fault went unseen";
}

TEST(VerifierTree, ACorrectionWithNoiseOfItsOwnIsTheSameDistributionButAnotherText) {
  // What the reference writes as trying children in turn: only the noise differs, and the text is
  // then no longer that of plain decoding. So the equality below is worth something.
  const ToyModel target(kVocab, 11), drafter(kVocab, 12);
  const TreeRule own_noise = [](const TreeVerifyInput& input, std::vector<int32_t>* path) {
    TreeVerifyInput other = input;
    other.noise.seed ^= 77;
    return VerifyTree(other, path);
  };
  int32_t different = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto run = [&](const TreeRule& rule) {
      return Generate(target, AtTemperature(1), {seed, 0}, 10, TopOf(drafter), rule);
    };
    different += run(own_noise) != run(VerifyTree) ? 1 : 0;
  }
  EXPECT_GT(different, 25);
}

TEST(VerifierTree, TheTextIsThatOfPlainDecoding) {
  const ToyModel target(kVocab, 21), drafter(kVocab, 22);
  const TreeProposer none = [](std::span<const int32_t>, NoiseKey, int64_t) { return Draft(); };
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SamplingParams params = AtTemperature(seed % 3 == 0 ? 0 : 0.9);
    if (seed % 4 == 1) params.repetition_penalty = 1.4;
    if (seed % 4 == 2) params.frequency_penalty = 0.8;
    if (seed % 5 == 3) params.top_k = 3;
    const auto run = [&](const TreeProposer& propose) {
      return Generate(target, params, {seed, 1}, 25, propose, VerifyTree);
    };
    const Tokens plain = run(none);
    EXPECT_EQ(run(TopOf(target)), plain);
    EXPECT_EQ(run(TopOf(drafter)), plain);
    EXPECT_EQ(run(DrawnFrom(drafter, NoisePurpose::kTargetGumbel)), plain);
    EXPECT_EQ(run(DrawnFrom(drafter, NoisePurpose::kDraftGumbel)), plain);
  }
}

TEST(VerifierTree, AsksAlongTheAcceptedPathAlone) {
  //   anchor -> 3, 4;  4 -> 3, 5;  5 -> 6
  const Tokens tokens{3, 4, 3, 5, 6}, parents{-1, -1, 1, 1, 3};
  const auto run = [&](const Tokens& says) {
    std::vector<int32_t> asked, path;
    Distribution p;
    const auto target = [&](int32_t node) -> const Distribution& {
      p = Distribution::OneHot(says[asked.size()]);
      asked.push_back(node);
      return p;
    };
    const Verdict v = VerifyTree({tokens, parents, target, {}, 7}, &path);
    return std::tuple(v.accepted, v.next_token, path, asked);
  };
  EXPECT_EQ(run({9}), std::tuple(0, 9, Tokens{}, Tokens{-1}));
  EXPECT_EQ(run({3, 3}), std::tuple(1, 3, Tokens{0}, (Tokens{-1, 0})));
  EXPECT_EQ(run({4, 5, 6, 1}), std::tuple(3, 1, (Tokens{1, 3, 4}), (Tokens{-1, 1, 3, 4})));
  EXPECT_EQ(run({4, 3, 5}), std::tuple(2, 5, (Tokens{1, 2}), (Tokens{-1, 1, 2})));
}

}  // namespace
}  // namespace firesteel
