#include "bench/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/mapped_file.h"
#include "bench/yaml.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<GridConfig> Parse(const std::string& yaml) {
  FS_ASSIGN(const Json document, ParseYaml(yaml, "g.yaml"));
  return ParseGridConfig(document, "g.yaml");
}

constexpr char kGood[] = R"(
model: models/x
prompts: p.jsonl
server: {ballast-layers: "4:64", max-num-seqs: 32, warmup: false, served-model-name: [a, b]}
concurrency: [1, 8]
num_prompts: {1: 4, 8: 16}
max_tokens: 64
repeats: 3
request: {temperature: 0}
configurations:
  - {name: none}
  - {name: dspark-5, flags: {spec-method: dspark, spec-tokens: 5, enable-prefix-caching: true}}
)";

TEST(GridConfigTest, ReadsEveryKey) {
  const auto config = Parse(kGood);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->model, "models/x");
  EXPECT_THAT(config->server_flags, ElementsAre("--ballast-layers", "4:64", "--max-num-seqs", "32",
                                                "--no-warmup", "--served-model-name", "a", "b"));
  ASSERT_EQ(config->scenarios.size(), 1u);
  const GridScenario& scenario = config->scenarios[0];
  ASSERT_EQ(scenario.levels.size(), 2u);
  EXPECT_EQ(scenario.levels[1].concurrency, 8);
  EXPECT_EQ(scenario.levels[1].num_prompts, 16);
  EXPECT_EQ(scenario.max_tokens, 64);
  EXPECT_EQ(config->repeats, 3);
  EXPECT_EQ(scenario.request["temperature"], 0);
  ASSERT_EQ(config->configurations.size(), 2u);
  EXPECT_THAT(
      config->configurations[1].flags,
      ElementsAre("--spec-method", "dspark", "--spec-tokens", "5", "--enable-prefix-caching"));
}

