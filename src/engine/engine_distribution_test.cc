// Unseeded requests follow the target's distribution exactly, through the whole engine: the joint
// of the first three tokens against the product of the target's own probabilities, chi-square.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/test_engine.h"
#include "sampling/distribution.h"

namespace firesteel {
namespace {

constexpr int32_t kVocab = 4;
constexpr int32_t kTokens = 3;
constexpr int32_t kCells = kVocab * kVocab * kVocab;
constexpr int32_t kRequests = 40'000;

// Probability of each of the 64 texts behind `prompt`.
std::vector<double> ExactJoint(const FakeModel& model, const std::vector<int32_t>& prompt,
                               const SamplingParams& sampling) {
  std::vector<double> joint(kCells);
  std::vector<float> logits(kVocab);
  for (int32_t cell = 0; cell < kCells; ++cell) {
    std::vector<int32_t> tokens = prompt;
    double p = 1;
    for (int32_t rest = cell, k = 0; k < kTokens; ++k, rest /= kVocab) {
      model.Logits(FakeModel::Hash(tokens), static_cast<int64_t>(tokens.size()), logits);
      p *= MakeDistribution(logits, sampling).Prob(rest % kVocab);
      tokens.push_back(rest % kVocab);
    }
    joint[static_cast<size_t>(cell)] = p;
  }
  return joint;
}

double ChiSquare(TestConfig config, const SamplingParams& sampling, int64_t* accepted) {
  config.model.vocab_size = kVocab;
  config.model.logit_spread = 2.5f;
  config.options.max_queue = kRequests;
  config.options.max_num_seqs = 64;
  config.options.max_num_batched_tokens = 512;
  const std::vector<int32_t> prompt = {1, 3, 0, 2, 2};
  std::vector<int64_t> counts(kCells, 0);
  TestEngine engine(config);
  for (int32_t i = 0; i < kRequests; ++i) {
    const auto submitted =
        engine.engine().Submit({.prompt = prompt, .sampling = sampling},
                               [&counts, cell = 0, scale = 1](TokenEvent event) mutable {
                                 for (int32_t token : event.tokens) {
                                   if (scale < kCells) cell += scale * token;
                                   scale *= kVocab;
                                 }
                                 if (event.finish) ++counts[static_cast<size_t>(cell)];
                               });
    EXPECT_TRUE(submitted.ok());
  }
  engine.RunAll();
  *accepted = engine.engine().Stats().spec_accepted;
  const std::vector<double> joint = ExactJoint(engine.model(), prompt, sampling);
  double chi = 0;
  for (size_t cell = 0; cell < kCells; ++cell) {
    const double expected = joint[cell] * kRequests;
    EXPECT_GT(expected, 5) << "cell " << cell;
    const double miss = static_cast<double>(counts[cell]) - expected;
    chi += miss * miss / expected;
  }
  return chi;
}

// 63 degrees of freedom; one chance in a million above this.
constexpr double kThreshold = 129.4;

SamplingParams Unseeded() {
  SamplingParams sampling;
  sampling.max_tokens = kTokens + 3;  // so that drafts are long at the counted ones
  sampling.ignore_eos = true;
  return sampling;
}

TEST(EngineDistribution, StochasticDraftsUnderRejection) {
  for (const char* verify : {"auto", "match", "rejection", "block"}) {
    TestConfig config;
    config.drafter.kind = FakeDraftKind::kStochastic;
    config.drafter.max_tokens = 3;
    config.options.speculation.verify = verify;
    int64_t accepted = 0;
    EXPECT_LT(ChiSquare(config, Unseeded(), &accepted), kThreshold) << verify;
    EXPECT_GT(accepted, kRequests / 4);
  }
}

TEST(EngineDistribution, TrimmingByConfidenceKeepsIt) {
  TestConfig config;
  config.drafter.kind = FakeDraftKind::kStochastic;
  config.drafter.max_tokens = 3;
  config.drafter.confidence = true;
  config.options.speculation.confidence_threshold = 0.5;
  int64_t accepted = 0;
  EXPECT_LT(ChiSquare(config, Unseeded(), &accepted), kThreshold);
  EXPECT_GT(accepted, 0);
}

TEST(EngineDistribution, TreesKeepIt) {
  for (const bool confidence : {false, true}) {
    TestConfig config;
    config.drafter.kind = FakeDraftKind::kTree;
    config.drafter.max_tokens = 8;
    config.drafter.max_depth = 3;
    config.drafter.confidence = confidence;
    config.options.speculation.tokens = 8;
    config.options.speculation.confidence_threshold = confidence ? 0.3 : 0;
    int64_t accepted = 0;
    EXPECT_LT(ChiSquare(config, Unseeded(), &accepted), kThreshold);
    EXPECT_GT(accepted, kRequests / 4);
  }
}

TEST(EngineDistribution, APlantedWrongAcceptIsSeen) {
  TestConfig config;
  config.drafter.kind = FakeDraftKind::kStochastic;
  config.drafter.max_tokens = 3;
  config.options.plant_wrong_accepts = kRequests / 10;
  int64_t accepted = 0;
  EXPECT_GT(ChiSquare(config, Unseeded(), &accepted), kThreshold);
}

}  // namespace
}  // namespace firesteel
