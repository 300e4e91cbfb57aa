// The tiny real pair through the whole engine: the same ids without drafts, with n-grams, with
// DSpark, at any setting; cold and from a warm cache.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/step_stats.h"
#include "engine/test_engine.h"
#include "firesteel/engine.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

const std::string kTarget = FIRESTEEL_SOURCE_DIR "/models/tiny/target";
const std::string kTiny = FIRESTEEL_SOURCE_DIR "/models/tiny/";

EngineOptions Options(const std::string& method) {
  EngineOptions options;
  options.model = kTarget;
  options.max_model_len = 256;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.threads = 1;
  options.speculation.method = method;
  if (method == "dspark" || method == "medusa") options.speculation.model = kTiny + method;
  if (method == "draft_model") options.speculation.model = kTiny + "llama";
  return options;
}

std::unique_ptr<Engine> LoadOrDie(const EngineOptions& options) {
  auto engine = Engine::Load(options);
  FS_CHECK(engine.ok(), "{}", engine.status().message());
  return *std::move(engine);
}

struct Asked {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

std::vector<Asked> Requests(int32_t vocab_size) {
  std::vector<Asked> requests;
  for (int32_t i = 0; i < 8; ++i) {
    SamplingParams sampling;
    sampling.temperature = i % 2 == 0 ? 0.0 : 0.9;
    sampling.seed = 40 + i;
    sampling.max_tokens = 24;
    sampling.ignore_eos = true;
    if (i % 4 == 3) sampling.repetition_penalty = 1.2;
    requests.push_back({MakePrompt(i % 3, 3 + i * 13 % 70, vocab_size), sampling});
  }
  return requests;
}

// All requests at once, or one after the other.
std::vector<std::vector<int32_t>> Generate(Engine* engine, bool at_once) {
  std::vector<std::vector<int32_t>> outputs;
  std::vector<std::future<void>> done;
  const std::vector<Asked> requests = Requests(engine->Summary().vocab_size);
  outputs.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    auto ended = std::make_shared<std::promise<void>>();
    std::future<void> future = ended->get_future();
    const auto id =
        engine->Submit({.prompt = requests[i].prompt, .sampling = requests[i].sampling},
                       [ended, &tokens = outputs[i]](TokenEvent event) {
                         tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
                         if (event.finish) ended->set_value();
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

TEST(ModelPair, SameIdsWithEveryMethodAndSetting) {
  EngineOptions plain_options = Options("none");
  plain_options.max_num_seqs = 1;
  const std::vector<std::vector<int32_t>> plain = Generate(LoadOrDie(plain_options).get(), false);
  for (const auto& tokens : plain) ASSERT_EQ(tokens.size(), 24u);
  struct Setting {
    int32_t spec_tokens, seqs, chunk, block, threads;
  };
  constexpr Setting kSettings[] = {
      {0, 8, 64, 16, 1}, {1, 1, 16, 64, 1}, {3, 7, 16, 16, 2}, {5, 8, 200, 256, 1}};
  for (const std::string& method :
       {std::string("none"), std::string("ngram"), std::string("suffix"), std::string("dspark"),
        std::string("medusa"), std::string("draft_model")}) {
    for (const Setting& s : kSettings) {
      SCOPED_TRACE(testing::Message() << method << " spec " << s.spec_tokens << " seqs " << s.seqs
                                      << " chunk " << s.chunk << " block " << s.block);
      EngineOptions options = Options(method);
      options.speculation.tokens = s.spec_tokens;
      options.max_num_seqs = s.seqs;
      options.max_num_batched_tokens = s.chunk;
      options.block_size = s.block;
      options.threads = s.threads;
      options.warmup = s.seqs == 8;
      const std::unique_ptr<Engine> engine = LoadOrDie(options);
      EXPECT_EQ(Generate(engine.get(), true), plain) << "cold";
      EXPECT_EQ(Generate(engine.get(), true), plain) << "warm";
      const EngineStats stats = engine->Stats();
      EXPECT_EQ(stats.kv_blocks_used, 0);
      EXPECT_TRUE(CheckCounters(stats).ok()) << CheckCounters(stats).message();
      EXPECT_EQ(stats.spec_verified > 0, method != "none");
      EXPECT_EQ(stats.cached_tokens > 0, s.block < 256);  // no prompt fills a block of 256
    }
  }
}

// Every format of block drafter: what it drafts decides about nothing but speed.
TEST(ModelPair, SameIdsWithEveryBlockDrafter) {
  EngineOptions plain_options = Options("none");
  plain_options.max_num_seqs = 1;
  const std::vector<std::vector<int32_t>> plain = Generate(LoadOrDie(plain_options).get(), false);
  for (const char* drafter :
       {"dspark_gated", "dspark_rnn", "dflash", "dflash_zlab", "dspark_speculators"}) {
    for (const int32_t tokens : {0, 3}) {
      SCOPED_TRACE(testing::Message() << drafter << " spec " << tokens);
      EngineOptions options = Options("auto");
      options.speculation.model = std::string(FIRESTEEL_SOURCE_DIR "/models/tiny/") + drafter;
      options.speculation.tokens = tokens;
      const std::unique_ptr<Engine> engine = LoadOrDie(options);
      const std::string name = drafter;
      EXPECT_EQ(engine->Summary().spec_method, name.substr(0, name.find('_')));
      EXPECT_EQ(Generate(engine.get(), true), plain);
      EXPECT_EQ(Generate(engine.get(), true), plain) << "warm";
      const EngineStats stats = engine->Stats();
      EXPECT_GT(stats.spec_verified, 0);
      EXPECT_TRUE(CheckCounters(stats).ok()) << CheckCounters(stats).message();
    }
  }
}

TEST(ModelPair, SameIdsUnderPreemption) {
  const std::vector<std::vector<int32_t>> plain = Generate(LoadOrDie(Options("none")).get(), false);
  for (const std::string& method :
       {std::string("none"), std::string("suffix"), std::string("dspark"), std::string("medusa"),
        std::string("draft_model")}) {
    EngineOptions options = Options(method);
    options.max_model_len = 100;
    // Seven blocks: enough for one request of full length, not for eight short ones.
    const int64_t per_token = LoadOrDie(options)->Summary().kv_bytes_per_token;
    options.kv_cache_memory_bytes = 7 * 16 * per_token;
    const std::unique_ptr<Engine> engine = LoadOrDie(options);
    EXPECT_EQ(engine->Summary().num_kv_blocks, 7);
    EXPECT_EQ(Generate(engine.get(), true), plain) << method;
    EXPECT_GT(engine->Stats().preemptions, 0);
  }
}

// Medusa's chains, and trees of several sizes.
TEST(ModelPair, SameIdsWithEveryTree) {
  const std::vector<std::vector<int32_t>> plain = Generate(LoadOrDie(Options("none")).get(), false);
  for (const char* choices : {R"("chain")", R"("mc_sim_7b_63")", "[[0],[1],[2],[1,0],[1,1]]"}) {
    EngineOptions options = Options("medusa");
    options.warmup = false;
    options.speculation.config_json = std::string(R"({"medusa_choices":)") + choices + "}";
    options.speculation.tokens = 20;
    const std::unique_ptr<Engine> engine = LoadOrDie(options);
    EXPECT_EQ(Generate(engine.get(), true), plain) << choices;
    EXPECT_GT(engine->Stats().spec_verified, 0);
  }
}

// A Llama target, and the Qwen3 one as its draft model; what it drafts itself is mostly right.
TEST(ModelPair, ALlamaTarget) {
  EngineOptions options = Options("none");
  options.model = kTiny + "llama";
  const std::unique_ptr<Engine> alone = LoadOrDie(options);
  EXPECT_EQ(alone->Summary().architecture, "LlamaForCausalLM");
  const std::vector<std::vector<int32_t>> plain = Generate(alone.get(), false);
  for (const char* drafter : {"target", "llama"}) {
    options.speculation.method = "draft_model";
    options.speculation.model = kTiny + drafter;
    options.speculation.tokens = 3;
    const std::unique_ptr<Engine> engine = LoadOrDie(options);
    EXPECT_EQ(Generate(engine.get(), true), plain) << drafter;
    const EngineStats stats = engine->Stats();
    // Coupled drafts of the same model are the target's tokens but for its penalties.
    if (drafter == std::string("llama")) {
      EXPECT_GT(stats.spec_accepted, stats.spec_verified / 2);
    }
  }
}

TEST(ModelPair, AutomaticOptionsAreFilledIn) {
  EngineOptions options = Options("dspark");
  options.max_model_len = 0;
  options.threads = 0;
  std::vector<std::string> phases;
  auto loaded = Engine::Load(options, [&phases](const std::string& phase, double fraction) {
    EXPECT_GE(fraction, 0);
    EXPECT_LE(fraction, 1);
    if (phases.empty() || phases.back() != phase) phases.push_back(phase);
  });
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Engine& engine = **loaded;
  EXPECT_EQ(phases,
            (std::vector<std::string>{"target", "tokenizer", "drafter", "cache", "warm-up"}));
  EXPECT_GT(engine.options().max_model_len, 0);
  EXPECT_GT(engine.options().threads, 0);
  EXPECT_GT(engine.options().long_prefill_token_threshold, 0);
  EXPECT_GT(engine.options().speculation.tokens, 0);
  EXPECT_EQ(engine.options().kv_cache_dtype, "bfloat16");
  EXPECT_EQ(engine.Summary().name, "target");
  EXPECT_EQ(engine.Summary().architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(engine.Summary().spec_method, "dspark");
  EXPECT_EQ(engine.Summary().num_kv_blocks * int64_t{16} * engine.Summary().kv_bytes_per_token,
            engine.options().kv_cache_memory_bytes);
  EXPECT_GT(engine.Summary().draft_weight_bytes, 0);
  EXPECT_GT(engine.tokenizer().vocab_size(), 0);
}

TEST(ModelPair, LoadSaysWhatIsWrong) {
  EngineOptions options = Options("none");
  options.model = kTarget + "-that-is-not-there";
  EXPECT_EQ(Engine::Load(options).status().code(), StatusCode::kNotFound);
  options = Options("no-such-method");
  EXPECT_EQ(Engine::Load(options).status().code(), StatusCode::kInvalidArgument);
  options = Options("none");
  options.max_model_len = 1 << 24;
  EXPECT_EQ(Engine::Load(options).status().code(), StatusCode::kInvalidArgument);
  options = Options("none");
  options.kv_cache_memory_bytes = 1;
  EXPECT_EQ(Engine::Load(options).status().code(), StatusCode::kInvalidArgument);
  options.kv_cache_memory_bytes = int64_t{1} << 60;
  EXPECT_EQ(Engine::Load(options).status().code(), StatusCode::kInvalidArgument);
  options = Options("none");
  options.speculation.config_json = "{";
  EXPECT_FALSE(Engine::Load(options).ok());
}

}  // namespace
}  // namespace firesteel
