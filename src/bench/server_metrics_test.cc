#include "bench/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firesteel {
namespace {

using ::testing::ElementsAre;

TEST(ServerMetricsTest, SumsOverLabelsAndIgnoresTheRest) {
  const auto counters = ParseSpecCounters(
      "# HELP vllm:spec_decode_num_drafts_total Rounds.\n"
      "# TYPE vllm:spec_decode_num_drafts_total counter\n"
      "vllm:spec_decode_num_drafts_total{engine=\"0\",model_name=\"a b} c\"} 10\r\n"
      "vllm:spec_decode_num_drafts_total{engine=\"1\"} 2.0\n"
      "vllm:spec_decode_num_drafts_created{engine=\"1\"} 1.7e9\n"
      "vllm:spec_decode_num_draft_tokens 84\n"
      "vllm:spec_decode_num_accepted_tokens_total 2.1e1\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 6\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 9\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"999999999\"} 9\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"x\"} 9\n"
      "vllm:generation_tokens_total 7");
  ASSERT_TRUE(counters.has_value());
  EXPECT_EQ(counters->drafts, 12);
  EXPECT_EQ(counters->draft_tokens, 84);
  EXPECT_EQ(counters->accepted_tokens, 21);
  EXPECT_THAT(counters->accepted_per_position, ElementsAre(9, 6));
  EXPECT_DOUBLE_EQ(*counters->AcceptanceLength(), 2.75);
  EXPECT_DOUBLE_EQ(*counters->AcceptanceRate(), 0.25);
  EXPECT_THAT(counters->AcceptancePerPosition(), ElementsAre(0.75, 0.5));
}

TEST(ServerMetricsTest, WithoutSpeculationThereIsNoFigure) {
  EXPECT_FALSE(ParseSpecCounters("vllm:generation_tokens_total 7\n").has_value());
  EXPECT_FALSE(
      ParseSpecCounters("vllm:spec_decode_num_drafts_total{\nvllm:spec_decode_num_drafts_total x")
          .has_value());
  const SpecCounters none;
  EXPECT_FALSE(none.AcceptanceLength().has_value());
  EXPECT_FALSE(none.AcceptanceRate().has_value());
  EXPECT_TRUE(none.AcceptancePerPosition().empty());
}

TEST(ServerMetricsTest, ARestartedServerIsNoticed) {
  SpecCounters before, after;
  before.drafts = 5;
  after.drafts = 3;
  EXPECT_FALSE(SpecCounters::Difference(before, after).ok());
}

}  // namespace
}  // namespace firesteel
