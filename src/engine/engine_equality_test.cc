// Same tokens, whatever the engine does to get them: every way of drafting, batching, chunking,
// caching and preempting gives what plain decoding gives.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int32_t kVocab = 48;

// The requests of one run: short, long, greedy, seeded, with penalties, with an end token on the
// way.
struct Asked {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

std::vector<Asked> Requests(int32_t count) {
  std::vector<Asked> requests;
  for (int32_t i = 0; i < count; ++i) {
    SamplingParams sampling;
    sampling.max_tokens = 1 + i * 7 % 40;
    sampling.temperature = i % 3 == 0 ? 0.0 : 0.8;
    sampling.seed = 1000 + i;
    sampling.choice = i % 2;
    if (i % 4 == 1) sampling.top_k = 5;
    if (i % 5 == 2) sampling.repetition_penalty = 1.3;
    if (i % 5 == 3) sampling.frequency_penalty = 0.7;
    if (i % 7 == 4) sampling.logit_bias = {{3, 2.0f}, {5, -4.0f}};
    sampling.ignore_eos = i % 3 == 1;
    if (i % 6 == 5) sampling.min_tokens = std::min(10, sampling.max_tokens);
    // Two of three share a beginning, so that the prefix cache has something to find.
    std::vector<int32_t> prompt = MakePrompt(i % 3 == 2 ? 50 + i : 1, 40, kVocab);
    for (int32_t token : MakePrompt(90 + i, 1 + i * 5 % 60, kVocab)) prompt.push_back(token);
    requests.push_back({prompt, sampling});
  }
  return requests;
}

TestConfig Config() {
  TestConfig config;
  config.model.vocab_size = kVocab;
  config.model.eos_ids = {7, 11};
  return config;
}

void ExpectPlainTokens(TestEngine* engine, int32_t count, int32_t max_model_len) {
  const std::vector<Asked> requests = Requests(count);
  for (const Asked& asked : requests) engine->Submit(asked.prompt, asked.sampling);
  engine->RunAll();
  engine->ExpectAllEnded();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(engine->outcome(i).tokens,
              PlainTokens(engine->model(), requests[i].prompt, requests[i].sampling, max_model_len))
        << "request " << i;
  }
}

class EveryDraft : public testing::TestWithParam<FakeDraftKind> {};

