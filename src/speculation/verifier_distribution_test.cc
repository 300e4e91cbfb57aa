// The verifier's output against the target's distribution. What is tested
// is what the engine runs: Verify, MakeDistribution, SampleWithNoise, LogitProcessor, TrimLength.
// Planted faults must fail the same statistic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "speculation/test_statistics.h"
#include "speculation/toy_generation.h"

namespace firesteel {
namespace {

// Of the whole file, shared by at most 64 comparisons (Bonferroni).
constexpr double kSignificance = 1e-6 / 64;

// softmax(logits / temperature) without the code under test.
std::vector<double> Softmax(std::span<const float> logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (float l : logits) sum += p.emplace_back(std::exp(static_cast<double>(l) / temperature));
  for (double& x : p) x /= sum;
  return p;
}

void ExpectFits(std::span<const int64_t> counts, std::span<const double> probs,
                const std::string& what) {
  const ChiSquare fit = TestFit(counts, probs);
  EXPECT_GT(fit.p_value, kSignificance)
      << what << ": chi-square " << fit.statistic << " on " << fit.degrees << " degrees of freedom";
}

void ExpectMisfits(std::span<const int64_t> counts, std::span<const double> probs) {
  const ChiSquare fit = TestFit(counts, probs);
  EXPECT_LT(fit.p_value, kSignificance)
      << "a planted fault went unseen: chi-square " << fit.statistic << " on " << fit.degrees;
}

// ---------------------------------------------------------------- the statistic itself

TEST(TestStatistics, KnowsTheChiSquareTable) {
  EXPECT_NEAR(UpperGamma(0.5, 3.841 / 2), 0.05, 1e-4);    // 1 degree of freedom
  EXPECT_NEAR(UpperGamma(7.5, 24.996 / 2), 0.05, 1e-4);   // 15
  EXPECT_NEAR(UpperGamma(31.5, 82.529 / 2), 0.05, 1e-4);  // 63
  EXPECT_NEAR(UpperGamma(7.5, 37.697 / 2), 0.001, 1e-5);
  EXPECT_NEAR(UpperGamma(1, 20), std::exp(-20), 1e-12);
  EXPECT_EQ(TestFit(std::vector<int64_t>{5, 1}, std::vector<double>{1, 0}).p_value, 0);
}

// ---------------------------------------------------------------- one position

constexpr int32_t kVocab = 16;
constexpr int64_t kDraws = 200'000;

std::vector<float> SteepLogits() {
  std::vector<float> logits;
  for (int i = 0; i < kVocab; ++i) logits.push_back(static_cast<float>(-0.35 * i + 0.2 * (i % 3)));
  return logits;
}

// A draft that ranks the words the other way round: most drafts are refused, so corrections count.
struct OnePosition {
  explicit OnePosition(double temperature) {
    std::vector<float> logits = SteepLogits();
    exact = Softmax(logits, temperature);
    p = MakeDistribution(logits, AtTemperature(temperature));
    std::ranges::reverse(logits);
    q = MakeDistribution(logits, AtTemperature(temperature));
  }

  // Counts of the first committed token when `draft` says what is proposed and verified.
  std::vector<int64_t> Run(VerifyRule rule,
                           const std::function<void(NoiseKey, int64_t position, Tokens*,
                                                    std::vector<Distribution>*)>& draft) const {
    std::vector<int64_t> counts(kVocab);
    Tokens tokens;
    std::vector<Distribution> probs;
    for (int64_t i = 0; i < kDraws; ++i) {
      const NoiseKey noise{static_cast<uint64_t>(i), 0};
      const int64_t anchor = i % 50;
      tokens.clear();
      probs.clear();
      draft(noise, anchor + 1, &tokens, &probs);
      const Verdict v = Verify(
          rule, {tokens, probs, [&](int32_t) -> const Distribution& { return p; }, noise, anchor});
      ++counts[static_cast<size_t>(v.accepted > 0 ? tokens[0] : v.next_token)];
    }
    return counts;
  }

