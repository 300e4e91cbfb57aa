// Drafts that are trees, through the whole engine with the fake model: the same text, the cache of
// a fresh prefill after every accepted depth, no block lost, nobody preempted for them.
#include <gtest/gtest.h>

#include <string>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int32_t kVocab = 48;
constexpr int32_t kNodes = 12;
constexpr int32_t kDepth = 4;

TestConfig Config(FakeDraftKind kind = FakeDraftKind::kTree) {
  TestConfig config;
  config.model.vocab_size = kVocab;
  config.drafter.kind = kind;
  config.drafter.max_tokens = kNodes;
  config.drafter.max_depth = kDepth;
  config.options.speculation.tokens = kNodes;
  return config;
}

SamplingParams Greedy(int32_t max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  return sampling;
}

// Steps a request to its end; after every step each valid row must be that of its prefix. Returns
// what was wrong, "" if nothing.
std::string WrongRow(TestEngine* engine, const std::vector<int32_t>& prompt, size_t request) {
  while (engine->engine().StepOnce()) {
    const Outcome& outcome = engine->outcome(request);
    if (outcome.finish) break;
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), outcome.tokens.begin(), outcome.tokens.end());
    const KvCache& cache = engine->engine().cache();
    cache.CheckInvariants();
    if (cache.Length(0) != static_cast<int64_t>(all.size()) - 1) return "the length";
    for (int64_t p = 0; p < cache.Length(0); ++p) {
      const auto tokens = std::span<const int32_t>(all).first(static_cast<size_t>(p) + 1);
      if (LoadHash(cache, 0, 0, p) != FakeModel::Hash(tokens)) {
        return "position " + std::to_string(p) + " of " + std::to_string(cache.Length(0));
      }
    }
  }
  return engine->drafter().complaint();
}

TEST(EngineTree, EveryAcceptedDepthLeavesTheCacheOfAFreshPrefill) {
  for (int32_t block_size : {16, 32}) {
    for (bool prefix_caching : {false, true}) {
      for (int32_t accepted = 0; accepted <= kDepth; ++accepted) {
        SCOPED_TRACE(testing::Message() << "block " << block_size << " caching " << prefix_caching
                                        << " accepted " << accepted);
        TestConfig config = Config();
        config.options.block_size = block_size;
        config.options.enable_prefix_caching = prefix_caching;
        config.drafter.right_count = [accepted](int64_t) { return accepted; };
        TestEngine engine(config);
        const std::vector<int32_t> prompt = MakePrompt(3, 9, kVocab);
        const size_t request = engine.Submit(prompt, Greedy(100));
        EXPECT_EQ(WrongRow(&engine, prompt, request), "");
        engine.ExpectAllEnded();
        EXPECT_EQ(engine.outcome(0).tokens, PlainTokens(engine.model(), prompt, Greedy(100), 1024));
        const EngineStats stats = engine.engine().Stats();
        // The last rounds reach the end of the request and are shallower.
        for (int32_t k = 0; k < kDepth; ++k) {
          EXPECT_EQ(stats.spec_accepted_per_position[static_cast<size_t>(k)] > 0, k < accepted);
        }
        EXPECT_GE(stats.spec_accepted, accepted * (stats.spec_rounds - 2));
        EXPECT_LE(stats.spec_accepted, accepted * stats.spec_rounds);
        EXPECT_GT(stats.spec_rounds_per_length[kNodes], 10);
      }
    }
  }
}

TEST(EngineTree, KeepingAnotherBranchIsSeen) {
  for (int32_t accepted = 1; accepted <= kDepth; ++accepted) {
    TestConfig config = Config();
    config.drafter.right_count = [accepted](int64_t) { return accepted; };
    config.plant_wrong_branch = true;
    TestEngine engine(config);
    const std::vector<int32_t> prompt = MakePrompt(3, 9, kVocab);
    const size_t request = engine.Submit(prompt, Greedy(100));
    EXPECT_NE(WrongRow(&engine, prompt, request), "") << "a planted fault went unseen";
    engine.RunAll();
    EXPECT_NE(engine.outcome(0).tokens, PlainTokens(engine.model(), prompt, Greedy(100), 1024))
        << accepted << " accepted: the wrong rows did not show in the text";
  }
}

