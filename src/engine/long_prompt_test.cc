// Short requests beside a very long one, in virtual time: every row costs the same.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int64_t kNsPerRow = 10'000;
constexpr int64_t kNsPerStep = 200'000;

struct Times {
  double mean_short_ns = 0;
  double long_ns = -1;
};

Times Measure(bool with_long, int32_t short_length, int64_t gap_ns) {
  constexpr int32_t kLongPrompt = 32 * 1024;
  ManualClock clock;
  TestConfig config;
  config.options.max_model_len = 40 * 1024;
  config.options.max_num_seqs = 64;
  config.options.max_num_batched_tokens = 512;
  config.num_blocks = 4096;
  config.model.max_positions = config.options.max_model_len;
  config.model.on_forward = [&clock](const ForwardBatch& batch) {
    clock.AdvanceNs(kNsPerStep + kNsPerRow * static_cast<int64_t>(batch.tokens.size()));
    return Status();
  };
  config.clock = &clock;
  TestEngine engine(config);
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 16;
  size_t long_request = 0;
  if (with_long) {
    long_request = engine.Submit(MakePrompt(99, kLongPrompt, 64), sampling);
    for (int i = 0; i < 3; ++i) engine.engine().StepOnce();  // it is well under way
  }
  constexpr int32_t kShort = 32;
  const int64_t start = clock.NowNs();
  std::vector<std::pair<size_t, int64_t>> shorts;  // with their time of arrival
  bool more = true;
  while (more || shorts.size() < kShort) {
    while (shorts.size() < kShort &&
           clock.NowNs() - start >= gap_ns * static_cast<int64_t>(shorts.size())) {
      const auto i = static_cast<int64_t>(shorts.size());
      shorts.emplace_back(engine.Submit(MakePrompt(i, short_length, 64), sampling),
                          start + gap_ns * i);
    }
    more = engine.engine().StepOnce();
    if (!more && shorts.size() < kShort) clock.AdvanceNs(gap_ns / 4);
  }
  engine.ExpectAllEnded();
  Times times;
  for (const auto& [request, arrived] : shorts) {
    times.mean_short_ns += static_cast<double>(engine.outcome(request).first_token_ns - arrived);
  }
  times.mean_short_ns /= kShort;
  if (with_long) times.long_ns = static_cast<double>(engine.outcome(long_request).first_token_ns);
  return times;
}

TEST(LongPrompt, ShortRequestsKeepTheirTimeToFirstToken) {
  for (int32_t length : {64, 128, 300}) {
    const Times alone = Measure(false, length, 0);
    const Times beside = Measure(true, length, 0);
    EXPECT_LE(beside.mean_short_ns, 2 * alone.mean_short_ns) << "short prompts of " << length;
    EXPECT_GT(beside.mean_short_ns, alone.mean_short_ns);
    RecordProperty("ratio_" + std::to_string(length),
                   std::to_string(beside.mean_short_ns / alone.mean_short_ns));
  }
}

TEST(LongPrompt, TheLongOneIsNotStarvedByAStreamOfShortOnes) {
  // Short prompts arrive faster than the step can take them, for as long as they last.
  const Times beside = Measure(true, 300, 100'000);
  // 32K rows alone take 64 full steps of 5.32 ms; the short ones add 32 * 316 rows, and take at
  // most three quarters.
  EXPECT_LT(beside.long_ns, 5.32e6 * (64 + 20 + 16));
}

}  // namespace
}  // namespace firesteel
