// The tiny target with EAGLE drafters through the whole engine: the same ids as without drafts, by
// chains and by trees; and drafts from a warm cache that fare as those from a cold one.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/step_stats.h"
#include "engine/test_engine.h"
#include "firesteel/engine.h"

namespace firesteel {
namespace {

const std::string kTiny = FIRESTEEL_SOURCE_DIR "/models/tiny/";
constexpr const char* kTree = R"({"topk":3,"num_steps":3,"num_draft_tokens":10})";

struct Way {
  const char* drafter;  // under models/tiny; "": none
  const char* config;
};
constexpr Way kWays[] = {
    {"eagle", "{}"},  {"eagle3", "{}"},  {"eagle3_specforge", "{}"}, {"eagle3_speculators", "{}"},
    {"eagle", kTree}, {"eagle3", kTree}, {"eagle3_specforge", kTree}};

EngineOptions Options(const Way& way) {
  EngineOptions options;
  options.model = kTiny + "target";
  options.max_model_len = 256;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 128;
  options.threads = 1;
  options.warmup = false;
  const std::string drafter = way.drafter;
  if (drafter.empty()) return options;
  options.speculation.method = drafter == "eagle" ? "eagle" : "auto";
  options.speculation.model = kTiny + drafter;
  options.speculation.config_json = way.config;
  return options;
}

std::unique_ptr<Engine> LoadOrDie(const EngineOptions& options) {
  auto engine = Engine::Load(options);
  FS_CHECK(engine.ok(), "{}", engine.status().message());
  return *std::move(engine);
}

struct Output {
  std::vector<int32_t> tokens;
  int64_t drafted = 0, accepted = 0;
};

// Of prompts. A warm cache holds all of the fourth but its last token, so that its first step
// drafts.
constexpr int32_t kLengths[] = {3, 16, 29, 33, 55, 68, 11, 24};
constexpr int32_t kCount = 8;
bool DraftsAtOnce(size_t request) { return kLengths[request] % 16 == 1; }

// All requests at once, or one after the other; greedy, and sampled with a seed.
std::vector<Output> Generate(Engine* engine, bool at_once) {
  std::vector<Output> outputs(kCount);
  std::vector<std::future<void>> done;
  for (int32_t i = 0; i < kCount; ++i) {
    SamplingParams sampling;
    sampling.temperature = i % 2 == 0 ? 0.0 : 0.9;
    sampling.seed = 40 + i;
    sampling.max_tokens = 24;
    sampling.ignore_eos = true;
    if (i % 4 == 3) sampling.repetition_penalty = 1.2;
    auto ended = std::make_shared<std::promise<void>>();
    std::future<void> future = ended->get_future();
    const auto id = engine->Submit(
        {.prompt = MakePrompt(static_cast<uint64_t>(i % 3), kLengths[i], 512),
         .sampling = sampling},
        [ended, &output = outputs[static_cast<size_t>(i)]](TokenEvent event) {
          output.tokens.insert(output.tokens.end(), event.tokens.begin(), event.tokens.end());
          if (!event.finish) return;
          output.drafted = event.usage.speculation.drafted;
          output.accepted = event.usage.speculation.accepted;
          ended->set_value();
        });
    FS_CHECK(id.ok(), "{}", id.status().message());
    if (at_once) {
      done.push_back(std::move(future));
    } else {
      future.wait();
    }
  }
  for (auto& future : done) future.wait();
  return outputs;
}

std::vector<std::vector<int32_t>> TokensOf(const std::vector<Output>& outputs) {
  std::vector<std::vector<int32_t>> tokens;
  for (const Output& output : outputs) tokens.push_back(output.tokens);
  return tokens;
}

TEST(EaglePairTest, SameIdsAsPlainDecoding) {
  EngineOptions plain_options = Options({"", ""});
  plain_options.max_num_seqs = 1;
  const auto plain = TokensOf(Generate(LoadOrDie(plain_options).get(), false));
  struct Setting {
    int32_t spec_tokens, seqs, chunk, block, threads;
    bool warmup;
  };
  constexpr Setting kSettings[] = {
      {0, 8, 64, 16, 1, true}, {3, 7, 16, 16, 2, false}, {5, 8, 200, 256, 1, false}};
  for (const Way& way : kWays) {
    for (const Setting& s : kSettings) {
      SCOPED_TRACE(testing::Message() << way.drafter << " " << way.config << " tokens "
                                      << s.spec_tokens << " seqs " << s.seqs);
      EngineOptions options = Options(way);
      options.speculation.tokens = s.spec_tokens;
      options.max_num_seqs = s.seqs;
      options.max_num_batched_tokens = s.chunk;
      options.block_size = s.block;
      options.threads = s.threads;
      options.warmup = s.warmup;
      const std::unique_ptr<Engine> engine = LoadOrDie(options);
      EXPECT_EQ(TokensOf(Generate(engine.get(), true)), plain) << "cold";
      EXPECT_EQ(TokensOf(Generate(engine.get(), true)), plain) << "warm";
      const EngineStats stats = engine->Stats();
      EXPECT_EQ(stats.kv_blocks_used, 0);
      EXPECT_TRUE(CheckCounters(stats).ok()) << CheckCounters(stats).message();
      EXPECT_GT(stats.spec_verified, 0);
      EXPECT_EQ(stats.cached_tokens > 0, s.block < 256);
    }
  }
}

TEST(EaglePairTest, SameIdsUnderPreemption) {
  const auto plain = TokensOf(Generate(LoadOrDie(Options({"", ""})).get(), false));
  for (const Way& way : {kWays[0], kWays[1], kWays[5]}) {
    EngineOptions options = Options(way);
    options.max_model_len = 100;
    // Seven blocks: enough for one request of full length, not for eight short ones.
    const int64_t per_token = LoadOrDie(options)->Summary().kv_bytes_per_token;
    options.kv_cache_memory_bytes = 7 * 16 * per_token;
    const std::unique_ptr<Engine> engine = LoadOrDie(options);
    EXPECT_EQ(TokensOf(Generate(engine.get(), true)), plain) << way.drafter;
    EXPECT_GT(engine->Stats().preemptions, 0);
  }
}

// A prefix hit must never lower acceptance: one by one, a request drafts and keeps the same from a
// warm cache as from a cold one.
TEST(EaglePairTest, AcceptanceIsTheSameWarm) {
  int64_t accepted = 0;
  for (const Way& way : kWays) {
    EngineOptions options = Options(way);
    options.speculation.tokens = 9;
    const std::unique_ptr<Engine> engine = LoadOrDie(options);
    const std::vector<Output> cold = Generate(engine.get(), false);
    const int64_t cached = engine->Stats().cached_tokens;
    const std::vector<Output> warm = Generate(engine.get(), false);
    EXPECT_GT(engine->Stats().cached_tokens, cached + 8 * 16);
    for (size_t i = 0; i < cold.size(); ++i) {
      EXPECT_EQ(warm[i].tokens, cold[i].tokens);
      accepted += cold[i].accepted;
      if (DraftsAtOnce(i)) continue;  // its rounds begin elsewhere
      EXPECT_EQ(warm[i].drafted, cold[i].drafted) << way.drafter << " " << i;
      EXPECT_EQ(warm[i].accepted, cold[i].accepted) << way.drafter << " " << i;
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace firesteel
