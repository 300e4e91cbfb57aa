#include "sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace firesteel {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(ValidateSampling, AcceptsTheDefaultsAndTheEdges) {
  SamplingParams params;
  EXPECT_TRUE(ValidateSampling(params, 100).ok());
  params.temperature = 0;
  params.top_k = -1;
  params.top_p = 1e-9;
  params.min_p = 1;
  params.presence_penalty = -2;
  params.frequency_penalty = 2;
  params.repetition_penalty = 0.5;
  params.max_tokens = 1;
  params.min_tokens = 1;
  params.logprobs = 20;
  params.logit_bias = {{0, -100.0f}, {99, 100.0f}};
  params.stop_token_ids = {0, 99};
  params.stop.assign(16, "x");
  params.seed = ~uint64_t{0};
  const Status status = ValidateSampling(params, 100);
  EXPECT_TRUE(status.ok()) << status.message();
}

struct BadCase {
  std::function<void(SamplingParams&)> change;
  std::string message;
};

TEST(ValidateSampling, NamesWhatIsWrong) {
  using P = SamplingParams;
  const std::vector<BadCase> cases = {
      {[](P& p) { p.temperature = -1; }, "temperature is -1, expected 0 or more"},
      {[](P& p) { p.temperature = kNan; }, "temperature is nan, expected 0 or more"},
      {[](P& p) { p.temperature = kInf; }, "temperature is inf, expected 0 or more"},
      {[](P& p) { p.top_k = -2; }, "top_k is -2, expected -1 (all) or 0 or more"},
      {[](P& p) { p.top_p = 0; }, "top_p is 0, expected above 0 and at most 1"},
      {[](P& p) { p.top_p = 1.5; }, "top_p is 1.5, expected above 0 and at most 1"},
      {[](P& p) { p.top_p = kNan; }, "top_p is nan, expected above 0 and at most 1"},
      {[](P& p) { p.min_p = -0.1; }, "min_p is -0.1, expected 0 to 1"},
      {[](P& p) { p.min_p = 1.1; }, "min_p is 1.1, expected 0 to 1"},
      {[](P& p) { p.presence_penalty = 2.1; }, "presence_penalty is 2.1, expected -2 to 2"},
      {[](P& p) { p.frequency_penalty = -3; }, "frequency_penalty is -3, expected -2 to 2"},
      {[](P& p) { p.frequency_penalty = kNan; }, "frequency_penalty is nan, expected -2 to 2"},
      {[](P& p) { p.repetition_penalty = 0; }, "repetition_penalty is 0, expected 1e-6 to 1e6"},
      {[](P& p) { p.repetition_penalty = kInf; },
       "repetition_penalty is inf, expected 1e-6 to 1e6"},
      {[](P& p) { p.max_tokens = 0; }, "max_tokens is 0, expected 1 or more"},
      {[](P& p) { p.min_tokens = -1; }, "min_tokens is -1, expected 0 or more"},
      {[](P& p) { p.min_tokens = 17; }, "min_tokens is 17, expected at most max_tokens, 16"},
      {[](P& p) { p.logprobs = 21; }, "logprobs is 21, expected 0 to 20"},
      {[](P& p) { p.logprobs = -2; }, "logprobs is -2, expected 0 to 20"},
      {[](P& p) { p.choice = -1; }, "choice is -1, expected 0 or more"},
      {[](P& p) { p.spec_tokens = -2; }, "spec_tokens is -2, expected -1 (automatic) or 0 or more"},
      {[](P& p) {
         p.logit_bias = {{100, 0.0f}};
       },
       "logit_bias token is 100, expected a token id from 0 to 99"},
      {[](P& p) {
         p.logit_bias = {{-1, 0.0f}};
       },
       "logit_bias token is -1, expected a token id from 0 to 99"},
      {[](P& p) {
         p.logit_bias = {{7, 101.0f}};
       },
       "logit_bias of token 7 is 101, expected -100 to 100"},
      {[](P& p) {
         p.logit_bias = {{7, std::nanf("")}};
       },
       "logit_bias of token 7 is nan, expected -100 to 100"},
      {[](P& p) {
         p.logit_bias.assign(301, {0, 0.0f});
       },
       "logit_bias is a map of 301 tokens, expected at most 300"},
      {[](P& p) {
         p.stop_token_ids = {3, 100};
       },
       "stop_token_ids entry is 100, expected a token id from 0 to 99"},
      {[](P& p) { p.stop.assign(17, "x"); }, "stop is a list of 17 strings, expected at most 16"},
      {[](P& p) {
         p.stop = {"a", ""};
       },
       "stop is an empty string, expected at least one character"},
  };
  for (const BadCase& bad : cases) {
    SamplingParams params;
    bad.change(params);
    const Status status = ValidateSampling(params, 100);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), bad.message);
  }
}

}  // namespace
}  // namespace firesteel
