// Refusals, limits, errors on the way, and the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

using testing::HasSubstr;

constexpr int32_t kVocab = 40;

TestConfig Config() {
  TestConfig config;
  config.model.vocab_size = kVocab;
  config.drafter.max_tokens = 3;
  return config;
}

SamplingParams Greedy(int32_t max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  return sampling;
}

Status Refusal(TestEngine* engine, std::vector<int32_t> prompt, SamplingParams sampling) {
  return engine->engine()
      .Submit({.prompt = std::move(prompt), .sampling = std::move(sampling)},
              [](TokenEvent) { ADD_FAILURE() << "a refused request was told something"; })
      .status();
}

TEST(EngineLimits, RefusesWhatCanNeverRun) {
  TestConfig config = Config();
  config.options.max_model_len = 100;
  config.num_blocks = 4;
  TestEngine engine(config);
  Status status = Refusal(&engine, {}, Greedy(1));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("prompt"));
  status = Refusal(&engine, {1, 40}, Greedy(1));
  EXPECT_THAT(status.message(), HasSubstr("token 1 is 40"));
  status = Refusal(&engine, {-1}, Greedy(1));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  status = Refusal(&engine, MakePrompt(1, 100, kVocab), Greedy(1));
  EXPECT_THAT(status.message(), HasSubstr("at most 99"));
  status = Refusal(&engine, MakePrompt(1, 30, kVocab), Greedy(36));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("at most 65 tokens"));
  SamplingParams sampling = Greedy(1);
  sampling.stop = {"x"};
  EXPECT_THAT(Refusal(&engine, {1}, sampling).message(), HasSubstr("tokenizer"));
  sampling = Greedy(1);
  sampling.top_p = 2;
  EXPECT_EQ(Refusal(&engine, {1}, sampling).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(engine.engine().StepOnce());
}

TEST(EngineLimits, WhatJustFitsRuns) {
  TestConfig config = Config();
  config.options.max_model_len = 100;
  config.num_blocks = 4;
  TestEngine engine(config);
  engine.Submit(MakePrompt(1, 30, kVocab), Greedy(35));
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).tokens.size(), 35u);
}

TEST(EngineLimits, OneTokenAndTheEdgeOfTheContext) {
  TestConfig config = Config();
  config.options.max_model_len = 50;
  TestEngine engine(config);
  engine.Submit(MakePrompt(1, 20, kVocab), Greedy(1));
  engine.Submit(MakePrompt(2, 49, kVocab), Greedy(100));
  engine.Submit(MakePrompt(3, 47, kVocab), Greedy(100));
  engine.Submit({5}, Greedy(100));
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).tokens.size(), 1u);
  EXPECT_EQ(engine.outcome(1).tokens.size(), 1u);
  EXPECT_EQ(engine.outcome(2).tokens.size(), 3u);
  EXPECT_EQ(engine.outcome(3).tokens.size(), 49u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(engine.outcome(i).finish, FinishReason::kLength);
  EXPECT_EQ(engine.engine().Stats().requests_finished_length, 4);
}

TEST(EngineLimits, AFullQueueSaysSo) {
  TestConfig config = Config();
  config.options.max_queue = 2;
  config.options.max_num_seqs = 1;
  TestEngine engine(config);
  engine.Submit({1}, Greedy(5));
  engine.Submit({1}, Greedy(5));
  const Status status = Refusal(&engine, {1}, Greedy(5));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("2"));
  engine.engine().StepOnce();  // one runs now, one waits
  engine.Submit({1}, Greedy(5));
  EXPECT_EQ(Refusal(&engine, {1}, Greedy(5)).code(), StatusCode::kResourceExhausted);
  engine.RunAll();
  engine.ExpectAllEnded();
}

