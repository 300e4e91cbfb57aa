// Arrivals, cancels and tiny pools at random: nothing is lost, nothing is told twice, every block
// comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/step_stats.h"
#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int32_t kVocab = 24;

struct Drawn {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  bool cancelled = false;
};

Drawn Draw(std::mt19937_64* random, int32_t capacity) {
  const auto pick = [random](int32_t lo, int32_t hi) {
    return std::uniform_int_distribution<int32_t>(lo, hi)(*random);
  };
  Drawn drawn;
  const int32_t length = pick(1, capacity - 1);
  drawn.prompt = MakePrompt(pick(0, 3), length, kVocab);
  drawn.sampling.max_tokens = pick(1, capacity - length);
  drawn.sampling.temperature = pick(0, 1);
  drawn.sampling.seed = pick(0, 1000);
  drawn.sampling.ignore_eos = pick(0, 1) == 1;
  drawn.sampling.spec_tokens = pick(-1, 5);
  return drawn;
}

void RunRandom(uint64_t seed, FakeDraftKind kind) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << " kind " << static_cast<int>(kind));
  std::mt19937_64 random(seed);
  const auto pick = [&random](int32_t lo, int32_t hi) {
    return std::uniform_int_distribution<int32_t>(lo, hi)(random);
  };
  TestConfig config;
  config.num_blocks = pick(4, 8);
  config.model.vocab_size = kVocab;
  config.model.eos_ids = {2};
  config.drafter.kind = kind;
  config.drafter.max_tokens = pick(0, 6);
  config.drafter.confidence = pick(0, 1) == 1;
  config.options.speculation.confidence_threshold = 0.01 * pick(0, 60);
  config.options.max_num_seqs = pick(1, 6);
  config.options.max_num_batched_tokens = config.options.max_num_seqs + pick(0, 40);
  config.options.max_model_len = config.num_blocks * 16 + pick(-8, 1);
  config.options.enable_prefix_caching = pick(0, 3) > 0;
  config.options.long_prefill_token_threshold = pick(1, 60);
  config.options.max_long_partial_prefills = pick(1, 2);
  TestEngine engine(config);
  std::vector<Drawn> asked;
  for (int32_t turn = 0; turn < 150; ++turn) {
    if (pick(0, 2) == 0 && asked.size() < 60) {
      asked.push_back(Draw(&random, config.options.max_model_len));
      engine.Submit(asked.back().prompt, asked.back().sampling);
    }
    if (pick(0, 9) == 0 && !asked.empty()) {
      const auto victim = static_cast<size_t>(pick(0, static_cast<int32_t>(asked.size()) - 1));
      asked[victim].cancelled = true;
      engine.engine().Cancel(engine.id(victim));
      if (pick(0, 3) == 0) engine.engine().Cancel(engine.id(victim));
    }
    if (pick(0, 20) == 0) engine.engine().Cancel(123456);
    if (pick(0, 30) == 0) engine.engine().ResetPrefixCache();
    engine.engine().StepOnce();
    engine.engine().CheckInvariants();
  }
  engine.RunAll();
  engine.ExpectAllEnded();
  // Every counter of the whole is the sum of what the requests were told.
  const EngineStats stats = engine.engine().Stats();
  EXPECT_EQ(stats.requests_finished_stop + stats.requests_finished_length +
                stats.requests_cancelled + stats.requests_failed,
            static_cast<int64_t>(asked.size()));
  int64_t drafted = 0, verified = 0, accepted = 0, rounds = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const SpeculationUsage& usage = engine.outcome(i).usage.speculation;
    drafted += usage.drafted;
    verified += usage.verified;
    accepted += usage.accepted;
    rounds += usage.rounds;
  }
  EXPECT_EQ(stats.spec_drafted, drafted);
  EXPECT_EQ(stats.spec_verified, verified);
  EXPECT_EQ(stats.spec_accepted, accepted);
  EXPECT_EQ(stats.spec_rounds, rounds);
  // Out-of-vocabulary drafts are malformed, long ones above the limit, ends hide what follows.
  const bool lies = kind == FakeDraftKind::kLyingTree;
  EXPECT_TRUE(lies || kind == FakeDraftKind::kOutOfVocab || stats.spec_invalidated_malformed == 0);
  EXPECT_TRUE(lies || kind == FakeDraftKind::kTooLong || stats.spec_invalidated_limit == 0);
  // Nothing failed: every step has every phase, and all that was verified was verified in a round.
  EXPECT_EQ(NumObserved(stats.seconds_schedule), stats.steps);
  EXPECT_EQ(NumObserved(stats.seconds_forward), stats.steps);
  EXPECT_EQ(NumObserved(stats.seconds_sample), stats.steps);
  EXPECT_EQ(NumObserved(stats.seconds_observe), stats.steps);
  EXPECT_LE(NumObserved(stats.seconds_draft), stats.steps);
  EXPECT_EQ(NumObserved(stats.seconds_draft) > 0, stats.spec_drafted > 0);
  EXPECT_EQ(static_cast<int64_t>(stats.spec_verify_rows.sum),
            NumObserved(stats.spec_budget_rows) + stats.spec_verified);
  EXPECT_TRUE(engine.engine().ResetPrefixCache());
  EXPECT_EQ(engine.engine().Stats().kv_blocks_cached, 0);
  for (size_t i = 0; i < asked.size(); ++i) {
    const Outcome& outcome = engine.outcome(i);
    const std::vector<int32_t> plain = PlainTokens(engine.model(), asked[i].prompt,
                                                   asked[i].sampling, config.options.max_model_len);
    if (outcome.finish == FinishReason::kCancelled) {
      EXPECT_TRUE(asked[i].cancelled);
      ASSERT_LE(outcome.tokens.size(), plain.size());
      EXPECT_TRUE(std::equal(outcome.tokens.begin(), outcome.tokens.end(), plain.begin()));
    } else {
      EXPECT_EQ(outcome.tokens, plain) << "request " << i;
    }
  }
}

TEST(EngineRandom, NothingLostNothingTwice) {
  constexpr FakeDraftKind kKinds[] = {FakeDraftKind::kMixed,   FakeDraftKind::kRight,
                                      FakeDraftKind::kRandom,  FakeDraftKind::kOutOfVocab,
                                      FakeDraftKind::kTooLong, FakeDraftKind::kEosOnly,
                                      FakeDraftKind::kTree,    FakeDraftKind::kLyingTree};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RunRandom(seed, kKinds[seed % std::size(kKinds)]);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace firesteel
