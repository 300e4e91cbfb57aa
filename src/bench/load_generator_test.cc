#include "bench/load_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "bench/scripted_server.h"
#include "bench/serve_report.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Prompt> Prompts(int count) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < count; ++i)
    prompts.push_back({.id = std::to_string(i), .text = "p" + std::to_string(i)});
  return prompts;
}

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

std::string GoodStream() {
  return Event(R"({"choices":[{"text":"é","token_ids":[1]}]})") +
         Event(R"({"choices":[{"text":"b","token_ids":[2,3]}]})") +
         Event(R"({"choices":[{"text":"","token_ids":[],"finish_reason":"length"}]})") +
         Event(R"({"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}})") +
         Event("[DONE]");
}

bool IsProbe(const std::string& body) { return body.find("\"Hello\"") != std::string::npos; }

TEST(LoadGeneratorTest, MeasuresSplitStreamsAndAsksForTheModel) {
  std::mutex mutex;
  std::string seen;
  int scrapes = 0;
  ScriptedServer server([&](const std::string& target, const std::string& body) -> ScriptedAnswer {
    const std::lock_guard lock(mutex);
    if (target == "GET /v1/models") return {.pieces = {R"({"data":[{"id":"tiny"}]})"}};
    if (target == "GET /metrics") {
      ++scrapes;
      return {.pieces = {
                  scrapes == 1
                      ? "vllm:spec_decode_num_drafts_total "
                        "5\nvllm:spec_decode_num_draft_tokens_total 35\n"
                        "vllm:spec_decode_num_accepted_tokens_total 10\n"
                      : "vllm:spec_decode_num_drafts_total "
                        "9\nvllm:spec_decode_num_draft_tokens_total 63\n"
                        "vllm:spec_decode_num_accepted_tokens_total 17\n"
                        "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 4\n"}};
    }
    if (!IsProbe(body)) seen = body;
    // One byte at a time: events, characters and numbers are cut everywhere.
    std::vector<std::string> bytes;
    for (const char c : GoodStream()) bytes.emplace_back(1, c);
    return {.pieces = bytes};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.max_concurrency = 4;
  options.extra_body = Json{{"temperature", 0.5}, {"seed", 7}};
  size_t last_finished = 0;
  const auto result = RunLoad(
      options, Prompts(6),
      [&](size_t finished, size_t total, size_t failed) { last_finished = finished; }, nullptr);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->model, "tiny");
  EXPECT_EQ(last_finished, 6u);
  ASSERT_EQ(result->records.size(), 6u);
  for (const RequestRecord& record : result->records) {
    EXPECT_TRUE(record.ok()) << record.error;
    EXPECT_EQ(record.text, "éb");
    EXPECT_THAT(*record.token_ids, ElementsAre(1, 2, 3));
  }
  EXPECT_TRUE(result->notes.empty());
  EXPECT_DOUBLE_EQ(result->spec->drafts, 4);
  EXPECT_DOUBLE_EQ(*result->spec->AcceptanceLength(), 1 + 7.0 / 4);
  EXPECT_DOUBLE_EQ(*result->spec->AcceptanceRate(), 7.0 / 28);
  EXPECT_THAT(result->spec->AcceptancePerPosition(), ElementsAre(1.0));

  const auto body = ParseJson(seen, "body");
  ASSERT_TRUE(body.ok());
  EXPECT_EQ((*body)["model"], "tiny");
  EXPECT_EQ((*body)["temperature"], 0.5);
  EXPECT_EQ((*body)["seed"], 7);
  EXPECT_EQ((*body)["max_tokens"], 128);
  EXPECT_EQ((*body)["return_token_ids"], true);
  EXPECT_EQ((*body)["stream_options"]["include_usage"], true);
}

TEST(LoadGeneratorTest, KeepsExactlySoManyRequestsInFlight) {
  constexpr int kConcurrency = 3;
  std::mutex mutex;
  std::condition_variable arrived;
  int arrivals = 0, in_flight = 0, most = 0;
  ScriptedServer server([&](const std::string& target, const std::string& body) -> ScriptedAnswer {
    if (target == "GET /metrics") return {.status = 404};
    if (IsProbe(body)) return {.pieces = {GoodStream()}};
    std::unique_lock lock(mutex);
    const int group = arrivals++ / kConcurrency;
    most = std::max(most, ++in_flight);
    arrived.notify_all();
    // Never returns unless the client really keeps three requests open at once.
    arrived.wait(lock, [&] { return arrivals >= (group + 1) * kConcurrency; });
    --in_flight;
    return {.pieces = {GoodStream()}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.max_concurrency = kConcurrency;
  const auto result = RunLoad(options, Prompts(3 * kConcurrency), nullptr, nullptr);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(most, kConcurrency);
  EXPECT_FALSE(result->spec.has_value());
  EXPECT_EQ(ComputeServeMetrics(*result).completed, 9u);
}

TEST(LoadGeneratorTest, CountsFailuresAndNeverRetries) {
  std::mutex mutex;
  std::map<std::string, int> posts;
  ScriptedServer server([&](const std::string& target, const std::string& body) -> ScriptedAnswer {
    if (target == "GET /metrics") return {.status = 404};
    const std::lock_guard lock(mutex);
    const auto parsed = ParseJson(body, "body");
    const std::string prompt = parsed.ok() ? (*parsed)["prompt"].get<std::string>() : "";
    ++posts[prompt];
    const std::string token = Event(R"({"choices":[{"text":"x","token_ids":[1]}]})");
    if (prompt == "p1") return {.pieces = {token, Event(R"({"error":{"message":"step failed"}})")}};
    if (prompt == "p2") return {.status = 429, .pieces = {R"({"error":{"message":"queue full"}})"}};
    if (prompt == "p3") return {.pieces = {token}, .cut = true};
    return {.pieces = {GoodStream()}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.max_concurrency = 2;
  const auto result = RunLoad(options, Prompts(5), nullptr, nullptr);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const ServeMetrics metrics = ComputeServeMetrics(*result);
  EXPECT_EQ(metrics.completed, 2u);
  EXPECT_EQ(metrics.failed, 3u);
  EXPECT_EQ(metrics.output_tokens, 6);
  EXPECT_EQ(result->records[1].error, "error in the stream: step failed");
  EXPECT_EQ(result->records[2].error, "HTTP 429: queue full");
  EXPECT_EQ(result->records[3].http_status, 0);
  for (const auto& [prompt, count] : posts) EXPECT_EQ(count, 1) << prompt;
  const std::string table = FormatServeTable(metrics, 2);
  EXPECT_THAT(table, HasSubstr("Failed requests:                         3"));
  EXPECT_THAT(table, HasSubstr("1 failed: HTTP 429: queue full"));
}

TEST(LoadGeneratorTest, DropsOptionalKeysThatAServerRefuses) {
  ScriptedServer server([&](const std::string& target, const std::string& body) -> ScriptedAnswer {
    if (target == "GET /metrics") return {.status = 404};
    if (body.find("return_token_ids") != std::string::npos ||
        body.find("stream_options") != std::string::npos) {
      return {.status = 400, .pieces = {R"({"error":{"message":"unknown field"}})"}};
    }
    return {.pieces = {Event(R"({"choices":[{"text":"a"}]})"),
                       Event(R"({"choices":[{"text":"b"}]})"), Event("[DONE]")}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  const auto result = RunLoad(options, Prompts(2), nullptr, nullptr);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes, ElementsAre(HasSubstr("refuses return_token_ids"),
                                         HasSubstr("refuses stream_options")));
  const ServeMetrics metrics = ComputeServeMetrics(*result);
  EXPECT_EQ(metrics.completed, 2u);
  EXPECT_EQ(metrics.output_tokens, 4);
  EXPECT_EQ(metrics.output_count_basis, "chunks");
  EXPECT_EQ(metrics.itl_basis, "chunk");
}

TEST(LoadGeneratorTest, NotesAServerWithoutUsage) {
  std::mutex mutex;
  int short_requests = 0, full_requests = 0;
  ScriptedServer server([&](const std::string& target, const std::string& body) -> ScriptedAnswer {
    if (target == "GET /metrics") return {.status = 404};
    const std::lock_guard lock(mutex);
    short_requests += body.find("\"max_tokens\":16,") != std::string::npos;
    full_requests += body.find("\"max_tokens\":128,") != std::string::npos;
    return {.pieces = {Event(R"({"choices":[{"text":"a"}]})"), Event("[DONE]")}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.num_warmups = 2;
  const auto result = RunLoad(options, Prompts(1), nullptr, nullptr);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes,
              ElementsAre(HasSubstr("ignores return_token_ids"), HasSubstr("reports no usage")));
  EXPECT_EQ(short_requests, 2);
  EXPECT_EQ(full_requests, 1);
}

TEST(LoadGeneratorTest, AServerThatRefusesTheFirstRequestIsAnError) {
  ScriptedServer server([&](const std::string&, const std::string&) -> ScriptedAnswer {
    return {.status = 401, .pieces = {R"({"error":{"message":"no key"}})"}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  const auto result = RunLoad(options, Prompts(1), nullptr, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("the first request failed: HTTP 401: no key"));
}

TEST(LoadGeneratorTest, NobodyListeningIsAnErrorThatNamesTheAddress) {
  std::string base_url;
  {
    ScriptedServer server([](const std::string&, const std::string&) { return ScriptedAnswer(); });
    base_url = server.base_url();
  }
  LoadGeneratorOptions options;
  options.base_url = base_url;
  options.model = "m";
  const auto result = RunLoad(options, Prompts(1), nullptr, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(result.status().message(), HasSubstr(base_url));
}

TEST(LoadGeneratorTest, StopsWhenTold) {
  std::atomic<bool> stop = true;
  ScriptedServer server([](const std::string&, const std::string&) {
    return ScriptedAnswer{.pieces = {GoodStream()}};
  });
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  const auto result = RunLoad(options, Prompts(1), nullptr, &stop);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace firesteel