TEST(EngineLimits, CancelWaitingRunningAndUnseen) {
  TestConfig config = Config();
  config.options.max_num_seqs = 1;
  TestEngine engine(config);
  const size_t running = engine.Submit({1, 2}, Greedy(50));
  const size_t waiting = engine.Submit({1, 2}, Greedy(50));
  engine.engine().StepOnce();
  engine.engine().StepOnce();
  const size_t unseen = engine.Submit({1, 2}, Greedy(50));
  for (size_t i : {running, waiting, unseen}) engine.engine().Cancel(engine.id(i));
  engine.RunAll();
  engine.ExpectAllEnded();
  for (size_t i : {running, waiting, unseen}) {
    EXPECT_EQ(engine.outcome(i).finish, FinishReason::kCancelled);
  }
  EXPECT_GT(engine.outcome(running).tokens.size(), 0u);
  EXPECT_EQ(engine.engine().Stats().requests_cancelled, 3);
}

TEST(EngineLimits, ASinkMayCancel) {
  TestEngine engine(Config());
  Outcome outcome;
  RequestId id = 0;
  EventSink record = engine.SinkFor(&outcome);
  const Result<RequestId> submitted =
      engine.engine().Submit({.prompt = {1, 2}, .sampling = Greedy(50)}, [&](TokenEvent event) {
        if (!event.finish) engine.engine().Cancel(id);
        record(std::move(event));
      });
  ASSERT_TRUE(submitted.ok());
  id = *submitted;
  engine.RunAll();
  EXPECT_EQ(outcome.finish, FinishReason::kCancelled);
  EXPECT_EQ(outcome.num_terminal, 1);
  EXPECT_LT(outcome.tokens.size(), 10u);
}

TEST(EngineLimits, AFailedForwardEndsItsRequestsAndTheEngineGoesOn) {
  TestConfig config = Config();
  int32_t forwards = 0;
  config.model.on_forward = [&forwards](const ForwardBatch&) {
    return ++forwards == 3 ? Internal("planted") : Status();
  };
  TestEngine engine(config);
  engine.Submit({1, 2}, Greedy(50));
  engine.Submit({3, 4}, Greedy(50));
  for (int i = 0; i < 3; ++i) engine.engine().StepOnce();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(engine.outcome(i).finish, FinishReason::kError);
    EXPECT_EQ(engine.outcome(i).error.message(), "planted");
  }
  const size_t after = engine.Submit({1, 2}, Greedy(6));
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(after).tokens.size(), 6u);
  EXPECT_EQ(engine.engine().Stats().requests_failed, 2);
}

TEST(EngineLimits, AFailedDraftEndsOnlyThoseWhoAskedForOne) {
  TestConfig config = Config();
  int32_t proposals = 0;
  config.drafter.on_propose = [&proposals] {
    return ++proposals == 2 ? Internal("no draft") : Status();
  };
  TestEngine engine(config);
  SamplingParams plain = Greedy(20);
  plain.spec_tokens = 0;
  engine.Submit({1, 2}, Greedy(20));
  engine.Submit({3, 4}, plain);
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).finish, FinishReason::kError);
  EXPECT_EQ(engine.outcome(1).finish, FinishReason::kLength);
  EXPECT_EQ(engine.outcome(1).tokens.size(), 20u);
}

TEST(EngineLimits, AFailedObserveEndsItsRequests) {
  TestConfig config = Config();
  int32_t observed = 0;
  config.drafter.on_observe = [&observed] { return ++observed == 2 ? Internal("lost") : Status(); };
  TestEngine engine(config);
  engine.Submit({1, 2}, Greedy(20));
  engine.RunAll();
  EXPECT_EQ(engine.outcome(0).finish, FinishReason::kError);
  engine.Submit({1, 2}, Greedy(20));
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(1).finish, FinishReason::kLength);
}

TEST(EngineLimits, DrainFinishesWhatWasAccepted) {
  TestEngine engine(Config());
  engine.Submit({1, 2}, Greedy(20));
  engine.engine().Drain(60'000);
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).finish, FinishReason::kLength);
  EXPECT_EQ(Refusal(&engine, {1}, Greedy(1)).code(), StatusCode::kUnavailable);
}

TEST(EngineLimits, DrainMayBeGivenAllTheTimeThereIs) {
  TestEngine engine(Config());
  engine.Submit({1, 2}, Greedy(20));
  engine.engine().Drain(std::numeric_limits<int64_t>::max());
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).finish, FinishReason::kLength);
}

