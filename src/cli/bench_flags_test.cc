// The flags of the other commands, and what stands behind them: counts, the demo model, fitting
// drafters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/mapped_file.h"
#include "cli/bench_serve_flags.h"
#include "cli/command_line.h"
#include "cli/demo_model.h"
#include "cli/drafter_fit.h"
#include "cli/sampling_flags.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

Result<BenchServeOptions> ParseBench(const Words& args) {
  const CommandSpec command{.name = "bench serve",
                            .summary = "s",
                            .positional = "",
                            .positional_help = "",
                            .flags = BenchServeFlags()};
  FS_ASSIGN(const FlagValues values, ParseCommandLine(command, args));
  return ReadBenchServeFlags(values);
}

TEST(BenchServeFlagsTest, FlagsBecomeALoad) {
  unsetenv("OPENAI_API_KEY");
  const auto o = ParseBench({"--base-url",
                             "http://h:1/",
                             "--model",
                             "m",
                             "--backend",
                             "openai-chat",
                             "--dataset-path",
                             "p",
                             "--dataset-name",
                             "custom",
                             "--num-prompts",
                             "10",
                             "--max-concurrency",
                             "4",
                             "--custom-output-len",
                             "64",
                             "--ignore-eos",
                             "--temperature",
                             "0.5",
                             "--top-p",
                             "0.9",
                             "--top-k",
                             "-1",
                             "--request-seed",
                             "-5",
                             "--seed",
                             "3",
                             "--num-warmups",
                             "2",
                             "--extra-body",
                             R"({"top_p":0.1,"x":[1]})",
                             "--api-key",
                             "k",
                             "--save-detailed",
                             "--result-dir",
                             "d",
                             "--result-filename",
                             "f.json",
                             "--percentile-metrics",
                             "ttft,tpot"});
  ASSERT_TRUE(o.ok()) << o.status().message();
  EXPECT_EQ(o->load.base_url, "http://h:1");
  EXPECT_EQ(o->load.endpoint, "/v1/chat/completions");
  EXPECT_EQ(o->load.max_concurrency, 4);
  EXPECT_EQ(o->load.output_len, 64);
  EXPECT_TRUE(o->load.ignore_eos);
  EXPECT_EQ(DumpJson(o->load.extra_body),
            R"({"temperature":0.5,"top_p":0.1,"top_k":-1,"seed":-5,"x":[1]})");
  EXPECT_EQ(o->load.num_warmups, 2);
  EXPECT_EQ(o->load.api_key, "k");
  EXPECT_EQ(o->num_prompts, 10);
  EXPECT_EQ(o->shuffle_seed, 3u);
  EXPECT_EQ(o->output_file, "d/f.json");
  EXPECT_TRUE(o->save_detailed);
  const auto least = ParseBench({"--dataset-path", "p", "--host", "::1", "--port", "9"});
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(least->load.base_url, "http://[::1]:9");
  EXPECT_EQ(least->output_file, "");
}

TEST(BenchServeFlagsTest, BadCommandLinesSayWhatIsWrong) {
  const struct {
    Words args;
    const char* message;
  } kCases[] = {
      {{}, "--dataset-path is missing"},
      {{"--dataset-path", "p", "--dataset-name", "random"},
       "--dataset-name is random, expected one of jsonl, custom"},
      {{"--dataset-path", "p", "--request-rate", "4"},
       "--request-rate is 4, this version has only inf"},
      {{"--dataset-path", "p", "--base-url", "localhost:1"},
       "--base-url is localhost:1, expected http://"},
      {{"--dataset-path", "p", "--endpoint", "v1"}, "--endpoint is v1, expected a path"},
      {{"--dataset-path", "p", "--extra-body", "[]"}, "--extra-body: is not a JSON object"},
      {{"--dataset-path", "p", "--max-concurrency", "0"}, "--max-concurrency is 0"},
      {{"--dataset-path", "p", "--max-concurency", "1"}, "did you mean --max-concurrency?"},
      {{"--dataset-path", "p", "stray"}, "unexpected argument stray"},
  };
  for (const auto& c : kCases) {
    const auto o = ParseBench(c.args);
    ASSERT_FALSE(o.ok()) << c.message;
    EXPECT_THAT(o.status().message(), HasSubstr(c.message));
  }
}