TEST(EngineTree, PositionsCountLevelsAndRoundsCountNodes) {
  TestConfig config = Config();
  config.drafter.right_count = [](int64_t) { return 3; };
  TestEngine engine(config);
  engine.Submit(MakePrompt(1, 10, kVocab), Greedy(41));
  engine.RunAll();
  engine.ExpectAllEnded();
  const EngineStats stats = engine.engine().Stats();
  // One token of the prefill, then four a round.
  EXPECT_EQ(stats.spec_rounds, 10);
  EXPECT_EQ(stats.spec_rounds_per_length.size(), static_cast<size_t>(kNodes) + 1);
  EXPECT_EQ(stats.spec_rounds_per_length[kNodes], 10);
  EXPECT_EQ(stats.spec_verified, 10 * kNodes);
  EXPECT_EQ(stats.spec_accepted, 30);
  ASSERT_EQ(stats.spec_accepted_per_position.size(), static_cast<size_t>(kDepth));
  EXPECT_EQ(stats.spec_accepted_per_position, (std::vector<int64_t>{10, 10, 10, 0}));
  EXPECT_EQ(stats.spec_reached_per_position[2], 10);
  EXPECT_LE(stats.spec_reached_per_position[3], 10);
  EXPECT_EQ(static_cast<int64_t>(stats.spec_verify_rows.sum), 1 + 10 * (1 + kNodes));
  const SpeculationUsage& usage = engine.outcome(0).usage.speculation;
  EXPECT_EQ(usage.accepted_per_position, (std::vector<int64_t>{10, 10, 10, 0}));
  EXPECT_EQ(usage.verified, 10 * kNodes);
}

TEST(EngineTree, ARequestMayAskForFewerNodesAndTheEndLimitsLevels) {
  for (int32_t wanted : {1, 2, 5}) {
    TestConfig config = Config();
    TestEngine engine(config);
    SamplingParams sampling = Greedy(20);
    sampling.spec_tokens = wanted;
    engine.Submit(MakePrompt(1, 10, kVocab), sampling);
    engine.Submit(MakePrompt(2, 10, kVocab), Greedy(2));  // the last token has no room for a draft
    engine.RunAll();
    engine.ExpectAllEnded();
    const EngineStats stats = engine.engine().Stats();
    EXPECT_EQ(stats.spec_rounds_per_length.size(), static_cast<size_t>(wanted) + 1);
    EXPECT_LE(stats.spec_accepted_per_position.size(),
              static_cast<size_t>(std::min(wanted, kDepth)));
    EXPECT_EQ(engine.outcome(1).usage.speculation.drafted, 0);
    EXPECT_EQ(stats.spec_cut_by_stop, 0);
  }
}

// As many blocks as plain decoding needs and none besides: trees are cut, nobody is preempted.
TEST(EngineTree, GivesUpBranchesWhereBlocksAreShort) {
  for (bool prefix_caching : {false, true}) {
    for (int32_t spare : {0, 1, 3}) {
      SCOPED_TRACE(testing::Message() << spare << " spare, caching " << prefix_caching);
      std::vector<std::vector<int32_t>> texts;
      for (int32_t max_tokens : {0, kNodes}) {
        TestConfig config = Config();
        config.options.enable_prefix_caching = prefix_caching;
        config.drafter.max_tokens = max_tokens;
        config.drafter.max_depth = max_tokens > 0 ? kDepth : 0;
        config.num_blocks = 10 + spare;  // two requests of five blocks
        TestEngine engine(config);
        for (uint64_t i = 0; i < 2; ++i) engine.Submit(MakePrompt(i, 20, kVocab), Greedy(61));
        engine.RunAll();
        engine.ExpectAllEnded();
        const EngineStats stats = engine.engine().Stats();
        EXPECT_EQ(stats.preemptions, 0);
        for (size_t i = 0; i < 2; ++i) texts.push_back(engine.outcome(i).tokens);
        if (max_tokens == 0) continue;
        EXPECT_GT(stats.spec_trimmed, 0);
        EXPECT_GT(stats.spec_verified, 0);
        EXPECT_EQ(texts[2], texts[0]);
        EXPECT_EQ(texts[3], texts[1]);
      }
    }
  }
}

