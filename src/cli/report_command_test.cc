// The command as users start it: exit codes, languages, exports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "bench/child_process.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kResults[] = FIRESTEEL_SOURCE_DIR "/src/analysis/testdata/seed-results";

class ReportCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("report_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  std::string Read(const std::string& name) const {
    const auto text = ReadFile(Path(name));
    return text.ok() ? *text : text.status().message();
  }

  // How `firesteel report` with these arguments ended: "exit code 0".
  std::string Report(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {FIRESTEEL_BINARY, "report"});
    const auto child = ChildProcess::Start(arguments, Path("stdout"), Path("stderr"));
    EXPECT_TRUE(child.ok());
    std::optional<std::string> end;
    while (!(end = (*child)->Ended())) usleep(10'000);
    return *end;
  }

  std::filesystem::path dir_;
};

TEST_F(ReportCommandTest, MarkdownGoesToTheTerminal) {
  EXPECT_EQ(Report({kResults}), "exit code 0") << Read("stderr");
  EXPECT_THAT(Read("stdout"), AllOf(HasSubstr("# Benchmark report"), HasSubstr("301.18")));
}

TEST_F(ReportCommandTest, FilesAndLanguages) {
  EXPECT_EQ(Report({"--lang", "zh", kResults, "--markdown", Path("r.md"), "--export", "csv",
                    Path("r.csv"), "--export", "vllm", Path("r.json")}),
            "exit code 0")
      << Read("stderr");
  EXPECT_EQ(Read("stdout"), "");
  EXPECT_THAT(Read("r.md"), HasSubstr("# 基准测试报告"));
  EXPECT_THAT(Read("r.csv"), HasSubstr("C001,"));
  EXPECT_EQ(Report({Path("r.json"), "--markdown", Path("again.md")}), "exit code 0")
      << Read("stderr");
}

TEST_F(ReportCommandTest, Conditions) {
  const std::string to = Path("r.md");
  EXPECT_EQ(Report({kResults, "--markdown", to, "--fail-if", "CLIFF"}), "exit code 1");
  EXPECT_THAT(Read("stderr"), HasSubstr("--fail-if holds: CLIFF"));
  EXPECT_EQ(Report({kResults, "--markdown", to, "--fail-if", "mean_ttft_ms > 1e9"}), "exit code 0");
  EXPECT_EQ(Report({kResults, "--markdown", to, "--fail-if", "CLIFFF"}), "exit code 2");
  EXPECT_EQ(Report({kResults, "--markdown", to, "--threshold", "cliff_drop=0.9", "--threshold",
                    "dip_drop=0.9", "--fail-if", "CLIFF"}),
            "exit code 0");
  EXPECT_THAT(Read("r.md"), HasSubstr("0.9 instead of 0.25"));
}

TEST_F(ReportCommandTest, Faults) {
  EXPECT_EQ(Report({}), "exit code 2");
  EXPECT_EQ(Report({"/nowhere"}), "exit code 1");
  EXPECT_THAT(Read("stderr"), HasSubstr("/nowhere"));
  ASSERT_TRUE(WriteFileAtomically(Path("cut.json"), "{\"endpoint_type\": ").ok());
  EXPECT_EQ(Report({Path("cut.json")}), "exit code 1");
  EXPECT_THAT(Read("stderr"), AllOf(HasSubstr("cut.json:1"), HasSubstr("cut short")));
  EXPECT_EQ(Report({kResults, "--lang", "fr"}), "exit code 2");
  EXPECT_EQ(Report({kResults, "--markdwn", "x"}), "exit code 2");
  EXPECT_EQ(Report({kResults, "--baseline", "nobody"}), "exit code 2");
  EXPECT_THAT(Read("stderr"), HasSubstr("there is no configuration nobody"));
  EXPECT_EQ(Report({kResults, "--export", "xml", Path("x")}), "exit code 2");
}

}  // namespace
}  // namespace firesteel
