// A grid that is killed at any moment and started again ends with the same results as one that is
// left alone: every cell once, none measured again, none missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <random>

#include "base/json.h"
#include "base/mapped_file.h"
#include "bench/child_process.h"
#include "bench/scripted_server.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

// Answers like a server: three tokens, of which the second depends on the prompt.
ScriptedAnswer Answer(const std::string& target, const std::string& body) {
  if (target == "GET /v1/models") return {.pieces = {R"({"data":[{"id":"tiny"}]})"}};
  if (target == "GET /health") return {.pieces = {"ok"}};
  if (target.starts_with("GET") || target.find("completions") == std::string::npos)
    return {.status = 404};
  usleep(3000);
  const std::string token = std::to_string(body.size());
  return {
      .pieces = {Event(R"({"choices":[{"text":"a","token_ids":[1]}]})"),
                 Event(R"({"choices":[{"text":"b","token_ids":[)" + token + "]}]}"),
                 Event(R"({"choices":[{"text":"c","token_ids":[3],"finish_reason":"length"}]})"),
                 Event(R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}})"),
                 Event("[DONE]")}};
}

class GridResumeTest : public ::testing::Test {
 protected:
  // When and as which file a result came to lie there.
  struct Stamp {
    ino_t inode;
    int64_t written_ns;
    bool operator==(const Stamp&) const = default;
  };

  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("grid_resume_test_" + std::to_string(getpid()));
    fs::create_directories(dir_);
    std::string prompts;
    for (int i = 0; i < 6; ++i)
      prompts += "{\"prompt\":\"" + std::string(static_cast<size_t>(i) + 1, 'x') + "\"}\n";
    ASSERT_TRUE(WriteFileAtomically(Path("p.jsonl"), prompts).ok());
    ASSERT_TRUE(WriteFileAtomically(
                    Path("grid.yaml"),
                    "prompts: " + Path("p.jsonl") +
                        "\nconcurrency: [1, 3]\nwarmups: 1\nrepeats: 3\nmax_client_lag_ms: 10000\n"
                        "scenarios: [{name: s}, {name: t, max_tokens: 9, prompts: " +
                        Path("p.jsonl") + "}]\nconfigurations:\n  - {name: a, url: '" +
                        server_.base_url() + "'}\n  - {name: b, url: '" + server_.base_url() +
                        "', spec_method: eagle}\n")
                    .ok());
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  std::unique_ptr<ChildProcess> Start(const std::string& output) const {
    auto grid = ChildProcess::Start(
        {FIRESTEEL_BINARY, "bench", "grid", Path("grid.yaml"), "--output", Path(output)},
        Path("stdout"), Path("stderr"));
    EXPECT_TRUE(grid.ok());
    return *std::move(grid);
  }
  static std::string WaitFor(ChildProcess* grid) {
    std::optional<std::string> end;
    while (!(end = grid->Ended())) usleep(1000);
    return *end;
  }
  std::string Read(const std::string& name) const {
    const auto text = ReadFile(Path(name));
    return text.ok() ? *text : text.status().message();
  }

  // Results by their path, each with what does not depend on time: prompts, outputs, identity.
  std::map<std::string, std::string> Results(const std::string& output) const {
    std::map<std::string, std::string> results;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / output / "cells")) {
      if (!entry.is_regular_file() || entry.path().extension() != ".json") continue;
      const auto json = ParseJson(Read(fs::relative(entry.path(), dir_).string()), "result");
      EXPECT_TRUE(json.ok()) << entry.path() << ": " << json.status().message();
      if (!json.ok()) continue;
      Json fixed = {(*json)["grid"],     (*json)["completed"], (*json)["configuration"],
                    (*json)["scenario"], (*json)["repeat"],    (*json)["max_concurrency"]};
      for (const Json& request : (*json)["requests"])
        fixed.push_back({request["id"], request["token_ids"]});
      results[fs::relative(entry.path(), dir_ / output).string()] = DumpJson(fixed);
    }
    return results;
  }
  std::map<std::string, Stamp> Stamps(const std::string& output) const {
    std::map<std::string, Stamp> stamps;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / output / "cells", error)) {
      struct stat status {};
      if (!entry.is_regular_file() || entry.path().extension() != ".json" ||
          stat(entry.path().c_str(), &status) != 0)
        continue;
      stamps[entry.path().string()] = {
          status.st_ino, status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec};
    }
    return stamps;
  }

  fs::path dir_;
  ScriptedServer server_{Answer};
};

TEST_F(GridResumeTest, KillsAtAnyMomentChangeNothing) {
  const auto whole = Start("whole");
  ASSERT_EQ(WaitFor(whole.get()), "exit code 0") << Read("stderr");
  const auto expected = Results("whole");
  ASSERT_EQ(expected.size(), 2u * 2u * 2u * 3u);

  std::mt19937 random(20260707);
  int kills = 0;
  std::map<std::string, Stamp> before;
  for (;; ++kills) {
    ASSERT_LT(kills, 400);
    const auto grid = Start("killed");
    // Mostly in the middle of a cell, now and then while starting or while files are written.
    usleep(std::uniform_int_distribution<useconds_t>(2'000, 220'000)(random));
    if (grid->Ended()) break;
    kill(grid->pid(), SIGKILL);
    WaitFor(grid.get());
    // What was there is there, unchanged, and has not been measured again.
    const auto after = Stamps("killed");
    for (const auto& [path, stamp] : before) {
      ASSERT_TRUE(after.contains(path)) << path;
      EXPECT_EQ(after.at(path), stamp) << path;
    }
    before = after;
  }
  EXPECT_GE(kills, 5) << "the grid ended before it could be killed often enough";
  const auto last = Start("killed");
  EXPECT_EQ(WaitFor(last.get()), "exit code 0") << Read("stderr");
  EXPECT_EQ(Results("killed"), expected);
  EXPECT_FALSE(fs::exists(dir_ / "killed/superseded"));
  EXPECT_FALSE(fs::exists(dir_ / "killed/failed"));
  const auto summary = ParseJson(Read("killed/summary.json"), "summary.json");
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_EQ(summary->size(), 8u);
}

TEST_F(GridResumeTest, ARestartMeasuresAgainAndKeepsTheOld) {
  const auto first = Start("out");
  ASSERT_EQ(WaitFor(first.get()), "exit code 0") << Read("stderr");
  const auto before = Stamps("out");
  const auto again = Start("out");
  ASSERT_EQ(WaitFor(again.get()), "exit code 0");
  EXPECT_EQ(Stamps("out"), before);
  EXPECT_THAT(Read("stderr"), ::testing::HasSubstr("24 of them are measured already"));

  const auto restart = ChildProcess::Start(
      {FIRESTEEL_BINARY, "bench", "grid", Path("grid.yaml"), "--output", Path("out"), "--restart"},
      Path("stdout"), Path("stderr"));
  ASSERT_EQ(WaitFor(restart->get()), "exit code 0");
  const auto after = Stamps("out");
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [path, stamp] : after) EXPECT_NE(stamp, before.at(path)) << path;
}

}  // namespace
}  // namespace firesteel
