#include "engine/test_engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "engine/text_end.h"
#include "sampling/distribution.h"
#include "sampling/logit_processor.h"

namespace firesteel {
namespace {

// GPT-2's printable spelling of a byte.
std::string Spell(int32_t byte) {
  const auto printable = [](int32_t b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  char32_t code = static_cast<char32_t>(byte);
  if (!printable(byte)) {
    code = 256;
    for (int32_t b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  std::string out;
  AppendUtf8(code, &out);
  return out;
}

}  // namespace

TestConfig::TestConfig() {
  options.max_model_len = 1024;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.block_size = 16;
  drafter.max_tokens = 0;
}

TestEngine::TestEngine(TestConfig config)
    : clock_(config.clock != nullptr ? config.clock : &Clock::Real()) {
  EngineParts parts;
  parts.options = config.options;
  parts.pool = std::make_unique<ThreadPool>(config.threads);
  parts.exec = std::make_unique<Exec>(Exec{*parts.pool});
  auto model = std::make_unique<FakeModel>(config.model);
  auto drafter =
      std::make_unique<FakeDrafter>(*model, 1, config.options.max_num_seqs, config.drafter);
  model_ = model.get();
  drafter_ = drafter.get();
  CacheLayout layout{model->CacheGroups(DType::kF32)};
  std::ranges::move(drafter->CacheGroups(DType::kF32), std::back_inserter(layout.groups));
  parts.cache = std::make_unique<KvCache>(
      layout, KvCache::Options{.block_size = config.options.block_size,
                               .num_blocks = config.num_blocks,
                               .max_slots = config.options.max_num_seqs,
                               .prefix_caching = config.options.enable_prefix_caching});
  parts.model = std::move(model);
  parts.drafter = std::move(drafter);
  parts.clock = config.clock;
  parts.plant_wrong_branch = config.plant_wrong_branch;
  if (config.with_tokenizer) {
    const ByteTokenizerDirectory directory;
    auto tokenizer = Tokenizer::Load(directory.path());
    FS_CHECK(tokenizer.ok(), "{}", tokenizer.status().message());
    parts.tokenizer = *std::move(tokenizer);
  }
  auto engine = MakeEngine(std::move(parts));
  FS_CHECK(engine.ok(), "{}", engine.status().message());
  engine_ = *std::move(engine);
}

EventSink TestEngine::SinkFor(Outcome* outcome) const {
  return [outcome, clock = clock_](TokenEvent event) {
    if (outcome->num_terminal > 0) ++outcome->num_after_terminal;
    if (outcome->first_token_ns < 0 && !event.tokens.empty()) {
      outcome->first_token_ns = clock->NowNs();
    }
    std::ranges::copy(event.tokens, std::back_inserter(outcome->tokens));
    outcome->text += event.text;
    std::ranges::copy(event.logprobs, std::back_inserter(outcome->logprobs));
    outcome->usage = event.usage;
    if (!event.finish) return;
    ++outcome->num_terminal;
    outcome->finish = event.finish;
    outcome->stop_reason = event.stop_reason;
    outcome->error = event.error;
  };
}

size_t TestEngine::Submit(std::vector<int32_t> prompt, SamplingParams sampling) {
  auto outcome = std::make_unique<Outcome>();
  const Result<RequestId> id = engine_->Submit(
      {.prompt = std::move(prompt), .sampling = std::move(sampling)}, SinkFor(outcome.get()));
  FS_CHECK(id.ok(), "{}", id.status().message());
  ids_.push_back(*id);
  outcomes_.push_back(std::move(outcome));
  return outcomes_.size() - 1;
}

void TestEngine::RunAll() {
  int64_t steps = 0;
  while (engine_->StepOnce()) {
    engine_->CheckInvariants();
    ASSERT_LT(++steps, 1'000'000) << "the engine makes no progress";
  }
}

void TestEngine::ExpectAllEnded() {
  engine_->CheckInvariants();
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(drafter_->complaint(), "");
  int64_t tokens = 0;
  for (const auto& outcome : outcomes_) {
    EXPECT_EQ(outcome->num_terminal, 1);
    EXPECT_EQ(outcome->num_after_terminal, 0);
    EXPECT_EQ(outcome->usage.completion_tokens, static_cast<int32_t>(outcome->tokens.size()));
    tokens += static_cast<int64_t>(outcome->tokens.size());
  }
  EXPECT_EQ(stats.generation_tokens, tokens);
}

std::vector<int32_t> MakePrompt(uint64_t seed, int32_t length, int32_t vocab_size) {
  std::vector<int32_t> prompt;
  uint64_t hash = FakeModel::Extend(seed, 7);
  for (int32_t i = 0; i < length; ++i) {
    hash = FakeModel::Extend(hash, i);
    prompt.push_back(static_cast<int32_t>(hash % static_cast<uint64_t>(vocab_size)));
  }
  return prompt;
}

std::vector<int32_t> PlainTokens(const FakeModel& model, std::vector<int32_t> prompt,
                                 const SamplingParams& sampling, int32_t max_model_len) {
  const auto& eos = model.info().eos_ids;
  LogitProcessor processor(sampling, prompt, eos);
  const NoiseKey noise{sampling.seed.value_or(0), static_cast<uint32_t>(sampling.choice)};
  std::vector<float> logits(static_cast<size_t>(model.info().vocab_size));
  std::vector<int32_t> tokens = std::move(prompt);
  std::vector<int32_t> output;
  while (static_cast<int32_t>(output.size()) < sampling.max_tokens &&
         static_cast<int32_t>(tokens.size()) < max_model_len) {
    const auto position = static_cast<int64_t>(tokens.size());
    model.Logits(FakeModel::Hash(tokens), position, logits);
    processor.Process({}, logits);
    const int32_t token = SampleWithNoise(MakeDistribution(logits, sampling), noise, position,
                                          NoisePurpose::kTargetGumbel);
    processor.Commit(token);
    tokens.push_back(token);
    output.push_back(token);
    if (EndsText(token, sampling, eos)) break;
  }
  return output;
}

ByteTokenizerDirectory::ByteTokenizerDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "firesteel-XXXXXX").string();
  FS_CHECK(mkdtemp(pattern.data()) != nullptr, "no temporary directory");
  path_ = pattern;
  Json vocab = Json::object();
  for (int32_t byte = 0; byte < 256; ++byte) vocab[Spell(byte)] = byte;
  // Words of several bytes, so that a stop string can end inside a token.
  vocab["ab"] = kFirstWordId;
  vocab["STOP"] = kFirstWordId + 1;
  vocab["ST"] = kFirstWordId + 2;
  vocab["OP"] = kFirstWordId + 3;
  const Json merges = Json::array({"a b", "S T", "O P", "ST OP"});
  Json file = {{"version", "1.0"},
               {"added_tokens", Json::array({{{"id", kEosId},
                                              {"content", "<eos>"},
                                              {"single_word", false},
                                              {"lstrip", false},
                                              {"rstrip", false},
                                              {"normalized", false},
                                              {"special", true}}})},
               {"normalizer", nullptr},
               {"pre_tokenizer",
                {{"type", "ByteLevel"},
                 {"add_prefix_space", false},
                 {"trim_offsets", true},
                 {"use_regex", true}}},
               {"post_processor", nullptr},
               {"decoder", {{"type", "ByteLevel"}}},
               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  const Status written = WriteFileAtomically(path_ + "/tokenizer.json", DumpJson(file));
  FS_CHECK(written.ok(), "{}", written.message());
}

ByteTokenizerDirectory::~ByteTokenizerDirectory() { std::filesystem::remove_all(path_); }

}  // namespace firesteel
