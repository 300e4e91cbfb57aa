// The engine on its own thread, used from several others at once. Meant for ThreadSanitizer too.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int32_t kThreads = 4;
constexpr int32_t kPerThread = 60;

struct Told {
  std::mutex mutex;
  std::vector<int32_t> tokens;
  int32_t terminal = 0;
  std::optional<FinishReason> finish;
};

TestConfig Config() {
  TestConfig config;
  config.drafter.kind = FakeDraftKind::kMixed;
  config.drafter.max_tokens = 3;
  config.num_blocks = 40;
  config.threads = 2;
  return config;
}

SamplingParams Sampling(int32_t i) {
  SamplingParams sampling;
  sampling.temperature = 0.9;
  sampling.seed = static_cast<uint64_t>(i);
  sampling.max_tokens = 5 + i % 40;
  sampling.ignore_eos = true;
  return sampling;
}

TEST(EngineThreads, SubmitCancelAndStatsFromEverywhere) {
  TestEngine engine(Config());
  engine.engine().Start();
  std::vector<Told> told(kThreads * kPerThread);
  std::vector<std::thread> threads;
  std::atomic<int32_t> accepted = 0;
  for (int32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < kPerThread; ++i) {
        Told& mine = told[static_cast<size_t>(t * kPerThread + i)];
        const Result<RequestId> id = engine.engine().Submit(
            {.prompt = MakePrompt(t * kPerThread + i, 1 + i, 64), .sampling = Sampling(i)},
            [&mine](TokenEvent event) {
              std::lock_guard lock(mine.mutex);
              mine.tokens.insert(mine.tokens.end(), event.tokens.begin(), event.tokens.end());
              if (event.finish) {
                ++mine.terminal;
                mine.finish = event.finish;
              }
            });
        ASSERT_TRUE(id.ok()) << id.status().message();
        ++accepted;
        if (i % 5 == 0) engine.engine().Cancel(*id);
        if (i % 7 == 0) engine.engine().ResetPrefixCache();
        (void)engine.engine().Stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine.engine().Drain(60'000);
  engine.engine().CheckInvariants();
  EXPECT_EQ(accepted, kThreads * kPerThread);
  for (int32_t i = 0; i < kThreads * kPerThread; ++i) {
    Told& one = told[static_cast<size_t>(i)];
    std::lock_guard lock(one.mutex);
    EXPECT_EQ(one.terminal, 1);
    const int32_t k = i % kPerThread;
    const std::vector<int32_t> plain =
        PlainTokens(engine.model(), MakePrompt(i, 1 + k, 64), Sampling(k), 1024);
    if (one.finish != FinishReason::kCancelled) {
      EXPECT_EQ(one.tokens, plain);
    }
  }
  const EngineStats stats = engine.engine().Stats();
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_EQ(stats.requests_cancelled + stats.requests_finished_length, kThreads * kPerThread);
}

TEST(EngineThreads, DestructionWhileOthersRunEndsEveryRequestOnce) {
  std::vector<Told> told(20);
  {
    TestEngine engine(Config());
    engine.engine().Start();
    for (Told& one : told) {
      SamplingParams sampling = Sampling(1);
      sampling.max_tokens = 400;
      ASSERT_TRUE(engine.engine()
                      .Submit({.prompt = {1, 2, 3}, .sampling = sampling},
                              [&one](TokenEvent event) {
                                std::lock_guard lock(one.mutex);
                                if (event.finish) ++one.terminal;
                              })
                      .ok());
    }
  }
  for (Told& one : told) {
    std::lock_guard lock(one.mutex);
    EXPECT_EQ(one.terminal, 1);
  }
}

TEST(EngineThreads, DrainWaitsAndRefuses) {
  TestEngine engine(Config());
  engine.engine().Start();
  std::atomic<int32_t> ended = 0;
  for (int32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(engine.engine()
                    .Submit({.prompt = {i}, .sampling = Sampling(i)},
                            [&ended](TokenEvent event) { ended += event.finish ? 1 : 0; })
                    .ok());
  }
  engine.engine().Drain(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ended, 10);
  const auto refused =
      engine.engine().Submit({.prompt = {1}, .sampling = Sampling(1)}, [](TokenEvent) {});
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
}

TEST(EngineThreads, DrainWithoutTimeCancels) {
  TestConfig config = Config();
  std::latch forwarding(1);
  config.model.on_forward = [&, first = true](const ForwardBatch&) mutable {
    if (std::exchange(first, false)) forwarding.count_down();
    return Status();
  };
  config.options.max_model_len = 4000;
  config.num_blocks = 400;
  TestEngine engine(config);
  engine.engine().Start();
  SamplingParams sampling = Sampling(1);
  sampling.max_tokens = 3900;
  std::optional<FinishReason> finish;
  ASSERT_TRUE(engine.engine()
                  .Submit({.prompt = {1}, .sampling = sampling},
                          [&finish](TokenEvent event) { finish = event.finish; })
                  .ok());
  forwarding.wait();
  engine.engine().Drain(0);
  EXPECT_EQ(finish, FinishReason::kCancelled);
}

}  // namespace
}  // namespace firesteel
