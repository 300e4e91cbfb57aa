#include "bench/completion_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

TEST(CompletionStreamTest, AnEventWithoutEndFails) {
  RequestRecord record;
  CompletionStream stream(&record);
  const std::string megabyte(1 << 20, 'a');
  stream.OnBytes("data: ", kMs);
  for (int i = 0; i < 64; ++i) stream.OnBytes(megabyte, kMs);
  EXPECT_THAT(record.error, HasSubstr("more than 67108864 bytes without an end"));
  stream.OnBytes("\n\n" + Event(R"({"choices":[{"text":"a","finish_reason":"stop"}]})"), 2 * kMs);
  stream.OnDone(200, "", 3 * kMs);
  EXPECT_FALSE(record.ok());
  EXPECT_TRUE(record.text.empty());
}

TEST(CompletionStreamTest, ANullErrorIsNone) {
  RequestRecord record;
  CompletionStream stream(&record);
  stream.OnBytes(
      Event(R"({"error":null,"choices":[{"text":"a","finish_reason":"stop"}]})") + Event("[DONE]"),
      kMs);
  stream.OnDone(200, "", 2 * kMs);
  EXPECT_TRUE(record.ok()) << record.error;
}

TEST(CompletionStreamTest, TimesTokensByTheReadThatCompletedThem) {
  RequestRecord record;
  record.send_ns = 100 * kMs;
  CompletionStream stream(&record);
  const std::string two = Event(R"({"choices":[{"text":"ab","token_ids":[5,6]}]})");
  stream.OnBytes(two.substr(0, 20), 110 * kMs);
  stream.OnBytes(two.substr(20), 150 * kMs);
  // Two events in one read are one burst of four tokens.
  stream.OnBytes(Event(R"({"choices":[{"text":"c","token_ids":[7]}]})") +
                     Event(R"({"choices":[{"text":"def","token_ids":[8,9,10]}]})"),
                 190 * kMs);
  stream.OnBytes(Event(R"({"choices":[{"text":"","token_ids":[11],"finish_reason":"length"}]})"),
                 200 * kMs);
  stream.OnBytes(
      Event(
          R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}})") +
          Event("[DONE]"),
      230 * kMs);
  stream.OnDone(200, "", 240 * kMs);

  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_EQ(record.text, "abcdef");
  EXPECT_THAT(*record.token_ids, ElementsAre(5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(record.prompt_tokens, 3);
  EXPECT_EQ(record.cached_tokens, 2);
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_EQ(record.OutputTokens(), 7);
  EXPECT_STREQ(record.OutputCountBasis(), "usage");
  EXPECT_DOUBLE_EQ(*record.Ttft(), 0.050);
  EXPECT_DOUBLE_EQ(*record.E2e(), 0.100);
  EXPECT_DOUBLE_EQ(*record.Tpot(), 0.050 / 6);
  std::vector<double> itl;
  record.AppendItl(&itl);
  EXPECT_THAT(itl, ElementsAre(0.010, 0.010, 0.010, 0.010, 0.010));
  EXPECT_EQ(record.done_ns, 230 * kMs);  // [DONE], not the end of the connection
}

TEST(CompletionStreamTest, CountsEventsWhenTheServerSaysNothing) {
  RequestRecord record;
  CompletionStream stream(&record);
  stream.OnBytes(Event(R"({"choices":[{"delta":{"role":"assistant"}}]})"), 1);
  stream.OnBytes(Event(R"({"choices":[{"delta":{"content":"x"}}]})"), 2);
  stream.OnBytes(Event(R"({"choices":[{"delta":{"reasoning_content":"y"}}],"usage":null})"), 3);
  stream.OnBytes(Event(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"), 4);
  stream.OnDone(200, "", 5);
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_FALSE(record.token_ids.has_value());
  EXPECT_EQ(record.OutputTokens(), 2);
  EXPECT_STREQ(record.OutputCountBasis(), "chunks");
  EXPECT_EQ(record.bursts.front().time_ns, 2);
  EXPECT_EQ(record.text, "xy");
}

TEST(CompletionStreamTest, OneTokenHasNoTimePerToken) {
  RequestRecord record;
  CompletionStream stream(&record);
  stream.OnBytes(Event(R"({"choices":[{"text":"x","token_ids":[1],"finish_reason":"length"}]})"),
                 2);
  stream.OnDone(200, "", 5);
  EXPECT_TRUE(record.ok());
  EXPECT_FALSE(record.Tpot().has_value());
  EXPECT_TRUE(record.Ttft().has_value());
}

TEST(CompletionStreamTest, SaysWhyARequestFailed) {
  const std::string token = Event(R"({"choices":[{"text":"x"}]})");
  const struct {
    std::string bytes;
    int status;
    std::string transport_error;
    std::string message;
  } kCases[] = {
      {token + Event(R"({"error":{"message":"out of blocks","code":500}})") + Event("[DONE]"), 200,
       "", "error in the stream: out of blocks"},
      {token + Event(R"({"error":"plain"})"), 200, "", "error in the stream: plain"},
      {token + Event("{\"choices\":"), 200, "", "is not valid JSON"},
      {token + Event("[1]"), 200, "", "is not a JSON object"},
      {token + Event(R"({"choices":[3]})"), 200, "", "choices[0] is not a JSON object"},
      {token, 200, "", "the stream ended without finish_reason and [DONE]"},
      {Event("[DONE]"), 200, "", "without a token"},
      {"", 200, "", "the response is empty"},
      {R"({"error":{"message":"queue full"}})", 429, "", "HTTP 429: queue full"},
      {"<html>\nbad gateway", 502, "", "HTTP 502: <html> bad gateway"},
      {"\xff\xfe", 500, "", "HTTP 500: "},
      {token, 0, "connection reset by peer", "connection reset by peer"},
  };
  for (const auto& c : kCases) {
    RequestRecord record;
    CompletionStream stream(&record);
    stream.OnBytes(c.bytes, 1);
    stream.OnDone(c.status, c.transport_error, 2);
    EXPECT_FALSE(record.ok()) << c.bytes;
    EXPECT_THAT(record.error, HasSubstr(c.message));
  }
}

TEST(CompletionStreamTest, StrangeFieldsAreNotTokens) {
  RequestRecord record;
  CompletionStream stream(&record);
  for (const char* data :
       {R"({"choices":[{"text":7,"delta":null,"token_ids":["a"]}]})", R"({"choices":{}})", R"({})",
        R"({"choices":[],"usage":{"completion_tokens":-4}})",
        R"({"choices":[],"usage":{"prompt_tokens_details":7,"completion_tokens":99999999999}})"}) {
    stream.OnBytes(Event(data), 1);
  }
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_TRUE(record.bursts.empty());
  EXPECT_FALSE(record.completion_tokens.has_value());
}

}  // namespace
}  // namespace firesteel