TEST(GridConfigTest, TheBundledGridIsValid) {
  const auto config = ReadGridConfig(FIRESTEEL_SOURCE_DIR "/grids/demo.yaml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  ASSERT_EQ(config->configurations.size(), 5u);
  EXPECT_EQ(config->configurations[0].name, "none");
  ASSERT_EQ(config->scenarios.size(), 1u);
  ASSERT_EQ(config->scenarios[0].levels.size(), 3u);
  EXPECT_EQ(config->scenarios[0].levels[2].concurrency, 32);
}

TEST(GridConfigTest, TheFieldGridsAreThoseOfTheReports) {
  const auto config = ReadGridConfig(FIRESTEEL_SOURCE_DIR "/grids/field-grid.yaml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  ASSERT_EQ(config->scenarios.size(), 9u);
  EXPECT_EQ(config->seed, 42u);
  // 32 prompts below 8 clients, 16 a client from there to 32, 8 a client from 64 on.
  for (const GridScenario& scenario : config->scenarios) {
    EXPECT_EQ(scenario.random_range_ratio, 0) << scenario.name;
    for (const GridLevel& level : scenario.levels) {
      const int32_t c = level.concurrency;
      EXPECT_EQ(level.num_prompts, c < 8 ? 32 : c <= 32 ? 16 * c : 8 * c) << scenario.name << c;
    }
  }
  const auto second = ReadGridConfig(FIRESTEEL_SOURCE_DIR "/grids/field-grid-v2.yaml");
  ASSERT_TRUE(second.ok()) << second.status().message();
  ASSERT_EQ(second->scenarios.size(), 9u);
  EXPECT_EQ(second->repeats, 3);
  EXPECT_EQ(second->min_window_s, 60);
  EXPECT_TRUE(second->cold_cache);
  for (size_t i = 0; i < 9; ++i) {
    const GridScenario& scenario = second->scenarios[i];
    EXPECT_EQ(scenario.name, config->scenarios[i].name);
    EXPECT_EQ(scenario.random_input_len, config->scenarios[i].random_input_len);
    EXPECT_EQ(scenario.random_output_len, config->scenarios[i].random_output_len);
    EXPECT_EQ(scenario.random_range_ratio, 1);
    ASSERT_EQ(scenario.levels.size(), 9u);
    EXPECT_EQ(scenario.levels[0].num_prompts, 300);
    EXPECT_EQ(scenario.levels[8].num_prompts, 1280);
    EXPECT_EQ(second->WarmupsAt(scenario.levels[0]), 16);
    EXPECT_EQ(second->WarmupsAt(scenario.levels[8]), 256);
  }
  EXPECT_TRUE(ReadGridConfig(FIRESTEEL_SOURCE_DIR "/grids/inferencex.yaml").ok());
}

TEST(GridConfigTest, MessagesNameKeyFoundAndExpected) {
  const std::string rest = "prompts: p\nconcurrency: [1]\nconfigurations: [{name: a}]\n";
  const struct {
    std::string yaml;
    const char* message;
  } kCases[] = {
      {"[1]", "g.yaml: is not a mapping"},
      {rest + "repeat: 3", "g.yaml: unknown key repeat, did you mean repeats?"},
      {rest + "zzzzzz: 3", "g.yaml: unknown key zzzzzz"},
      {rest + "repeats: 0", "repeats is 0, expected an integer from 1 to 1000"},
      {rest + "repeats: many", "repeats is a string"},
      {rest + "max_tokens: 1.5", "max_tokens is 1.5"},
      {rest + "model: 3", "model is 3, expected a string"},
      {rest + "request: [1]", "request is not a mapping"},
      {rest + "server: [1]", "server: is not a mapping of flags"},
      {rest + "server: {port: }", "server: port has no value"},
      {rest + "num_prompts: {2: 4}", "num_prompts: unknown key 2"},
      {rest + "num_prompts: {}", "num_prompts: 1 is missing"},
      {rest + "num_prompts: 0", "num_prompts is 0"},
      {"concurrency: [1]\nconfigurations: [{name: a}]", "prompts is missing"},
      {"prompts: p\nconfigurations: [{name: a}]", "concurrency is missing"},
      {"prompts: p\nconcurrency: []\nconfigurations: [{name: a}]", "concurrency is missing"},
      {"prompts: p\nconcurrency: [0]\nconfigurations: [{name: a}]", "concurrency holds 0"},
      {"prompts: p\nconcurrency: [8, 1]\nconfigurations: [{name: a}]",
       "holds 1 after 8, expected ascending"},
      {"prompts: p\nconcurrency: [1]", "configurations is missing"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{flags: {}}]",
       "configurations[0]: name is missing"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: ../x}]", "name is \"../x\""},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a}, {name: a}]",
       "configurations[1]: name a was used before"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a, flag: {}}]",
       "did you mean flags?"},
      {rest + "random_input_len: 4", "holds prompts and random_input_len, expected one of them"},
      {rest + "random_range_ratio: 1", "holds random_range_ratio without random_input_len"},
      {rest + "scenarios: []", "scenarios is empty"},
      {rest + "scenarios: [{prompts: q}]", "scenarios[0]: name is missing"},
      {rest + "scenarios: [{name: s}, {name: s}]", "scenarios[1]: name s was used before"},
      {rest + "scenarios: [{name: s, concurency: [2]}]", "did you mean concurrency?"},
      {rest + "scenarios: [{name: s, num_prompts: {3: 4}}]", "num_prompts: unknown key 3"},
      {rest + "num_prompts: {per_concurrency: 0}", "per_concurrency is 0"},
      {rest + "exclude: [{scenario: x}]", "exclude[0]: scenario is x, which the grid has not"},
      {rest + "exclude: [{}]", "exclude[0]: is empty"},
      {rest + "min_window_s: -1", "min_window_s is -1, expected a number from 0"},
      {rest + "warmups: {min: 3}", "warmups: per_concurrency is missing"},
      {rest + "cache: hot", "cache is hot, expected cold or as-is"},
      {rest + "scenarios: [{name: s, random_input_len: 4, random_output_len: 4, lengths: long}]",
       "lengths is long, expected uniform, bound or mean"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a, command: x}]",
       "configurations[0]: url is missing"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a, url: ftp}]", "url is \"ftp\""},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a, url: http://h, flags: {}}]",
       "holds flags, which are of our server, and url"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a, url: http://h, command: []}]",
       "command is no text and no list of words"},
      {"prompts: p\nconcurrency: [1]\nconfigurations: [{name: a, spec_tokens: 3}]",
       "holds spec_tokens without url"},
  };
  for (const auto& c : kCases) {
    const auto config = Parse(c.yaml);
    ASSERT_FALSE(config.ok()) << c.yaml;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(config.status().message(), HasSubstr(c.message)) << c.yaml;
  }
}

