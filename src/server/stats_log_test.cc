#include "server/stats_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StatsLog, TellsTheFiguresSinceTheLastTime) {
  StatsLog log;
  EngineStats stats;
  EXPECT_THAT(log.Lines(stats, 10), IsEmpty());
  stats.steps = 40;
  stats.prompt_tokens = 200;
  stats.cached_tokens = 50;
  stats.generation_tokens = 100;
  stats.running = 2;
  stats.waiting = 1;
  stats.kv_blocks_used = 5;
  stats.kv_blocks_total = 20;
  const std::string engine =
      "Engine 000: Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: 10.0 tokens/s, "
      "Running: 2 reqs, Waiting: 1 reqs, KV cache usage: 25.0%, Prefix cache hit rate: 25.0%";
  EXPECT_THAT(log.Lines(stats, 10), ElementsAre(engine));
  stats.steps = 80;
  stats.spec_rounds = 20;
  stats.spec_verified = 50;
  stats.spec_accepted = 30;
  stats.spec_accepted_per_position = {20, 10};
  const std::vector<std::string> lines = log.Lines(stats, 10);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 3.00 "
            "tokens/s, Drafted throughput: 5.00 tokens/s, Accepted: 30 tokens, Drafted: 50 tokens, "
            "Per-position acceptance rate: 1.000, 0.500, Avg Draft acceptance rate: 60.0%");
  // Only what is new counts.
  stats.steps = 90;
  stats.spec_rounds = 22;
  stats.spec_verified = 52;
  EXPECT_THAT(log.Lines(stats, 10)[1], testing::HasSubstr("length: 1.00"));
}

TEST(StatsLog, IsSilentWhileNothingHappens) {
  StatsLog log;
  EngineStats stats;
  stats.steps = 40;
  EXPECT_EQ(log.Lines(stats, 10).size(), 1u);
  EXPECT_THAT(log.Lines(stats, 10), IsEmpty());
}

}  // namespace
}  // namespace firesteel
