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
                             "ttft,e2el",
                             "--metric-percentiles",
                             "50,99.9",
                             "--metadata",
                             "a=b",
                             "c=d=e",
                             "--goodput",
                             "ttft:100",
                             "tpot:50.5",
                             "--header",
                             "X-A=1"});
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
  EXPECT_EQ(o->dataset.num_prompts, 10);
  EXPECT_EQ(o->dataset.seed, 3u);
  EXPECT_TRUE(o->save_vllm);
  EXPECT_EQ(o->vllm_dir, "d");
  EXPECT_EQ(o->vllm_file, "f.json");
  EXPECT_TRUE(o->exports.detailed);
  EXPECT_THAT(o->exports.metrics, ElementsAre("ttft", "e2el"));
  EXPECT_THAT(o->exports.percentiles, ElementsAre(50, 99.9));
  EXPECT_EQ(o->load.metadata.at("c"), "d=e");
  EXPECT_EQ(o->load.goodput.ttft_ms, 100);
  EXPECT_EQ(o->load.goodput.tpot_ms, 50.5);
  EXPECT_THAT(o->load.headers, ElementsAre(std::pair<std::string, std::string>("X-A", "1")));
  const auto least = ParseBench({"--dataset-path", "p", "--host", "::1", "--port", "9"});
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(least->load.base_url, "http://[::1]:9");
  EXPECT_EQ(least->load.shape.kind, "closed");
  EXPECT_FALSE(least->save_vllm);
  EXPECT_EQ(least->result_json, "");
}

TEST(BenchServeFlagsTest, VllmsCommandLines) {
  const auto random = ParseBench({"--backend",
                                  "vllm",
                                  "--base-url",
                                  "http://h:8000/v1",
                                  "--endpoint",
                                  "/v1/completions",
                                  "--model",
                                  "org/model",
                                  "--tokenizer",
                                  "org/model",
                                  "--trust-remote-code",
                                  "--dataset-name",
                                  "random",
                                  "--random-input-len",
                                  "1k",
                                  "--random-output-len",
                                  "256",
                                  "--random-range-ratio",
                                  "0.2",
                                  "--num-prompts",
                                  "64",
                                  "--request-rate",
                                  "8.5",
                                  "--burstiness",
                                  "0.5",
                                  "--max-concurrency",
                                  "16",
                                  "--seed",
                                  "0",
                                  "--percentile-metrics",
                                  "ttft,tpot,itl,e2el",
                                  "--save-result",
                                  "--label",
                                  "x",
                                  "--disable-tqdm"});
  ASSERT_TRUE(random.ok()) << random.status().message();
  EXPECT_EQ(random->load.base_url, "http://h:8000");
  EXPECT_EQ(random->load.endpoint, "/v1/completions");
  EXPECT_EQ(random->load.shape.kind, "gamma");
  EXPECT_EQ(random->load.shape.request_rate, 8.5);
  EXPECT_EQ(random->dataset.input_len, 1000);
  EXPECT_EQ(random->dataset.range_ratio, 0.2);
  EXPECT_TRUE(random->load.ignore_eos);
  EXPECT_FALSE(random->progress);
  EXPECT_EQ(random->tokenizer, "org/model");
  const auto ramp =
      ParseBench({"--dataset-path", "p", "--ramp-up-strategy", "linear", "--ramp-up-start-rps", "1",
                  "--ramp-up-end-rps", "9", "--dialect", "vllm"});
  ASSERT_TRUE(ramp.ok()) << ramp.status().message();
  EXPECT_EQ(ramp->load.shape.kind, "poisson");
  EXPECT_EQ(ramp->load.shape.ramp_end_rate, 9);
  EXPECT_EQ(ramp->load.dialect, Dialect::kVllm);
  EXPECT_EQ(DumpJson(ramp->load.extra_body), "{}");  // its temperature is the server's
}

TEST(BenchServeFlagsTest, SglangsCommandLines) {
  const auto o = ParseBench({"--backend",
                             "sglang",
                             "--dataset-name",
                             "random-ids",
                             "--model",
                             "m",
                             "--random-input-len",
                             "512",
                             "--random-output-len",
                             "128",
                             "--random-range-ratio",
                             "0.5",
                             "--num-prompts",
                             "32",
                             "--request-rate",
                             "inf",
                             "--max-concurrency",
                             "8",
                             "--output-file",
                             "out.jsonl",
                             "--output-details",
                             "--warmup-requests",
                             "3",
                             "--flush-cache",
                             "--extra-request-body",
                             R"({"x":1})"});
  ASSERT_TRUE(o.ok()) << o.status().message();
  EXPECT_EQ(o->load.base_url, "http://127.0.0.1:30000");
  EXPECT_EQ(o->load.endpoint, "/generate");
  EXPECT_EQ(o->load.rules, Dialect::kSglang);
  EXPECT_EQ(o->load.dialect, Dialect::kNative);
  EXPECT_EQ(o->dataset.dialect, Dialect::kSglang);
  EXPECT_TRUE(o->load.ignore_eos);
  EXPECT_TRUE(o->load.flush_cache);
  EXPECT_EQ(o->load.num_warmups, 3);
  EXPECT_EQ(o->sglang_file, "out.jsonl");
  EXPECT_EQ(o->load.shape.seed, 42u);
  const auto off = ParseBench({"--backend", "sglang-oai-chat", "--dataset-path", "p",
                               "--disable-ignore-eos", "--use-trace-timestamps"});
  ASSERT_TRUE(off.ok()) << off.status().message();
  EXPECT_FALSE(off->load.ignore_eos);
  EXPECT_EQ(off->load.endpoint, "/v1/chat/completions");
  EXPECT_EQ(off->load.shape.kind, "trace");
  const auto prefixes =
      ParseBench({"--dataset-name", "prefix_repetition", "--num-prompts", "100",
                  "--prefix-repetition-num-prefixes", "4", "--prefix-repetition-output-len", "9"});
  ASSERT_TRUE(prefixes.ok()) << prefixes.status().message();
  EXPECT_EQ(prefixes->dataset.num_groups, 4);
  EXPECT_EQ(prefixes->dataset.prompts_per_group, 25);
  EXPECT_EQ(prefixes->dataset.system_len, 256);
  EXPECT_EQ(prefixes->dataset.output_len, 9);
}

TEST(BenchServeFlagsTest, BadCommandLinesSayWhatIsWrong) {
  const struct {
    Words args;
    const char* message;
  } kCases[] = {
      {{}, "--dataset-path is missing"},
      {{"--dataset-path", "p", "--dataset-name", "randon"},
       "--dataset-name is randon, expected one of jsonl, custom"},
      {{"--dataset-path", "p", "--request-rate", "-4"}, "--request-rate is -4"},
      {{"--dataset-path", "p", "--arrival", "constant"}, "which needs --request-rate"},
      {{"--dataset-path", "p", "--ramp-up-strategy", "linear"}, "--ramp-up-start-rps is missing"},
      {{"--dataset-path", "p", "--goodput", "ttft"}, "--goodput holds ttft, expected KEY:VALUE"},
      {{"--dataset-path", "p", "--goodput", "x:1"}, "--goodput holds x, expected one of ttft"},
      {{"--dataset-path", "p", "--goodput", "ttft:z"}, "--goodput holds z, expected a number"},
      {{"--dataset-path", "p", "--metadata", "x"}, "--metadata holds x, expected KEY=VALUE"},
      {{"--dataset-path", "p", "--percentile-metrics", "ttft,x"}, "--percentile-metrics holds x"},
      {{"--dataset-path", "p", "--metric-percentiles", "101"}, "--metric-percentiles holds 101"},
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
