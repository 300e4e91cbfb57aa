#include "bench/result_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/run_validity.h"

namespace firesteel {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMs = 1'000'000;

// Two answers of three events; the second has an event without text first, and events that came
// together.
struct Example {
  LoadGeneratorOptions options;
  LoadResult load;

  Example() {
    options.max_concurrency = 2;
    load.model = "org/m";
    RequestRecord r;
    r.send_ns = 1000 * kMs;
    r.chunks = {{1010 * kMs, 1, 1}, {1020 * kMs, 1, 1}, {1040 * kMs, 1, 1}};
    r.bursts = {{1010 * kMs, 1}, {1020 * kMs, 2}, {1040 * kMs, 2}};
    r.done_ns = 1050 * kMs;
    r.http_status = 200;
    r.prompt_tokens = 7;
    r.planned_prompt_tokens = 6;
    r.completion_tokens = 5;
    r.requested_tokens = 9;
    r.text = "a";
    load.records.push_back(r);
    r.chunks = {{1015 * kMs, 1, 0}, {1030 * kMs, 2, 2}};
    r.bursts = {{1030 * kMs, 2}};
    r.completion_tokens.reset();
    r.retokenized_tokens = 2;
    load.records.push_back(r);
    r.error = "cut";
    load.records.push_back(r);
    load.duration_s = 0.05;
    load.client_duration_s = 0.1;
    load.server_info_s = 0.1;
    load.spec = SpecCounters{
        .drafts = 2, .draft_tokens = 6, .accepted_tokens = 3, .accepted_per_position = {2, 1, 0}};
  }
};

std::vector<std::string> KeysOf(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(ResultExportTest, VllmsKeysAndDefinitions) {
  const Example e;
  const RunResult run = MakeRunResult(e.options, e.load);
  ExportOptions options;
  options.backend = "vllm";
  const Json json = VllmResult(options, e.load, run);
  EXPECT_THAT(KeysOf(json), ElementsAreArray({"date",
                                              "endpoint_type",
                                              "backend",
                                              "label",
                                              "model_id",
                                              "tokenizer_id",
                                              "num_prompts",
                                              "request_rate",
                                              "burstiness",
                                              "max_concurrency",
                                              "duration",
                                              "completed",
                                              "failed",
                                              "total_input_tokens",
                                              "total_output_tokens",
                                              "request_throughput",
                                              "request_goodput",
                                              "output_throughput",
                                              "total_token_throughput",
                                              "max_output_tokens_per_s",
                                              "max_concurrent_requests",
                                              "mean_ttft_ms",
                                              "median_ttft_ms",
                                              "std_ttft_ms",
                                              "p99_ttft_ms",
                                              "mean_tpot_ms",
                                              "median_tpot_ms",
                                              "std_tpot_ms",
                                              "p99_tpot_ms",
                                              "mean_itl_ms",
                                              "median_itl_ms",
                                              "std_itl_ms",
                                              "p99_itl_ms",
                                              "spec_decode_acceptance_rate",
                                              "spec_decode_acceptance_length",
                                              "spec_decode_num_drafts",
                                              "spec_decode_draft_tokens",
                                              "spec_decode_accepted_tokens",
                                              "spec_decode_per_position_acceptance_rates"}));
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["num_prompts"], 3);
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_DOUBLE_EQ(json["duration"], 0.1);
  EXPECT_EQ(json["total_input_tokens"], 14);
  EXPECT_EQ(json["total_output_tokens"], 7);  // 5 by usage, 2 by the tokenizer
  // From the first event with choices, token or not; a sample for each event.
  EXPECT_DOUBLE_EQ(json["mean_ttft_ms"], 12.5);
  EXPECT_NEAR(json["mean_tpot_ms"], (30.0 / 4 + 15.0 / 1) / 2, 1e-9);
  EXPECT_NEAR(json["mean_itl_ms"], (10 + 20 + 15 + 0) / 4.0, 1e-9);
  EXPECT_EQ(json["max_output_tokens_per_s"], 6);
  EXPECT_DOUBLE_EQ(json["spec_decode_acceptance_rate"], 50);
  EXPECT_DOUBLE_EQ(json["spec_decode_acceptance_length"], 2.5);

  options.detailed = true;
  options.metrics = {"e2el"};
  options.percentiles = {50, 99.9};
  const Json detailed = VllmResult(options, e.load, run);
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "start_times",
                          "generated_texts", "errors", "p50_e2el_ms", "p99.9_e2el_ms"}) {
    EXPECT_TRUE(detailed.contains(key)) << key;
  }
  EXPECT_FALSE(detailed.contains("mean_ttft_ms"));
  EXPECT_EQ(DumpJson(detailed["errors"]), R"(["","","cut"])");
  EXPECT_EQ(DumpJson(detailed["output_lens"]), "[5,2,0]");
  EXPECT_THAT(VllmFileName(options, run), StartsWith("vllm-infqps-concurrency2-m-"));
}

TEST(ResultExportTest, SglangsLine) {
  const Example e;
  const RunResult run = MakeRunResult(e.options, e.load);
  ExportOptions options;
  options.backend = "sglang-oai";
  options.random_input_len = 8;
  std::string line = SglangLine(options, e.load, run);
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("\"request_rate\":Infinity,"));
  options.strict_json = true;
  line = SglangLine(options, e.load, run);
  const auto json = ParseJson(line, "line");
  ASSERT_TRUE(json.ok()) << json.status().message();
  std::vector<std::string> keys = {"tag",
                                   "backend",
                                   "dataset_name",
                                   "request_rate",
                                   "max_concurrency",
                                   "sharegpt_output_len",
                                   "random_input_len",
                                   "random_output_len",
                                   "random_range_ratio",
                                   "server_info",
                                   "duration",
                                   "completed",
                                   "total_input_tokens",
                                   "total_input_text_tokens",
                                   "total_input_vision_tokens",
                                   "total_output_tokens",
                                   "total_output_tokens_retokenized",
                                   "request_throughput",
                                   "input_throughput",
                                   "output_throughput",
                                   "total_throughput"};
  for (const char* metric : {"e2e_latency", "ttft", "tpot", "itl"}) {
    for (const char* what : {"mean", "median", "std", "p90", "p95", "p99"}) {
      keys.push_back(std::string(what) + "_" + metric + "_ms");
    }
  }
  keys.insert(keys.end(), {"concurrency", "accept_length", "max_output_tokens_per_s",
                           "max_concurrent_requests"});
  EXPECT_EQ(KeysOf(*json), keys);
  EXPECT_DOUBLE_EQ((*json)["duration"], 0.2);    // its clock includes the question about the server
  EXPECT_EQ((*json)["total_input_tokens"], 12);  // as planned
  EXPECT_EQ((*json)["total_output_tokens"], 14);  // 5 by usage, 9 because they were asked for
  EXPECT_DOUBLE_EQ((*json)["mean_ttft_ms"], 20);  // the first text
  EXPECT_DOUBLE_EQ((*json)["mean_e2e_latency_ms"], 50);  // the last line
  EXPECT_DOUBLE_EQ((*json)["concurrency"], 0.1 / 0.2);
  EXPECT_DOUBLE_EQ((*json)["accept_length"], 2.5);
  EXPECT_TRUE((*json)["random_output_len"].is_null());
}

}  // namespace
}  // namespace firesteel