TEST(GridConfigTest, ScenariosTakeFromTheTopWhatTheyDoNotSay) {
  const auto config = Parse(R"(
prompts: p.jsonl
concurrency: [1, 8]
num_prompts: {per_concurrency: 10, min: 30}
request: {temperature: 0}
configurations:
  - {name: mine, flags: {spec-method: none}}
  - name: other
    command: "serve --port {port} --api-key k"
    url: "http://127.0.0.1:{port}/"
    spec_method: eagle
    spec_tokens: 3
    gpus: 8
scenarios:
  - {name: file}
  - {name: random, random_input_len: 512, random_output_len: 256, concurrency: [4], num_prompts: 7}
exclude:
  - {configuration: other, scenario: file, concurrency: [8]}
)");
  ASSERT_TRUE(config.ok()) << config.status().message();
  ASSERT_EQ(config->scenarios.size(), 2u);
  const GridScenario& file = config->scenarios[0];
  EXPECT_EQ(file.prompts, "p.jsonl");
  EXPECT_EQ(file.levels[0].num_prompts, 30);
  EXPECT_EQ(file.levels[1].num_prompts, 80);
  const GridScenario& random = config->scenarios[1];
  EXPECT_TRUE(random.is_random());
  EXPECT_EQ(random.random_output_len, 256);
  EXPECT_EQ(random.request["temperature"], 0);
  ASSERT_EQ(random.levels.size(), 1u);
  EXPECT_EQ(random.levels[0].num_prompts, 7);
  const GridConfiguration& other = config->configurations[1];
  EXPECT_FALSE(other.is_ours());
  EXPECT_EQ(other.url, "http://127.0.0.1:{port}");
  EXPECT_THAT(other.command, ElementsAre("/bin/sh", "-c", "exec serve --port {port} --api-key k"));
  EXPECT_EQ(other.spec_tokens, 3);
}

TEST(ServerBannerTest, IsReadAsItIsWritten) {
  ServerBanner banner;
  banner.model = "demo on http";
  banner.url = "http://127.0.0.1:4711";
  banner.spec_method = "dspark";
  banner.spec_tokens = 7;
  banner.target_bytes = 302'123'000;
  banner.ballast_bytes = 299'000'000;
  banner.draft_bytes = 2'500'000;
  const std::string text = FormatBanner(banner);
  EXPECT_THAT(
      text,
      HasSubstr(
          "target step reads 302.123 MB (ballast: 299.000 MB of it), draft pass reads 2.500 MB\n"));
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(ParseBanner(text.substr(0, n)).has_value());
  const auto read = ParseBanner("loading\nspeculation: odd\nserving\n" + text + "more\n");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->model, banner.model);
  EXPECT_EQ(read->url, banner.url);
  EXPECT_EQ(read->spec_method, "dspark");
  EXPECT_EQ(read->spec_tokens, 7);
  EXPECT_EQ(read->target_bytes, banner.target_bytes);
  EXPECT_EQ(read->ballast_bytes, banner.ballast_bytes);
  EXPECT_EQ(read->draft_bytes, banner.draft_bytes);
}

RequestRecord Output(const std::string& prompt, std::vector<int32_t> ids) {
  RequestRecord record;
  record.prompt_id = prompt;
  record.token_ids = std::move(ids);
  return record;
}

TEST(IdentityCheckTest, OneWrongTokenIsFound) {
  IdentityCheck check;
  GridCell base, same, wrong, shorter, failed, unknown;
  check.Add({Output("a", {1, 2, 3})}, &base);
  check.Add({Output("a", {1, 2, 3}), Output("b", {4})}, &same);
  EXPECT_TRUE(base.ids_equal);
  EXPECT_TRUE(same.ids_equal);
  EXPECT_EQ(same.prompts_compared, 1u);
  check.Add({Output("a", {1, 9, 3}), Output("b", {5})}, &wrong);
  EXPECT_FALSE(wrong.ids_equal);
  EXPECT_EQ(wrong.difference, "prompt a: output token 1 is 9, expected 2");
  check.Add({Output("a", {1, 2})}, &shorter);
  EXPECT_EQ(shorter.difference, "prompt a: output token 2 is the end, expected 3");
  RequestRecord error = Output("a", {1, 2, 3});
  error.error = "HTTP 500: x";
  check.Add({error}, &failed);
  EXPECT_FALSE(failed.ids_equal);
  RequestRecord no_ids = Output("a", {});
  no_ids.token_ids.reset();
  check.Add({no_ids}, &unknown);
  EXPECT_FALSE(unknown.ids_equal);
}

ServeMetrics Metrics(double speed, double tpot) {
  ServeMetrics m;
  m.completed = 4;
  m.output_tokens = 100;
  m.output_tokens_per_s = speed;
  m.tpot_ms = Summarize({tpot});
  return m;
}

