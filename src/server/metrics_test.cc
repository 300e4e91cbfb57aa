#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace firesteel {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Render(const EngineStats& stats, int32_t spec_tokens) {
  ModelSummary summary;
  summary.spec_method = "dspark";
  summary.spec_tokens = spec_tokens;
  return ServerMetrics().Render(stats, summary, "m", "auto");
}

// A line of the page: the labels that every sample carries, then `labels`.
std::string Line(const std::string& name, const std::string& labels, const std::string& value) {
  return "\n" + name + R"({model_name="m",engine="0")" + labels + "} " + value + "\n";
}

TEST(ServerMetrics, InvalidatedTokensAreToldByReason) {
  EngineStats stats;
  stats.spec_drafted = 30;
  stats.spec_invalidated_eos = 3;
  stats.spec_invalidated_limit = 5;
  stats.spec_invalidated_malformed = 7;
  stats.spec_trimmed = 4;
  stats.spec_verified = 11;
  const std::string page = Render(stats, 4);
  const std::string name = "spec_invalidated_tokens_total";
  EXPECT_THAT(page, HasSubstr("# TYPE " + name + " counter\n"));
  EXPECT_THAT(page, HasSubstr(Line(name, R"(,method="dspark",reason="eos")", "3")));
  EXPECT_THAT(page, HasSubstr(Line(name, R"(,method="dspark",reason="limit")", "5")));
  EXPECT_THAT(page, HasSubstr(Line(name, R"(,method="dspark",reason="malformed")", "7")));
  EXPECT_THAT(page, HasSubstr(Line("spec_drafted_tokens_total", R"(,method="dspark")", "30")));
  EXPECT_THAT(page, HasSubstr(Line("spec_trimmed_tokens_total", R"(,method="dspark")", "4")));
  EXPECT_THAT(page, HasSubstr(Line("spec_verified_tokens_total", R"(,method="dspark")", "11")));
  EXPECT_THAT(page, HasSubstr(Line("vllm:spec_decode_num_draft_tokens_total", "", "11")));
}

TEST(ServerMetrics, RoundsAreToldForEveryLength) {
  EngineStats stats;
  stats.spec_rounds_per_length = {8, 0, 5};
  stats.spec_rounds = 5;
  const auto line = [](const std::string& k, const std::string& value) {
    return Line("spec_rounds_total", R"(,method="dspark",k=")" + k + "\"", value);
  };
  // Lengths that have not occurred yet are there too, so that rates begin at 0.
  const std::string page = Render(stats, 4);
  EXPECT_THAT(page, HasSubstr(line("0", "8")));
  EXPECT_THAT(page, HasSubstr(line("1", "0")));
  EXPECT_THAT(page, HasSubstr(line("2", "5")));
  EXPECT_THAT(page, HasSubstr(line("4", "0")));
  EXPECT_THAT(page, Not(HasSubstr(R"(k="5")")));
  EXPECT_THAT(page, HasSubstr(Line("vllm:spec_decode_num_drafts_total", "", "5")));
  EXPECT_THAT(Render(EngineStats(), 0), HasSubstr(line("0", "0")));
  EXPECT_THAT(Render(EngineStats(), 0), Not(HasSubstr(R"(k="1")")));
}

TEST(ServerMetrics, StepsAreHistograms) {
  EngineStats stats;
  stats.seconds_draft.counts[3] = 2;  // up to 1e-4
  stats.seconds_draft.counts[9] = 1;  // up to 0.01
  stats.seconds_draft.sum = 0.0078125;
  stats.seconds_forward.counts[std::size(kPhaseSecondsBounds)] = 1;  // above all bounds
  stats.spec_verify_rows.counts[2] = 3;
  stats.spec_verify_rows.sum = 10;
  stats.spec_budget_rows.counts[4] = 6;
  stats.spec_budget_rows.sum = 30;
  const std::string page = Render(stats, 4);
  EXPECT_THAT(page, HasSubstr("# TYPE spec_step_seconds histogram\n"));
  EXPECT_THAT(page, Not(HasSubstr("spec_step_seconds_total")));
  const std::string bucket = "spec_step_seconds_bucket";
  EXPECT_THAT(page, HasSubstr(Line(bucket, R"(,phase="draft",le="5e-05")", "0")));
  EXPECT_THAT(page, HasSubstr(Line(bucket, R"(,phase="draft",le="0.005")", "2")));
  EXPECT_THAT(page, HasSubstr(Line(bucket, R"(,phase="draft",le="0.01")", "3")));
  EXPECT_THAT(page, HasSubstr(Line(bucket, R"(,phase="draft",le="+Inf")", "3")));
  EXPECT_THAT(page, HasSubstr(Line("spec_step_seconds_count", R"(,phase="draft")", "3")));
  EXPECT_THAT(page, HasSubstr(Line("spec_step_seconds_sum", R"(,phase="draft")", "0.0078125")));
  EXPECT_THAT(page, HasSubstr(Line(bucket, R"(,phase="verify",le="5")", "0")));
  EXPECT_THAT(page, HasSubstr(Line(bucket, R"(,phase="verify",le="+Inf")", "1")));
  for (const std::string phase : {"sample", "inject", "schedule"}) {
    EXPECT_THAT(page, HasSubstr(Line("spec_step_seconds_count", ",phase=\"" + phase + "\"", "0")));
  }
  EXPECT_THAT(page, HasSubstr(Line("spec_verify_rows_bucket", R"(,le="2")", "0")));
  EXPECT_THAT(page, HasSubstr(Line("spec_verify_rows_bucket", R"(,le="4")", "3")));
  EXPECT_THAT(page, HasSubstr(Line("spec_verify_rows_sum", "", "10")));
  EXPECT_THAT(page, HasSubstr(Line("spec_budget_rows_per_request_bucket", R"(,le="5")", "6")));
  EXPECT_THAT(page, HasSubstr(Line("spec_budget_rows_per_request_count", "", "6")));
}

TEST(ServerMetrics, RuleAndDraftStateAreTold) {
  const std::string page = Render({}, 4);
  EXPECT_THAT(page, HasSubstr(Line("spec_lossless", R"(,rule="auto")", "1")));
  for (const std::string reason : {"prefix_hit", "resume"}) {
    EXPECT_THAT(
        page, HasSubstr(Line("spec_draft_state_missing_total", ",reason=\"" + reason + "\"", "0")));
  }
}

}  // namespace
}  // namespace firesteel
