// The demo's own check: a grid over the bundled model passes, and fails when one wrong draft token
// is accepted on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "bench/child_process.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class BenchGridTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("bench_grid_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  // Waits for `firesteel bench grid` over none and DSpark, the latter with `extra` flags; how it
  // ended, nullopt for exit code 0.
  std::optional<std::string> RunGrid(const std::string& extra) const {
    const std::string models = FIRESTEEL_SOURCE_DIR "/models/demo/";
    EXPECT_TRUE(
        WriteFileAtomically(Path("grid.yaml"),
                            "model: " + models + "target\nprompts: " + models +
                                "prompts.jsonl\n"
                                "server: {max-num-seqs: 4, max-model-len: 512, threads: 1}\n"
                                "concurrency: [1, 4]\nnum_prompts: 4\nmax_tokens: 24\nwarmups: "
                                "0\nmax_client_lag_ms: 10000\n"
                                "request: {temperature: 0}\nconfigurations:\n"
                                "  - {name: none}\n"
                                "  - {name: dspark, flags: {spec-method: dspark, spec-model: " +
                                models + "dspark, spec-tokens: 7" + extra + "}}\n")
            .ok());
    return Run({"bench", "grid", Path("grid.yaml"), "--output", Path("out")});
  }

  std::optional<std::string> Run(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), FIRESTEEL_BINARY);
    const auto process = ChildProcess::Start(argv, Path("stdout"), Path("stderr"));
    EXPECT_TRUE(process.ok());
    std::optional<std::string> end;
    while (!(end = (*process)->Ended())) usleep(10'000);
    return end == "exit code 0" ? std::nullopt : end;
  }

  std::string Read(const std::string& name) const {
    const auto text = ReadFile(Path(name));
    return text.ok() ? *text : text.status().message();
  }

  std::filesystem::path dir_;
};

TEST_F(BenchGridTest, EqualOutputsPass) {
  EXPECT_EQ(RunGrid(""), std::nullopt) << Read("stderr");
  EXPECT_THAT(Read("stdout"), HasSubstr("all output ids equal: yes (4 prompts × 4 cells)"));
  const auto summary = ParseJson(Read("out/summary.json"), "summary.json");
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  ASSERT_EQ(summary->size(), 4u);
  EXPECT_EQ((*summary)[0]["method"], "none");
  EXPECT_TRUE((*summary)[0]["acceptance_length"].is_null());
  const Json& dspark = (*summary)[3];
  EXPECT_EQ(dspark["method"], "dspark");
  EXPECT_EQ(dspark["concurrency"], 4);
  EXPECT_EQ(dspark["spec_tokens"], 7);
  EXPECT_GT(dspark["acceptance_length"], 1.0);
  EXPECT_EQ(dspark["ids_equal"], true);

  // What a cell holds beyond its figures.
  const auto cell = ParseJson(Read("out/cells/dspark-c4-r1.json"), "cell");
  ASSERT_TRUE(cell.ok()) << cell.status().message();
  EXPECT_EQ((*cell)["server"]["version"], "0.1.0");
  EXPECT_THAT(DumpJson((*cell)["server"]["command"]), HasSubstr("\"--spec-method\",\"dspark\""));
  EXPECT_GT((*cell)["server_metrics"]["samples"], 1);
  EXPECT_EQ((*cell)["server_metrics"]["preemptions"], 0);
  EXPECT_EQ((*cell)["spec_decode_per_position_acceptance_rates"].size(), 7u);
  const auto environment = ParseJson(Read("out/environment.json"), "environment");
  ASSERT_TRUE(environment.ok()) << environment.status().message();
  EXPECT_GE((*environment)["cpus"], 1);

  // The page at the end, and the same from the command.
  EXPECT_THAT(Read("out/report.html"), HasSubstr("dspark"));
  EXPECT_EQ(Run({"report", Path("out/cells"), "--html", Path("zh.html"), "--lang", "zh"}),
            std::nullopt)
      << Read("stderr");
  EXPECT_THAT(Read("zh.html"), HasSubstr("<html lang=\"zh-CN\">"));
  EXPECT_EQ(Run({"bench", "grid", Path("grid.yaml"), "--dry-run", "--output", Path("out")}),
            std::nullopt);
  EXPECT_THAT(Read("stdout"), HasSubstr("4 cells: 2 configurations, 1 repeats; 4 of them are"));
}

TEST_F(BenchGridTest, OneWrongTokenFails) {
  EXPECT_EQ(RunGrid(", plant-wrong-accepts: 1"), "exit code 1");
  EXPECT_THAT(Read("stdout"), HasSubstr("all output ids equal: no"));
  EXPECT_THAT(Read("stdout"), HasSubstr("dspark at concurrency 1: prompt "));
  EXPECT_THAT(Read("stderr"), HasSubstr("firesteel bench grid: output ids differ"));
}

}  // namespace
}  // namespace firesteel