TEST(GridReportTest, SummaryHasTheAgreedKeysAndMedians) {
  GridReport report;
  GridCell none{.configuration = "none", .concurrency = 1};
  none.server.model = "demo";
  none.runs = {Metrics(10, 100), Metrics(30, 90), Metrics(20, 110)};
  GridCell dspark{.configuration = "dspark", .concurrency = 1};
  dspark.server = {.model = "demo",
                   .spec_method = "dspark",
                   .spec_tokens = 7,
                   .target_bytes = 100,
                   .ballast_bytes = 90,
                   .draft_bytes = 5};
  dspark.runs = {Metrics(50, 40)};
  dspark.runs[0].spec = SpecCounters{.drafts = 10, .draft_tokens = 70, .accepted_tokens = 21};
  dspark.ids_equal = false;
  dspark.difference = "prompt a: output token 1 is 9, expected 2";
  report.cells = {none, dspark};
  EXPECT_EQ(
      DumpJson(GridSummaryJson(report)),
      R"([{"model":"demo","method":"none","concurrency":1,"spec_tokens":0,"output_tokens_per_s":20.0,"speedup":1.0,)"
      R"("acceptance_length":null,"acceptance_rate":null,"ttft_ms":{"mean":null,"p99":null},)"
      R"("tpot_ms":{"mean":100.0,"p99":100.0},"ids_equal":true},)"
      R"({"model":"demo","method":"dspark","concurrency":1,"spec_tokens":7,"output_tokens_per_s":50.0,"speedup":2.5,)"
      R"("acceptance_length":3.1,"acceptance_rate":0.3,"ttft_ms":{"mean":null,"p99":null},)"
      R"("tpot_ms":{"mean":40.0,"p99":40.0},"ids_equal":false}])");
  EXPECT_FALSE(report.AllIdsEqual());
  const std::string text = FormatGridReport(report);
  EXPECT_THAT(text, HasSubstr("all output ids equal: no (4 prompts × 2 cells)"));
  EXPECT_THAT(text,
              HasSubstr("dspark at concurrency 1: prompt a: output token 1 is 9, expected 2"));
  EXPECT_THAT(text, HasSubstr("The target carries ballast"));
  EXPECT_THAT(text, HasSubstr("2.50x"));
  report.cells[1].ids_equal = true;
  EXPECT_THAT(FormatGridReport(report),
              HasSubstr("all output ids equal: yes (4 prompts × 2 cells)"));
}

class GridRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("grid_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
    ASSERT_TRUE(WriteFileAtomically(Path("p.jsonl"), "{\"prompt\":\"a\"}\n").ok());
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  std::string Script(const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomically(Path("server.sh"), "#!/bin/sh\n" + text).ok());
    EXPECT_EQ(chmod(Path("server.sh").c_str(), 0755), 0);
    return Path("server.sh");
  }
  GridConfig Config() const {
    GridConfig config;
    config.configurations = {{.name = "none"}};
    config.scenarios = {{.prompts = Path("p.jsonl"), .levels = {{.concurrency = 1}}}};
    return config;
  }

  std::filesystem::path dir_;
};

TEST_F(GridRunTest, AServerThatDoesNotStartIsAnErrorWithItsOwnWords) {
  const auto report =
      RunGrid(Config(), {.binary = Script("echo first >&2; echo 'no such model' >&2; exit 3\n"),
                         .output_dir = Path("out")});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().message(),
            "the server of none ended with exit code 3 while starting: no such model");
}

TEST_F(GridRunTest, AnInterruptedRunLeavesNoServer) {
  std::atomic<bool> stop = false;
  // The script tells its process id and would go on for ever.
  GridRun run{.binary = Script("echo $$ > " + Path("pid") + "; while :; do sleep 60; done\n"),
              .output_dir = Path("out"),
              .stop = &stop};
  std::thread stopper([&] {
    while (!std::filesystem::exists(Path("pid")) || std::filesystem::file_size(Path("pid")) == 0)
      std::this_thread::yield();
    stop = true;
  });
  const auto report = RunGrid(Config(), run);
  stopper.join();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kCancelled);
  const auto pid = ReadFile(Path("pid"));
  ASSERT_TRUE(pid.ok());
  EXPECT_EQ(kill(std::stoi(*pid), 0), -1);
}

TEST_F(GridRunTest, MissingPromptsAreAnError) {
  GridConfig config = Config();
  config.scenarios[0].prompts = Path("absent.jsonl");
  EXPECT_FALSE(RunGrid(config, {.binary = "/bin/false", .output_dir = Path("out")}).ok());
}

}  // namespace
}  // namespace firesteel