TEST(EngineTree, LogprobsAreThoseOfTheDecidingRows) {
  for (FakeDraftKind kind : {FakeDraftKind::kTree, FakeDraftKind::kLyingTree}) {
    TestEngine engine(Config(kind));
    SamplingParams sampling = Greedy(40);
    sampling.temperature = 1;
    sampling.seed = 5;
    sampling.repetition_penalty = 1.2;  // must not show in raw logprobs
    sampling.logprobs = 3;
    const std::vector<int32_t> prompt = MakePrompt(1, 10, kVocab);
    engine.Submit(prompt, sampling);
    engine.RunAll();
    const Outcome& outcome = engine.outcome(0);
    EXPECT_GT(outcome.usage.speculation.accepted, 0);
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
  }
}

TEST(EngineTree, APlantedWrongAcceptChangesTheText) {
  TestConfig config = Config();
  config.drafter.right_count = [](int64_t) { return 0; };
  config.options.plant_wrong_accepts = 1;
  TestEngine engine(config);
  const std::vector<int32_t> prompt = MakePrompt(1, 10, kVocab);
  engine.Submit(prompt, Greedy(12));
  engine.RunAll();
  engine.ExpectAllEnded();
  const std::vector<int32_t> plain = PlainTokens(engine.model(), prompt, Greedy(12), 1024);
  EXPECT_EQ(engine.outcome(0).tokens[0], plain[0]);  // the prefill's has no draft
  EXPECT_NE(engine.outcome(0).tokens[1], plain[1]);
}

// Unseeded requests take trees by the match rule too, whatever the setting.
TEST(EngineTree, RejectionOrAutoMatchTrees) {
  for (const char* verify : {"auto", "rejection"}) {
    TestConfig config = Config();
    config.options.speculation.verify = verify;
    TestEngine engine(config);
    SamplingParams sampling = Greedy(60);
    sampling.temperature = 1;
    engine.Submit(MakePrompt(1, 10, kVocab), sampling);
    engine.RunAll();
    engine.ExpectAllEnded();
    EXPECT_EQ(engine.outcome(0).tokens.size(), 60u);
    EXPECT_GT(engine.engine().Stats().spec_accepted, 0);
  }
}

TEST(EngineTree, AFailedPassReturnsTheBranches) {
  for (bool in_observe : {false, true}) {
    TestConfig config = Config();
    int32_t calls = 0;
    const auto fail = [&calls] { return ++calls == 4 ? Internal("no") : Status(); };
    if (in_observe) {
      config.drafter.on_observe = fail;
    } else {
      config.model.on_forward = [fail](const ForwardBatch&) { return fail(); };
    }
    TestEngine engine(config);
    for (uint64_t i = 0; i < 3; ++i) engine.Submit(MakePrompt(i, 20, kVocab), Greedy(60));
    engine.RunAll();
    engine.ExpectAllEnded();
    EXPECT_EQ(engine.outcome(0).finish, FinishReason::kError);
    engine.Submit(MakePrompt(1, 20, kVocab), Greedy(30));
    engine.RunAll();
    EXPECT_EQ(engine.outcome(3).tokens,
              PlainTokens(engine.model(), MakePrompt(1, 20, kVocab), Greedy(30), 1024));
  }
}

}  // namespace
}  // namespace firesteel