TEST_P(EveryDraft, SameTokensAcrossSettings) {
  for (int32_t spec_tokens : {1, 3, 7}) {
    for (int32_t concurrency : {1, 7, 16}) {
      for (int32_t budget : {16, 64}) {
        for (int32_t block_size : {16, 64}) {
          SCOPED_TRACE(testing::Message() << "spec " << spec_tokens << " seqs " << concurrency
                                          << " budget " << budget << " block " << block_size);
          TestConfig config = Config();
          config.drafter.kind = GetParam();
          config.drafter.max_tokens = 8;
          config.options.speculation.tokens = spec_tokens;
          config.options.max_num_seqs = concurrency;
          config.options.max_num_batched_tokens = std::max(budget, concurrency);
          config.options.block_size = block_size;
          config.threads = concurrency == 7 && budget == 16 ? 2 : 1;
          TestEngine engine(config);
          ExpectPlainTokens(&engine, 17, config.options.max_model_len);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryDraft, SameTokensUnderPreemption) {
  for (int32_t num_blocks : {9, 12, 17}) {
    for (bool prefix_caching : {false, true}) {
      SCOPED_TRACE(testing::Message() << num_blocks << " blocks, caching " << prefix_caching);
      TestConfig config = Config();
      config.drafter.kind = GetParam();
      config.drafter.max_tokens = 5;
      config.options.enable_prefix_caching = prefix_caching;
      config.num_blocks = num_blocks;
      TestEngine engine(config);
      ExpectPlainTokens(&engine, 17, config.options.max_model_len);
      if (num_blocks == 9) {
        EXPECT_GT(engine.engine().Stats().preemptions, 0);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(EveryDraft, SameTokensFromAWarmCache) {
  TestConfig config = Config();
  config.drafter.kind = GetParam();
  config.drafter.max_tokens = 4;
  TestEngine engine(config);
  ExpectPlainTokens(&engine, 9, config.options.max_model_len);
  const std::vector<Asked> requests = Requests(9);
  for (const Asked& asked : requests) engine.Submit(asked.prompt, asked.sampling);
  engine.RunAll();
  engine.ExpectAllEnded();
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(engine.outcome(9 + i).tokens, engine.outcome(i).tokens);
    EXPECT_EQ(engine.outcome(9 + i).usage.cached_tokens,
              (static_cast<int32_t>(requests[i].prompt.size()) - 1) / 16 * 16);
  }
}

std::string KindName(const testing::TestParamInfo<FakeDraftKind>& info) {
  switch (info.param) {
    case FakeDraftKind::kRight:
      return "Right";
    case FakeDraftKind::kWrong:
      return "Wrong";
    case FakeDraftKind::kMixed:
      return "Mixed";
    case FakeDraftKind::kRandom:
      return "Random";
    case FakeDraftKind::kOutOfVocab:
      return "OutOfVocab";
    case FakeDraftKind::kTooLong:
      return "TooLong";
    case FakeDraftKind::kEmpty:
      return "Empty";
    case FakeDraftKind::kEosOnly:
      return "EosOnly";
    case FakeDraftKind::kStochastic:
      return "Stochastic";
    case FakeDraftKind::kTree:
      return "Tree";
    case FakeDraftKind::kLyingTree:
      return "LyingTree";
  }
  return "Unknown";
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryDraft,
                         testing::Values(FakeDraftKind::kRight, FakeDraftKind::kWrong,
                                         FakeDraftKind::kMixed, FakeDraftKind::kRandom,
                                         FakeDraftKind::kOutOfVocab, FakeDraftKind::kTooLong,
                                         FakeDraftKind::kEmpty, FakeDraftKind::kEosOnly,
                                         FakeDraftKind::kStochastic, FakeDraftKind::kTree,
                                         FakeDraftKind::kLyingTree),
                         KindName);

TEST(EngineEquality, RightDraftsSaveSteps) {
  TestConfig config = Config();
  config.drafter.max_tokens = 4;
  TestEngine engine(config);
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 41;
  sampling.ignore_eos = true;
  engine.Submit(MakePrompt(1, 10, kVocab), sampling);
  engine.RunAll();
  // One prefill, then 40 tokens of which each round brings five.
  EXPECT_EQ(engine.engine().Stats().steps, 1 + 8);
  EXPECT_EQ(engine.outcome(0).usage.speculation.accepted, 32);
}

TEST(EngineEquality, SeededDraftsShareTheTargetsNoise) {
  TestConfig config = Config();
  config.drafter.max_tokens = 4;
  TestEngine engine(config);
  SamplingParams sampling;
  sampling.seed = 3;
  sampling.max_tokens = 41;
  sampling.ignore_eos = true;
  engine.Submit(MakePrompt(1, 10, kVocab), sampling);
  engine.RunAll();
  EXPECT_EQ(engine.outcome(0).usage.speculation.accepted,
            32);  // a draft from the same distribution is never refused
}

TEST(EngineEquality, RequestMayLimitOrRefuseDrafts) {
  for (int32_t wanted : {0, 2}) {
    TestConfig config = Config();
    config.drafter.max_tokens = 6;
    TestEngine engine(config);
    SamplingParams sampling;
    sampling.temperature = 0;
    sampling.max_tokens = 20;
    sampling.ignore_eos = true;
    sampling.spec_tokens = wanted;
    engine.Submit(MakePrompt(1, 10, kVocab), sampling);
    engine.RunAll();
    const EngineStats stats = engine.engine().Stats();
    EXPECT_EQ(stats.spec_accepted_per_position.size(), static_cast<size_t>(wanted));
    EXPECT_EQ(engine.drafter().num_proposals() > 0, wanted > 0);
  }
}

TEST(EngineEquality, EveryAcceptedCountLeavesTheCacheOfAFreshPrefill) {
  constexpr int32_t kDrafts = 5;
  for (int32_t accepted = 0; accepted <= kDrafts; ++accepted) {
    TestConfig config = Config();
    config.drafter.kind = FakeDraftKind::kMixed;
    config.drafter.max_tokens = kDrafts;
    config.drafter.right_count = [accepted](int64_t) { return accepted; };
    TestEngine engine(config);
    SamplingParams sampling;
    sampling.temperature = 0;
    sampling.max_tokens = 60;
    sampling.ignore_eos = true;
    const std::vector<int32_t> prompt = MakePrompt(3, 9, kVocab);
    const size_t request = engine.Submit(prompt, sampling);
    std::vector<int32_t> all = prompt;
    while (engine.engine().StepOnce()) {
      const Outcome& outcome = engine.outcome(request);
      if (outcome.finish) break;
      all.resize(prompt.size());
      all.insert(all.end(), outcome.tokens.begin(), outcome.tokens.end());
      const KvCache& cache = engine.engine().cache();
      ASSERT_EQ(cache.Length(0), static_cast<int64_t>(all.size()) - 1);
      for (int64_t p = 0; p < cache.Length(0); ++p) {
        const auto tokens = std::span<const int32_t>(all).first(static_cast<size_t>(p) + 1);
        ASSERT_EQ(LoadHash(cache, 0, 0, p), FakeModel::Hash(tokens)) << "position " << p;
      }
    }
    const auto& per_position = engine.outcome(request).usage.speculation.accepted_per_position;
    EXPECT_EQ(accepted == 0 ? 0 : per_position[static_cast<size_t>(accepted) - 1] > 0,
              accepted > 0);
    engine.ExpectAllEnded();
  }
}

TEST(EngineEquality, PlantedWrongAcceptChangesTheText) {
  TestConfig config = Config();
  config.drafter.kind = FakeDraftKind::kWrong;
  config.drafter.max_tokens = 3;
  config.options.plant_wrong_accepts = 1;
  TestEngine engine(config);
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 12;
  sampling.ignore_eos = true;
  const std::vector<int32_t> prompt = MakePrompt(1, 10, kVocab);
  engine.Submit(prompt, sampling);
  engine.RunAll();
  engine.ExpectAllEnded();
  const std::vector<int32_t> plain =
      PlainTokens(engine.model(), prompt, sampling, config.options.max_model_len);
  const std::vector<int32_t>& tokens = engine.outcome(0).tokens;
  EXPECT_EQ(tokens[0], plain[0]);  // the prefill's has no draft
  EXPECT_NE(tokens[1], plain[1]);
  // After one planted token the engine is honest again: the rest follows from what was kept.
  std::vector<int32_t> begun = prompt;
  begun.insert(begun.end(), tokens.begin(), tokens.begin() + 2);
  sampling.max_tokens = 10;
  EXPECT_EQ(std::vector<int32_t>(tokens.begin() + 2, tokens.end()),
            PlainTokens(engine.model(), begun, sampling, config.options.max_model_len));
}

TEST(EngineEquality, LogprobsDoNotDependOnDrafts) {
  std::vector<std::vector<TokenLogprob>> seen;
  for (FakeDraftKind kind : {FakeDraftKind::kEmpty, FakeDraftKind::kRight, FakeDraftKind::kMixed,
                             FakeDraftKind::kWrong}) {
    TestConfig config = Config();
    config.drafter.kind = kind;
    config.drafter.max_tokens = 4;
    TestEngine engine(config);
    SamplingParams sampling;
    sampling.seed = 5;
    sampling.max_tokens = 25;
    sampling.ignore_eos = true;
    sampling.repetition_penalty = 1.2;  // must not show in raw logprobs
    sampling.logprobs = 3;
    const std::vector<int32_t> prompt = MakePrompt(1, 10, kVocab);
    engine.Submit(prompt, sampling);
    engine.RunAll();
    const Outcome& outcome = engine.outcome(0);
    ASSERT_EQ(outcome.logprobs.size(), outcome.tokens.size());
    std::vector<int32_t> tokens = prompt;
    std::vector<float> logits(kVocab);
    for (size_t i = 0; i < outcome.tokens.size(); ++i) {
      engine.model().Logits(FakeModel::Hash(tokens), static_cast<int64_t>(tokens.size()), logits);
      const TokenLogprob expected = RawLogprob(logits, outcome.tokens[i], 3);
      ASSERT_EQ(outcome.logprobs[i].token, outcome.tokens[i]);
      ASSERT_EQ(outcome.logprobs[i].logprob, expected.logprob);
      ASSERT_EQ(outcome.logprobs[i].top, expected.top);
      tokens.push_back(outcome.tokens[i]);
    }
    seen.push_back(outcome.logprobs);
  }
  for (const auto& logprobs : seen) EXPECT_EQ(logprobs.size(), seen[0].size());
}

TEST(EngineEquality, DraftStateIsThereBehindAPrefixHit) {
  TestConfig config = Config();
  config.drafter.max_tokens = 4;
  TestEngine engine(config);
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 30;
  sampling.ignore_eos = true;
  for (int round = 0; round < 2; ++round) {
    engine.Submit(MakePrompt(1, 65, kVocab), sampling);
    engine.RunAll();
  }
  engine.ExpectAllEnded();  // the drafter compares what it finds with what it should have written
  EXPECT_EQ(engine.outcome(1).usage.cached_tokens, 64);
  EXPECT_EQ(engine.outcome(1).usage.speculation.accepted,
            engine.outcome(0).usage.speculation.accepted);
}

}  // namespace
}  // namespace firesteel