TEST(EngineLimits, DrainCancelsAfterItsTime) {
  ManualClock clock;
  TestConfig config = Config();
  config.clock = &clock;
  config.model.on_forward = [&clock](const ForwardBatch&) {
    clock.AdvanceNs(1'000'000);
    return Status();
  };
  TestEngine engine(config);
  engine.Submit({1, 2}, Greedy(500));
  engine.engine().Drain(5);
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).finish, FinishReason::kCancelled);
  EXPECT_GT(engine.outcome(0).tokens.size(), 0u);
}

TEST(EngineLimits, DestructionCancels) {
  Outcome outcome;
  {
    TestEngine engine(Config());
    ASSERT_TRUE(engine.engine()
                    .Submit({.prompt = {1}, .sampling = Greedy(50)}, engine.SinkFor(&outcome))
                    .ok());
    engine.engine().StepOnce();
  }
  EXPECT_EQ(outcome.finish, FinishReason::kCancelled);
  EXPECT_EQ(outcome.num_terminal, 1);
}

TEST(EngineLimits, ThePrefixCacheIsResetOnlyWhenIdle) {
  TestEngine engine(Config());
  engine.Submit(MakePrompt(1, 40, kVocab), Greedy(8));
  EXPECT_FALSE(engine.engine().ResetPrefixCache());
  engine.engine().StepOnce();
  EXPECT_FALSE(engine.engine().ResetPrefixCache());
  engine.RunAll();
  EXPECT_GT(engine.engine().Stats().kv_blocks_cached, 0);
  EXPECT_TRUE(engine.engine().ResetPrefixCache());
  EXPECT_EQ(engine.engine().Stats().kv_blocks_cached, 0);
  engine.Submit(MakePrompt(1, 40, kVocab), Greedy(8));
  engine.RunAll();
  EXPECT_EQ(engine.outcome(1).usage.cached_tokens, 0);
}

TEST(EngineLimits, WarmUpLeavesNothingBehind) {
  TestConfig config = Config();
  TestEngine engine(config);
  double last = 0;
  ASSERT_TRUE(engine.engine().WarmUp([&last](double fraction) { last = fraction; }).ok());
  EXPECT_EQ(last, 1.0);
  EXPECT_GT(engine.drafter().num_proposals(), 0);
  const EngineStats stats = engine.engine().Stats();
  EXPECT_EQ(stats.kv_blocks_cached, 0);
  EXPECT_EQ(stats.steps, 0);
  engine.Submit(MakePrompt(1, 30, kVocab), Greedy(20));
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).tokens, PlainTokens(engine.model(), MakePrompt(1, 30, kVocab),
                                                  Greedy(20), config.options.max_model_len));
}

TEST(EngineLimits, OptionsAreChecked) {
  const auto refused = [](auto change) -> std::string {
    EngineOptions options;
    change(&options);
    auto engine = Engine::Load(options);
    EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
    return engine.status().message();
  };
  EXPECT_THAT(refused([](EngineOptions* o) { o->max_num_seqs = 0; }), HasSubstr("max_num_seqs"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->max_num_batched_tokens = 8; }),
              HasSubstr("max_num_batched_tokens"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->block_size = 24; }), HasSubstr("24"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->block_size = 1 << 30; }), HasSubstr("block_size"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->threads = 1'000'000; }), HasSubstr("threads"));
  EXPECT_THAT(refused([](EngineOptions* o) {
                o->max_num_seqs = 2'000'000'000;
                o->max_num_batched_tokens = 2'000'000'000;
              }),
              HasSubstr("max_num_seqs"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->max_num_batched_tokens = 2'000'000'000; }),
              HasSubstr("max_num_batched_tokens"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->max_model_len = 1 << 24; }),
              HasSubstr("max_model_len: 16777216"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->kv_cache_dtype = "int3"; }), HasSubstr("int3"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->speculation.verify = "hope"; }),
              HasSubstr("spec_verify"));
  EXPECT_THAT(refused([](EngineOptions* o) { o->speculation.confidence_threshold = 1.5; }),
              HasSubstr("1.5"));
}

}  // namespace
}  // namespace firesteel