  std::vector<double> exact;
  Distribution p, q;
};

TEST(VerifierDistribution, OnePosition) {
  for (double temperature : {0.6, 1.0, 1.5}) {
    const OnePosition t(temperature);
    const auto stochastic = [&](NoisePurpose purpose) {
      return [&t, purpose](NoiseKey noise, int64_t position, Tokens* tokens,
                           std::vector<Distribution>* probs) {
        const bool own = purpose == NoisePurpose::kDraftGumbel;
        tokens->push_back(
            SampleWithNoise(t.q, noise, own ? RoundPosition(position - 1, 0) : position, purpose));
        probs->push_back(t.q);
      };
    };
    const auto one_hot = [](int32_t token) {
      return [token](NoiseKey, int64_t, Tokens* tokens, std::vector<Distribution>*) {
        tokens->push_back(token);
      };
    };
    const std::string at = " at temperature " + std::to_string(temperature);
    const auto expect = [&](VerifyRule rule, const auto& draft, const std::string& what) {
      ExpectFits(t.Run(rule, draft), t.exact, what + at);
    };
    expect(VerifyRule::kRejection, stochastic(NoisePurpose::kDraftGumbel), "rejection, stochastic");
    expect(VerifyRule::kBlock, stochastic(NoisePurpose::kDraftGumbel), "block, stochastic");
    expect(VerifyRule::kBlock, one_hot(0), "block, one-hot");
    expect(VerifyRule::kRejection, one_hot(kVocab - 1), "rejection, one-hot, unlikely");
    expect(VerifyRule::kRejection, one_hot(0), "rejection, one-hot, likely");
    expect(VerifyRule::kRejection, one_hot(99), "rejection, outside the vocabulary");
    expect(VerifyRule::kMatch, stochastic(NoisePurpose::kTargetGumbel), "match, coupled");
    expect(VerifyRule::kMatch, stochastic(NoisePurpose::kDraftGumbel), "match, independent");
    expect(VerifyRule::kMatch, one_hot(0), "match, one-hot");
  }
}

TEST(VerifierDistribution, ADraftInTheNoiseOfTheResidualIsSeen) {
  const OnePosition t(1.0);
  ExpectMisfits(
      t.Run(
          VerifyRule::kRejection,
          [&](NoiseKey noise, int64_t position, Tokens* tokens, std::vector<Distribution>* probs) {
            tokens->push_back(SampleWithNoise(t.q, noise, position, NoisePurpose::kResidual));
            probs->push_back(t.q);
          }),
      t.exact);
}

TEST(VerifierDistribution, StoppingAtAnUnlikelySampledTokenIsSeen) {
  const OnePosition t(1.0);
  ExpectMisfits(
      t.Run(
          VerifyRule::kRejection,
          [&](NoiseKey noise, int64_t position, Tokens* tokens, std::vector<Distribution>* probs) {
            const int32_t x = SampleWithNoise(t.q, noise, position, NoisePurpose::kDraftGumbel);
            if (t.q.Prob(x) < 0.1f) return;  // looks at the token itself
            tokens->push_back(x);
            probs->push_back(t.q);
          }),
      t.exact);
}

// The counterexample of DSpark's appendix A: a global search verifies two tokens or none, according
// to a confidence that depends on the first token.
TEST(VerifierDistribution, AnAnticipatingSearchIsSeen) {
  const Distribution p{{0, 1}, {0.7f, 0.3f}}, q{{0, 1}, {0.5f, 0.5f}};
  const auto best_length = [](double c1, double c2) {
    const double sps[] = {1.0, 0.5, 0.45};
    const double tau[] = {1, 1 + c1, 1 + c1 + c1 * c2};
    int32_t best = 0;
    for (int32_t l = 1; l <= 2; ++l) {
      if (tau[l] * sps[l] > tau[best] * sps[best]) best = l;
    }
    return best;
  };
  constexpr int64_t kTrials = 20'000;
  std::vector<int64_t> counts(2);
  for (int64_t i = 0; i < kTrials; ++i) {
    const NoiseKey noise{static_cast<uint64_t>(i), 0};
    Tokens tokens;
    for (int64_t position : {1, 2}) {
      tokens.push_back(SampleWithNoise(q, noise, position, NoisePurpose::kDraftGumbel));
    }
    const std::vector<Distribution> probs(2, q);
    const auto length = static_cast<size_t>(best_length(0.8, tokens[0] == 0 ? 0.9 : 0.0));
    const Verdict v = Verify(VerifyRule::kRejection,
                             {std::span(tokens).first(length), std::span(probs).first(length),
                              [&](int32_t) -> const Distribution& { return p; }, noise, 0});
    ++counts[static_cast<size_t>(v.accepted > 0 ? tokens[0] : v.next_token)];
  }
  ExpectMisfits(counts, std::vector<double>{0.7, 0.3});
  EXPECT_NEAR(static_cast<double>(counts[0]) / kTrials, 0.85, 0.0125);  // 5 standard errors
}

TEST(VerifierDistribution, AcceptanceHasItsFormulas) {
  const std::vector<double> p{0.5, 0.25, 0.15, 0.1}, q{0.3, 0.165, 0.3, 0.235};
  double tv = 0, coupled = 0;
  std::vector<float> log_p, log_q;
  for (size_t i = 0; i < 4; ++i) {
    tv += std::abs(p[i] - q[i]) / 2;
    log_p.push_back(static_cast<float>(std::log(p[i])));
    log_q.push_back(static_cast<float>(std::log(q[i])));
    double sum = 0;
    for (size_t j = 0; j < 4; ++j) sum += std::max(p[j] / p[i], q[j] / q[i]);
    coupled += 1 / sum;
  }
  ASSERT_NEAR(tv, 0.285, 1e-9);
  const Distribution dp = MakeDistribution(log_p, AtTemperature(1));
  const std::vector<Distribution> dq{MakeDistribution(log_q, AtTemperature(1))};
  const auto acceptance = [&](VerifyRule rule, NoisePurpose purpose) {
    int64_t accepted = 0;
    for (int64_t i = 0; i < kDraws; ++i) {
      const NoiseKey noise{static_cast<uint64_t>(i), 1};
      const Tokens tokens{SampleWithNoise(dq[0], noise, 1, purpose)};
      accepted +=
          Verify(rule, {tokens, dq, [&](int32_t) -> const Distribution& { return dp; }, noise, 0})
              .accepted;
    }
    return static_cast<double>(accepted) / kDraws;
  };
  constexpr double kTolerance = 0.0055;  // 5 standard errors
  EXPECT_NEAR(acceptance(VerifyRule::kRejection, NoisePurpose::kDraftGumbel), 1 - tv, kTolerance);
  const double match = acceptance(VerifyRule::kMatch, NoisePurpose::kTargetGumbel);
  EXPECT_NEAR(match, coupled, kTolerance);
  EXPECT_GE(match, (1 - tv) / (1 + tv));
  double independent = 0;
  for (size_t i = 0; i < 4; ++i) independent += p[i] * q[i];
  EXPECT_NEAR(acceptance(VerifyRule::kMatch, NoisePurpose::kDraftGumbel), independent, kTolerance);
  // One-hot: both rules accept with p(x), because there is no noise to share.
  int64_t by_rule[2] = {0, 0};
  for (int64_t i = 0; i < kDraws; ++i) {
    for (VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection}) {
      by_rule[rule == VerifyRule::kMatch] +=
          Verify(rule, {Tokens{1},
                        {},
                        [&](int32_t) -> const Distribution& { return dp; },
                        {static_cast<uint64_t>(i), 2},
                        0})
              .accepted;
    }
  }
  for (int64_t accepted : by_rule) EXPECT_NEAR(accepted / double{kDraws}, p[1], kTolerance);
}

// ---------------------------------------------------------------- whole generations

// The processed distribution by its definition, in double precision and with full sorts.
std::vector<double> ExactProcessed(std::span<const float> raw, const Tokens& prompt,
                                   const Tokens& output, const SamplingParams& params) {
  const size_t n = raw.size();
  std::vector<double> l(raw.begin(), raw.end());
  for (const auto& [token, bias] : params.logit_bias) l[static_cast<size_t>(token)] += bias;
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<int32_t>(i);
    const auto count = std::ranges::count(output, id);
    if (count > 0 || std::ranges::count(prompt, id) > 0) {
      l[i] = l[i] > 0 ? l[i] / params.repetition_penalty : l[i] * params.repetition_penalty;
    }
    l[i] -= params.frequency_penalty * static_cast<double>(count);
    if (count > 0) l[i] -= params.presence_penalty;
  }
  std::vector<double> w(n);
  const double max = *std::ranges::max_element(l);
  for (size_t i = 0; i < n; ++i) w[i] = std::exp((l[i] - max) / params.temperature);
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return w[a] > w[b]; });
  std::erase_if(order, [&](size_t i) { return w[i] < params.min_p; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  double total = 0;
  for (size_t i : order) total += w[i];
  std::vector<double> p(n);
  double kept = 0;
  for (size_t i : order) {
    p[i] = w[i];
    kept += w[i];
    if (kept >= params.top_p * total) break;
  }
  for (double& x : p) x /= kept;
  return p;
}

// Probability of every sequence of `count` tokens, first token most significant.
std::vector<double> ExactJoint(const Generation& g, int32_t count) {
  std::vector<double> joint{1};
  std::vector<Tokens> outputs{{}};
  for (int32_t step = 0; step < count; ++step) {
    std::vector<double> longer;
    std::vector<Tokens> longer_outputs;
    for (size_t i = 0; i < joint.size(); ++i) {
      Tokens context = g.prompt;
      context.insert(context.end(), outputs[i].begin(), outputs[i].end());
      const auto p = ExactProcessed(g.target.Logits(context), g.prompt, outputs[i], g.params);
      for (size_t t = 0; t < p.size(); ++t) {
        longer.push_back(joint[i] * p[t]);
        longer_outputs.push_back(outputs[i]);
        longer_outputs.back().push_back(static_cast<int32_t>(t));
      }
    }
    joint = std::move(longer);
    outputs = std::move(longer_outputs);
  }
  return joint;
}

std::vector<int64_t> CountJoint(const Generation& g, int32_t count, int64_t draws,
                                const Proposer& propose) {
  std::vector<int64_t> counts(static_cast<size_t>(std::pow(g.target.vocab(), count) + 0.5));
  for (int64_t i = 0; i < draws; ++i) {
    size_t cell = 0;
    for (int32_t token : g.Run({static_cast<uint64_t>(i), 0}, count, propose)) {
      cell = cell * static_cast<size_t>(g.target.vocab()) + static_cast<size_t>(token);
    }
    ++counts[cell];
  }
  return counts;
}

TEST(VerifierDistribution, JointOverRounds) {
  const ToyModel target(4, 1), drafter(4, 2);
  constexpr int64_t kTrials = 150'000;
  const auto expect = [&](VerifyRule rule, NoisePurpose purpose, bool one_hot, double threshold,
                          const std::string& what) {
    const Generation g{target, AtTemperature(1), rule, 3, threshold};
    ExpectFits(CountJoint(g, 3, kTrials, ChainOf(drafter, 1, purpose, one_hot)), ExactJoint(g, 3),
               what);
  };
  expect(VerifyRule::kRejection, NoisePurpose::kDraftGumbel, false, 0, "rejection, stochastic");
  expect(VerifyRule::kBlock, NoisePurpose::kDraftGumbel, false, 0, "block, stochastic");
  expect(VerifyRule::kBlock, NoisePurpose::kDraftGumbel, false, 0.45,
         "block, trimmed by confidences before the token");
  expect(VerifyRule::kRejection, NoisePurpose::kDraftGumbel, true, 0, "rejection, one-hot");
  expect(VerifyRule::kMatch, NoisePurpose::kTargetGumbel, false, 0, "match, coupled");
  expect(VerifyRule::kMatch, NoisePurpose::kTargetGumbel, true, 0, "match, one-hot");
  expect(VerifyRule::kRejection, NoisePurpose::kDraftGumbel, false, 0.45,
         "rejection, trimmed by confidences before the token");

  // Rounds of both rules in one request.
  const Proposer one_hot = ChainOf(drafter, 1, NoisePurpose::kDraftGumbel, true);
  const Proposer stochastic = ChainOf(drafter, 1, NoisePurpose::kDraftGumbel, false);
  for (size_t odd : {0, 1}) {
    const auto alternate = [&](std::span<const int32_t> context, NoiseKey noise, int64_t position,
                               int32_t) {
      const bool match = context.size() % 2 == odd;
      return (match ? one_hot : stochastic)(context, noise, position, match ? 1 : 2);
    };
    const Generation g{target, AtTemperature(1), VerifyRule::kByDraft, 3, 0};
    ExpectFits(CountJoint(g, 3, kTrials, alternate), ExactJoint(g, 3), "by draft, alternating");
  }
}

// What one round of block verification lets decide how far it gets must not be drawn again by the
// next: noise by absolute position is.
TEST(VerifierDistribution, DraftNoiseThatComesAgainIsSeenUnderTheBlockRule) {
  const ToyModel target(4, 1), drafter(4, 2);
  const Proposer again = [&](std::span<const int32_t> context, NoiseKey noise, int64_t position,
                             int32_t max_tokens) {
    Draft draft;
    Tokens text(context.begin(), context.end());
    for (int32_t k = 0; k < max_tokens; ++k) {
      draft.probs.push_back(MakeDistribution(drafter.Logits(text), AtTemperature(1)));
      draft.tokens.push_back(
          SampleWithNoise(draft.probs.back(), noise, position + k, NoisePurpose::kDraftGumbel));
      text.push_back(draft.tokens.back());
    }
    return draft;
  };
  const Generation g{target, AtTemperature(1), VerifyRule::kBlock, 3};
  ExpectMisfits(CountJoint(g, 3, 600'000, again), ExactJoint(g, 3));
}

// Mean tokens of a first round.
TEST(VerifierDistribution, TheBlockRuleKeepsMore) {
  const ToyModel target(4, 1), drafter(4, 2);
  const Proposer propose = ChainOf(drafter, 1, NoisePurpose::kDraftGumbel, false);
  const Tokens prompt{0};
  const auto accepted = [&](VerifyRule rule) {
    int64_t sum = 0;
    for (int64_t i = 0; i < kDraws; ++i) {
      const NoiseKey noise{static_cast<uint64_t>(i), 0};
      const Draft draft = propose(prompt, noise, 1, 4);
      Distribution p;
      sum += Verify(rule, {draft.tokens, draft.probs,
                           [&](int32_t k) -> const Distribution& {
                             Tokens context = prompt;
                             context.insert(context.end(), draft.tokens.begin(),
                                            draft.tokens.begin() + k);
                             p = MakeDistribution(target.Logits(context), AtTemperature(1));
                             return p;
                           },
                           noise, 0})
                 .accepted;
    }
    return static_cast<double>(sum) / kDraws;
  };
  const double block = accepted(VerifyRule::kBlock), token = accepted(VerifyRule::kRejection);
  EXPECT_GT(block, token + 0.02) << "tokens kept per round by token: " << token;
}

TEST(VerifierDistribution, ProcessedTarget) {
  const ToyModel target(8, 3), drafter(8, 4);
  std::map<std::string, SamplingParams> cases;
  for (const char* name : {"top-k", "top-p", "min-p", "repetition", "bias", "penalties", "all"}) {
    cases[name] = AtTemperature(0.9);
  }
  cases["top-k"].top_k = cases["all"].top_k = 3;
  cases["top-p"].top_p = cases["all"].top_p = 0.8;
  cases["min-p"].min_p = cases["all"].min_p = 0.1;
  cases["repetition"].repetition_penalty = cases["all"].repetition_penalty = 1.3;
  cases["bias"].logit_bias = cases["all"].logit_bias = {{2, 1.5f}, {5, -2.0f}};
  cases["penalties"].presence_penalty = cases["all"].presence_penalty = 0.8;
  cases["penalties"].frequency_penalty = cases["all"].frequency_penalty = 0.6;
  for (const auto& [name, params] : cases) {
    for (VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock, VerifyRule::kMatch}) {
      const Generation g{target, params, rule, 2, 0, {1, 3}};
      const NoisePurpose purpose =
          rule == VerifyRule::kMatch ? NoisePurpose::kTargetGumbel : NoisePurpose::kDraftGumbel;
      // The draft knows the temperature and nothing of the rest.
      ExpectFits(CountJoint(g, 2, 40'000, ChainOf(drafter, 0.9, purpose, false)), ExactJoint(g, 2),
                 name + (rule == VerifyRule::kMatch   ? ", match"
                         : rule == VerifyRule::kBlock ? ", block"
                                                      : ", rejection"));
    }
  }
}

// EOS with probability 0.2 wherever one stands; the draft thinks 0.5.
TEST(VerifierDistribution, LengthsAreGeometric) {
  constexpr int64_t kTrials = 60'000;
  constexpr int32_t kEos = 0, kLongest = 40;
  const std::vector<float> logits{std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  const std::vector<float> draft_logits{std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  const Distribution q = MakeDistribution(draft_logits, AtTemperature(1));
  for (VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock, VerifyRule::kMatch}) {
    for (int32_t min_tokens : {0, 3}) {
      SamplingParams params = AtTemperature(1);
      params.min_tokens = min_tokens;
      const NoisePurpose purpose =
          rule == VerifyRule::kMatch ? NoisePurpose::kTargetGumbel : NoisePurpose::kDraftGumbel;
      std::vector<int64_t> lengths(kLongest + 1);  // tokens before EOS
      for (int64_t i = 0; i < kTrials; ++i) {
        const NoiseKey noise{static_cast<uint64_t>(i), 0};
        LogitProcessor processor(params, {}, Tokens{kEos});
        Tokens output;
        bool ended = false;
        while (!ended && output.size() < kLongest) {
          const auto anchor = static_cast<int64_t>(output.size());
          Tokens draft;
          for (int64_t k = 1; k <= 4; ++k) {
            const bool own = purpose == NoisePurpose::kDraftGumbel;
            const int64_t place =
                own ? RoundPosition(anchor, static_cast<int32_t>(k) - 1) : anchor + k;
            draft.push_back(SampleWithNoise(q, noise, place, purpose));
          }
          Distribution p;
          const std::vector<Distribution> probs(4, q);
          const Verdict v = Verify(
              rule, {draft, probs,
                     [&](int32_t k) -> const Distribution& {
                       std::vector<float> row = logits;
                       processor.Process(std::span(draft).first(static_cast<size_t>(k)), row);
                       p = MakeDistribution(row, params);
                       return p;
                     },
                     noise, anchor});
          draft.resize(static_cast<size_t>(v.accepted));
          draft.push_back(v.next_token);
          for (int32_t token : draft) {
            if (ended || output.size() == kLongest) break;
            processor.Commit(token);
            if (token == kEos) {
              ended = true;  // what was accepted behind it is dropped
            } else {
              output.push_back(token);
            }
          }
        }
        ++lengths[output.size()];
      }
      std::vector<double> exact(kLongest + 1);
      double alive = 1;
      for (int32_t n = 0; n < kLongest; ++n) {
        const double end = n < min_tokens ? 0 : 0.2;
        exact[static_cast<size_t>(n)] = alive * end;
        alive *= 1 - end;
      }
      exact[kLongest] = alive;
      ExpectFits(lengths, exact, "min_tokens " + std::to_string(min_tokens));
    }
  }
}

}  // namespace
}  // namespace firesteel
