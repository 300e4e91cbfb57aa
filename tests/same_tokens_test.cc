// The first promise with real weights: a request's tokens depend on its prompt, parameters and seed
// alone.
//
// Sixteen requests (greedy and seeded) run through the demo pair under every combination of method,
// draft length, batch, chunk, block size, threads, pool size, each cold and then warm from the
// prefix cache; all must equal what plain decoding gives one request at a time. `make test` takes a
// sample of the combinations, `make test-full` all of them.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "firesteel/engine.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

const std::string kModels = FIRESTEEL_SOURCE_DIR "/models/demo/";
constexpr int32_t kRequests = 16;

// All combinations, or a sample of them. The sample's texts are longer.
bool IsFull() { return std::getenv("FIRESTEEL_FULL") != nullptr; }
// A stride that is coprime to every axis meets each pair of values early.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kSampleStride = 145;  // twenty times slower
#else
constexpr size_t kSampleStride = 29;
#endif
int32_t MaxTokens() { return IsFull() ? 16 : 40; }
size_t MaxPrompt() { return IsFull() ? 150 : 400; }

struct Setting {
  std::string method = "none";
  int32_t spec_tokens = 0;  // automatic, where something drafts
  int32_t concurrency = 1;
  int32_t chunk = 512;
  int32_t block_size = 16;
  int32_t threads = 1;
  bool tiny_pool = false;

  std::string Describe() const {
    return method + " spec_tokens=" + std::to_string(spec_tokens) +
           " concurrency=" + std::to_string(concurrency) + " chunk=" + std::to_string(chunk) +
           " block=" + std::to_string(block_size) + " threads=" + std::to_string(threads) +
           (tiny_pool ? " tiny pool" : "");
  }
};

std::vector<Setting> AllSettings() {
  std::vector<Setting> all;
  const std::vector<std::pair<std::string, int32_t>> methods = {
      {"none", 0},   {"ngram", 1},  {"ngram", 3},       {"ngram", 5},  {"ngram", 7},
      {"dspark", 1}, {"dspark", 3}, {"dspark", 5},      {"dspark", 7}, {"ngram", 0},
      {"dspark", 0}, {"suffix", 5}, {"draft_model", 3}, {"dflash", 7}, {"dflash", 0},
      {"eagle3", 5}, {"eagle3", 0}, {"medusa", 0},      {"medusa", 9}, {"eagle3_tree", 0}};
  for (const auto& [method, spec_tokens] : methods)
    for (int32_t concurrency : {1, 7, 16})
      for (int32_t chunk : {16, 64, 512})
        for (int32_t block_size : {16, 64, 256})
          for (int32_t threads : {1, 2})
            for (bool tiny_pool : {false, true})
              all.push_back(
                  {method, spec_tokens, concurrency, chunk, block_size, threads, tiny_pool});
  return all;
}

EngineOptions OptionsFor(const Setting& setting, int64_t kv_bytes_per_token) {
  EngineOptions options;
  options.model = kModels + "target";
  options.speculation.method = setting.method;
  options.speculation.tokens = setting.spec_tokens;
  if (setting.method == "eagle3_tree") {
    options.speculation.method = "eagle3";
    options.speculation.config_json = R"({"topk": 4, "num_steps": 4, "num_draft_tokens": 16})";
  }
  for (const char* method : {"dspark", "dflash", "eagle3", "medusa"}) {
    if (options.speculation.method == method) options.speculation.model = kModels + method;
  }
  // The target drafts for itself, so that almost all is accepted.
  if (setting.method == "draft_model") options.speculation.model = kModels + "target";
  options.max_num_seqs = setting.concurrency;
  options.max_num_batched_tokens = setting.chunk;
  options.block_size = setting.block_size;
  options.threads = setting.threads;
  options.max_model_len = 512;
  // A tiny pool holds one request of the greatest length and a little more, so that running ones
  // must give way.
  const int64_t positions = setting.tiny_pool ? 512 + 2 * setting.block_size : 16 * 512;
  options.kv_cache_memory_bytes = positions * kv_bytes_per_token;
  // The automatic number goes by what steps were measured to take.
  options.warmup = setting.method != "none" && setting.spec_tokens == 0;
  return options;
}

struct Outcome {
  std::vector<std::vector<int32_t>> tokens;  // by request
  int64_t cached_tokens = 0;
};

