#include "bench/run_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/request_record.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunResult Example() {
  RunResult run;
  run.id = "20260101-000000-abcd";
  run.load.kind = "gamma";
  run.load.request_rate = 0.1;
  run.load.seed = ~uint64_t{0};
  run.sampling = Json{{"temperature", 0.0}};
  run.metadata["k"] = "v";
  run.counts.failures["connect"] = 2;
  run.counts.messages["connect"] = {"a", "b"};
  run.whole.metrics["ttft_ms"] = Summarize({1, 2, 4});
  run.steady.emplace().duration_s = 3;
  run.goodput_limits.tpot_ms = 50;
  run.goodput_per_s = 0;
  run.speculation.emplace().per_position = {0.5, 0.25};
  run.findings = {{"SHORT_RUN", FindingSeverity::kWarning, "short"}};
  return run;
}

TEST(RunResultTest, ReadsWhatItWrote) {
  const RunResult run = Example();
  const Json json = RunResultJson(run);
  for (const Json& source : {json, Json{{"duration", 1}, {"run", json}}}) {
    const auto back = RunResultFromJson(source, "file");
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(RunResultJson(*back), json);
  }
  EXPECT_EQ(json["status"], "valid");
  EXPECT_EQ(json["load"]["seed"], ~uint64_t{0});
  EXPECT_TRUE(json["goodput_pct"].is_null());
  EXPECT_EQ(json["goodput_per_s"], 0);
  EXPECT_EQ(run.whole.Find("ttft_ms")->median, 2);
  EXPECT_EQ(run.whole.Find("tpot_ms"), nullptr);
}

TEST(RunResultTest, TheWorstFindingIsTheStatus) {
  RunResult run;
  EXPECT_EQ(run.Status(), RunStatus::kValid);
  run.findings.push_back({"A", FindingSeverity::kWarning, "a"});
  EXPECT_EQ(run.Status(), RunStatus::kValid);
  run.findings.push_back({"B", FindingSeverity::kUnverified, "b"});
  EXPECT_EQ(run.Status(), RunStatus::kUnverified);
  run.findings.push_back({"C", FindingSeverity::kVoid, "c"});
  EXPECT_EQ(run.Status(), RunStatus::kVoid);
  EXPECT_THAT(run.VoidReasons(), ElementsAre("c"));
}

TEST(RunResultTest, WrongFieldsAreNamed) {
  const Json good = RunResultJson(Example());
  const struct {
    const char* pointer;
    Json value;
    const char* message;
  } kCases[] = {
      {"/counts/completed", "x", "file: counts: completed is not an integer"},
      {"/whole/metrics/ttft_ms/p99", "x", "metrics.ttft_ms: p99 is not a number"},
      {"/findings/0/severity", "bad", "findings[0]: severity is not one of note, warning"},
      {"/steady", 3, "file: steady is not an object"},
      {"/schema", 99, "schema is 99, expected at most 1"},
  };
  for (const auto& c : kCases) {
    Json bad = good;
    bad[Json::json_pointer(c.pointer)] = c.value;
    const auto back = RunResultFromJson(bad, "file");
    ASSERT_FALSE(back.ok()) << c.message;
    EXPECT_EQ(back.status().code(), StatusCode::kDataCorrupt);
    EXPECT_THAT(back.status().message(), HasSubstr(c.message));
  }
  EXPECT_FALSE(RunResultFromJson(Json::array(), "file").ok());
  EXPECT_FALSE(RunResultFromJson(Json::object(), "file").ok());
}

TEST(RequestRecordTest, JsonKeepsEverything) {
  RequestRecord record;
  record.prompt_id = "p";
  record.index = 7;
  record.sched_ns = 900;
  record.send_ns = 1'000;
  record.connect_ns = 0;
  record.head_ns = 1'500;
  record.event_ns = 1'600;
  record.done_ns = 9'000;
  record.bursts = {{2'000, 3, 1, 5}, {5'000, 2, 2, 0}};
  record.burst_basis = BurstBasis::kUsage;
  record.http_status = 200;
  record.finish_reason = "stop";
  record.text = "é";
  record.token_ids = {1, 2};
  record.completion_tokens = 5;
  record.requested_tokens = 8;
  record.speculation = {.drafts = 2, .draft_tokens = 6, .accepted_tokens = {}};
  record.reconnects = 1;
  const Json json = RequestRecordJson(record, 0);
  const auto back = RequestRecordFromJson(json, "r");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(RequestRecordJson(*back, 0), json);
  EXPECT_EQ(json["itls"].size(), 2u);

  record.failure = Failure::kTimeoutIdle;
  record.error = "idle";
  const auto failed = RequestRecordFromJson(RequestRecordJson(record, 0), "r");
  EXPECT_EQ(failed->failure, Failure::kTimeoutIdle);
  Json bad = json;
  bad["bursts"] = Json::array({Json::array({1, 2})});
  EXPECT_FALSE(RequestRecordFromJson(bad, "r").ok());
  bad = json;
  bad["failure"] = "bored";
  EXPECT_FALSE(RequestRecordFromJson(bad, "r").ok());
}

}  // namespace
}  // namespace firesteel
