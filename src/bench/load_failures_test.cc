// What goes wrong between client and server is in the records, each fault under its own name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>

#include "bench/load_generator.h"
#include "bench/run_validity.h"
#include "bench/scripted_server.h"

namespace firesteel {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

TEST(LoadFailuresTest, TimeoutsAreFailuresOfTheirOwn) {
  ScriptedServer server([](const std::string& target, const std::string& body) -> ScriptedAnswer {
    if (target != "POST /v1/completions") return {.status = 404};
    const std::string token = Event(R"({"choices":[{"text":"a","token_ids":[1]}]})");
    if (body.find("never") != std::string::npos) {
      return {.pieces = {token, Event("[DONE]")}, .delays_us = {700'000, 0}};
    }
    if (body.find("stalls") != std::string::npos) {
      return {.pieces = {token, token, Event("[DONE]")}, .delays_us = {0, 700'000, 0}};
    }
    return {.pieces = {token + Event("[DONE]")}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.max_concurrency = 3;
  options.timeouts.first_ms = 200;
  options.timeouts.idle_ms = 250;
  const auto load = RunLoad(
      options,
      {{.id = "0", .text = "never"}, {.id = "1", .text = "stalls"}, {.id = "2", .text = "good"}},
      nullptr, nullptr);
  ASSERT_TRUE(load.ok()) << load.status().message();
  EXPECT_EQ(load->records[0].failure, Failure::kTimeoutFirst);
  EXPECT_EQ(load->records[1].failure, Failure::kTimeoutIdle);
  EXPECT_TRUE(load->records[2].ok()) << load->records[2].error;
  const RunResult run = MakeRunResult(options, *load);
  EXPECT_EQ(run.counts.incomplete, 2);
  EXPECT_EQ(run.counts.failed, 0);
  EXPECT_EQ(run.whole.Find("e2e_ms")->count, 1u);  // a timeout is no latency
}

TEST(LoadFailuresTest, AServerThatDiesIsInTheRecords) {
  auto server = std::make_unique<ScriptedServer>(
      [](const std::string& target, const std::string& body) -> ScriptedAnswer {
        if (target != "POST /v1/completions") return {.status = 404};
        const std::string token = Event(R"({"choices":[{"text":"a","token_ids":[1]}]})");
        if (body.find("dies") != std::string::npos) return {.pieces = {token}, .cut = true};
        return {.pieces = {token + Event("[DONE]")}};
      });
  LoadGeneratorOptions options;
  options.base_url = server->base_url();
  options.model = "m";
  options.max_concurrency = 1;
  std::vector<Prompt> prompts;
  for (int i = 0; i < 6; ++i) {
    prompts.push_back({.id = std::to_string(i), .text = i == 2 ? "dies" : "good"});
  }
  // Gone with the third answer: nobody listens from there on.
  const LoadProgress progress = [&](size_t finished, size_t, size_t failed) {
    if (failed > 0 && server != nullptr) server.reset();
  };
  const auto load = RunLoad(options, prompts, progress, nullptr);
  ASSERT_TRUE(load.ok()) << load.status().message();
  ASSERT_EQ(load->records.size(), 6u);
  EXPECT_TRUE(load->records[1].ok());
  EXPECT_EQ(load->records[2].failure, Failure::kTruncated);
  EXPECT_EQ(load->records[5].failure, Failure::kConnect) << load->records[5].error;
  EXPECT_THAT(load->notes, Contains(HasSubstr("after the run")));
  EXPECT_EQ(MakeRunResult(options, *load).Status(), RunStatus::kVoid);
}

// A connection of the pool that the server closed meanwhile: the request is sent again, once, and
// counted.
TEST(LoadFailuresTest, ASecondSendingIsCounted) {
  std::mutex mutex;
  std::map<std::string, int> seen;
  ScriptedServer server([&](const std::string& target, const std::string& body) -> ScriptedAnswer {
    if (target != "POST /v1/completions") return {.status = 404};
    const auto parsed = ParseJson(body, "body");
    const std::lock_guard lock(mutex);
    ++seen[(*parsed)["prompt"]];
    ScriptedAnswer answer{
        .pieces = {Event(R"({"choices":[{"text":"a","token_ids":[1]}]})") + Event("[DONE]")}};
    answer.keep_alive = true;
    answer.close_after = true;  // though it said that it would stay open
    return answer;
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.max_concurrency = 1;
  std::vector<Prompt> prompts;
  for (int i = 0; i < 20; ++i) {
    prompts.push_back({.id = std::to_string(i), .text = "p" + std::to_string(i)});
  }
  const auto load = RunLoad(options, prompts, nullptr, nullptr);
  ASSERT_TRUE(load.ok()) << load.status().message();
  for (const RequestRecord& r : load->records) EXPECT_TRUE(r.ok()) << r.error;
  for (const auto& [prompt, count] : seen) EXPECT_EQ(count, 1) << prompt;
  const RunResult run = MakeRunResult(options, *load);
  int64_t reconnects = 0;
  for (const RequestRecord& r : load->records) reconnects += r.reconnects;
  EXPECT_EQ(run.counts.reconnects, reconnects);
}

TEST(NormalizeTargetTest, V1IsThereOnce) {
  const struct {
    const char *base, *endpoint, *want_base, *want_endpoint;
  } kCases[] = {
      {"http://x/v1", "/v1/completions", "http://x", "/v1/completions"},
      {"http://x/v1/", "/chat/completions", "http://x", "/v1/chat/completions"},
      {"http://x", "/v1/completions", "http://x", "/v1/completions"},
      {"http://x/", "/generate", "http://x", "/generate"},
      {"http://x/v1", "/generate", "http://x", "/generate"},
      {"http://x/api/v1", "/v1/completions", "http://x/api", "/v1/completions"},
  };
  for (const auto& c : kCases) {
    std::string base = c.base, endpoint = c.endpoint;
    NormalizeTarget(&base, &endpoint);
    EXPECT_EQ(base, c.want_base);
    EXPECT_EQ(endpoint, c.want_endpoint);
  }
}

}  // namespace
}  // namespace firesteel