// Prompts of many lengths; two share a long beginning.
std::vector<Request> Requests(const Tokenizer& tokenizer) {
  auto text = ReadFile(kModels + "prompts.jsonl");
  EXPECT_TRUE(text.ok());
  std::vector<Request> requests;
  size_t begin = 0;
  while (static_cast<int32_t>(requests.size()) < kRequests) {
    const size_t end = text->find('\n', begin);
    auto line = ParseJson(text->substr(begin, end - begin), "prompts.jsonl");
    EXPECT_TRUE(line.ok());
    begin = end + 1;
    Request request;
    const size_t i = requests.size();
    request.prompt = tokenizer.Encode((*line)["prompt"].get<std::string>(), false);
    if (i == 3) {  // longer than one step of the smaller chunks, and the beginning of the next
      for (int copies = 0; copies < 3; ++copies)
        request.prompt.insert(request.prompt.end(), requests[1].prompt.begin(),
                              requests[1].prompt.end());
    }
    if (i == 4) {
      std::vector<int32_t> shared = requests[3].prompt;
      shared.insert(shared.end(), request.prompt.begin(), request.prompt.end());
      request.prompt = shared;
    }
    if (request.prompt.size() > MaxPrompt()) request.prompt.resize(MaxPrompt());
    request.sampling.max_tokens = MaxTokens();
    request.sampling.ignore_eos = i % 4 == 1;
    if (i % 2 == 1) {
      request.sampling.temperature = i % 4 == 1 ? 1.0 : 0.7;
      request.sampling.top_p = i % 4 == 1 ? 1.0 : 0.95;
      request.sampling.seed = 1000 + i;
      if (i % 8 == 5) request.sampling.repetition_penalty = 1.2;
    } else {
      request.sampling.temperature = 0;
      if (i % 8 == 6) request.sampling.frequency_penalty = 0.5;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

Outcome RunAll(Engine& engine, const std::vector<Request>& requests) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t ended = 0;
  Outcome run;
  run.tokens.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    auto id = engine.Submit(requests[i], [&, i](TokenEvent event) {
      std::lock_guard lock(mutex);
      run.tokens[i].insert(run.tokens[i].end(), event.tokens.begin(), event.tokens.end());
      if (!event.finish) return;
      EXPECT_TRUE(event.error.ok()) << event.error.message();
      run.cached_tokens += event.usage.cached_tokens;
      ++ended;
      changed.notify_one();
    });
    EXPECT_TRUE(id.ok()) << id.status().message();
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ended == requests.size(); });
  return run;
}

TEST(SameTokens, WhateverTheLoadAndTheSettings) {
  auto reference_engine = Engine::Load(OptionsFor(Setting{}, 1 << 14));
  ASSERT_TRUE(reference_engine.ok()) << reference_engine.status().message();
  const int64_t target_kv_bytes = (*reference_engine)->Summary().kv_bytes_per_token;
  const std::vector<Request> requests = Requests((*reference_engine)->tokenizer());
  const Outcome reference = RunAll(**reference_engine, requests);
  for (const auto& tokens : reference.tokens) ASSERT_FALSE(tokens.empty());

  const std::vector<Setting> all = AllSettings();
  const size_t stride = IsFull() ? 1 : kSampleStride;
  int64_t preemptions = 0, accepted = 0, runs = 0;
  for (size_t i = 0; i < all.size(); i += stride) {
    const Setting& setting = all[i];
    SCOPED_TRACE(setting.Describe());
    const bool drafter_has_cache = setting.method != "none" && setting.method != "ngram" &&
                                   setting.method != "suffix" && setting.method != "medusa";
    auto engine = Engine::Load(
        OptionsFor(setting, drafter_has_cache ? 2 * target_kv_bytes : target_kv_bytes));
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    for (const char* cache : {"cold", "warm"}) {
      const Outcome run = RunAll(**engine, requests);
      for (int32_t r = 0; r < kRequests; ++r) {
        ASSERT_EQ(run.tokens[r], reference.tokens[r]) << cache << " request " << r;
      }
      ++runs;
    }
    const EngineStats stats = (*engine)->Stats();
    preemptions += stats.preemptions;
    accepted += stats.spec_accepted;
    if (IsFull() && i % 54 == 53) {
      std::printf("%zu of %zu settings\n", i + 1, all.size());
      std::fflush(stdout);
    }
  }
  // The sweep is worth something only if it met what it is about.
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(accepted, 0);
  std::printf(
      "same tokens: %lld runs of %d requests, %lld preemptions, %lld draft tokens accepted\n",
      static_cast<long long>(runs), kRequests, static_cast<long long>(preemptions),
      static_cast<long long>(accepted));
}

// KV in eight bits is another model, but within it the promise is the same.
TEST(SameTokens, WithFp8Kv) {
  std::vector<std::vector<int32_t>> expected;
  for (const char* method : {"none", "dspark"}) {
    EngineOptions options = OptionsFor({method, 0, 7, 64, 16, 2, false}, 1 << 14);
    options.kv_cache_dtype = "fp8";
    auto engine = Engine::Load(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    const Outcome run = RunAll(**engine, Requests((*engine)->tokenizer()));
    if (expected.empty()) expected = run.tokens;
    EXPECT_EQ(run.tokens, expected) << method;
  }
}

}  // namespace
}  // namespace firesteel