TEST(SamplingFlagsTest, RepeatedStopsDoNotEatTheModel) {
  const CommandSpec command{.name = "generate",
                            .summary = "s",
                            .positional = "MODEL",
                            .positional_help = "m",
                            .flags = SamplingFlags()};
  const auto values = ParseCommandLine(
      command, {"--stop", "a b", "--stop", "c", "model", "--seed", "-1", "--temperature", "1"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(values->positional, "model");
  const auto s = ReadSamplingFlags(*values);
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_THAT(s->stop, ElementsAre("a b", "c"));
  EXPECT_EQ(s->seed, ~uint64_t{0});
  EXPECT_EQ(s->temperature, 1);
}

TEST(ParseCountTest, SuffixesAreVllms) {
  EXPECT_EQ(*ParseCount("25"), 25);
  EXPECT_EQ(*ParseCount("-3"), -3);
  EXPECT_EQ(*ParseCount("1k"), 1000);
  EXPECT_EQ(*ParseCount("1K"), 1024);
  EXPECT_EQ(*ParseCount("2MiB"), 2 << 20);
  EXPECT_EQ(*ParseCount("3g"), 3'000'000'000);
  for (const char* bad : {"", "k", "1kB", "1.5K", "1 K", "0x10", "9223372036854775807K"})
    EXPECT_FALSE(ParseCount(bad).ok()) << bad;
}

TEST(DemoModelTest, IsFoundBelowTheNamedFolder) {
  const auto dir =
      std::filesystem::temp_directory_path() / ("demo_model_test_" + std::to_string(getpid()));
  for (const char* name : {"demo/target", "demo/dspark"}) {
    std::filesystem::create_directories(dir / name);
    ASSERT_TRUE(WriteFileAtomically((dir / name / "config.json").string(), "{}").ok());
  }
  setenv("FIRESTEEL_MODELS", dir.c_str(), 1);
  EngineOptions options;
  ASSERT_TRUE(UseDemoModel(false, &options).ok());
  EXPECT_EQ(options.model, (dir / "demo/target").string());
  EXPECT_EQ(options.speculation.method, "dspark");
  EXPECT_EQ(options.speculation.model, (dir / "demo/dspark").string());
  EngineOptions ngram;
  ngram.speculation.method = "ngram";
  ASSERT_TRUE(UseDemoModel(true, &ngram).ok());
  EXPECT_EQ(ngram.speculation.method, "ngram");
  EXPECT_EQ(ngram.speculation.model, "");
  EngineOptions named;
  named.model = "mine";
  ASSERT_TRUE(UseDemoModel(false, &named).ok());
  EXPECT_EQ(named.model, "mine");
  EXPECT_EQ(named.speculation.method, "none");
  std::filesystem::remove_all(dir);
  EngineOptions absent;
  const Status status = UseDemoModel(false, &absent);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no MODEL was named"), HasSubstr(dir.string())));
  unsetenv("FIRESTEEL_MODELS");
}

TEST(DrafterFitTest, NamesTheFieldThatDiffers) {
  DecoderConfig target;
  target.vocab_size = 4096;
  target.hidden_size = 256;
  target.num_layers = 6;
  const Json good = {{"vocab_size", 4096},
                     {"hidden_size", 256},
                     {"num_target_layers", 6},
                     {"target_layer_ids", {-1, 1, 4}},
                     {"mask_token_id", 9}};
  EXPECT_TRUE(CheckDrafterFits(target, good, "d").ok());
  const struct {
    const char* key;
    Json value;
    const char* message;
  } kCases[] = {
      {"vocab_size", 5000, "d: vocab_size is 5000, the target has 4096"},
      {"hidden_size", 128, "d: hidden_size is 128, the target has 256"},
      {"num_target_layers", 7, "d: num_target_layers is 7, the target has 6"},
      {"target_layer_ids", Json{1, 5}, "target_layer_ids holds 5, expected -1 to 4"},
      {"target_layer_ids", Json(), "target_layer_ids is missing"},
      {"mask_token_id", 4096, "mask_token_id is 4096"},
      {"vocab_size", "x", "vocab_size is a string"},
  };
  for (const auto& c : kCases) {
    Json bad = good;
    bad[c.key] = c.value;
    EXPECT_THAT(CheckDrafterFits(target, bad, "d").message(), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace firesteel
