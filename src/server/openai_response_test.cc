#include "server/openai_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace firesteel {
namespace {

class ResponseFormatTest : public ::testing::Test {
 protected:
  ResponseFormatTest() {
    auto tokenizer = Tokenizer::Load(FIRESTEEL_SOURCE_DIR "/src/text/testdata/qwen");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_ = *std::move(tokenizer);
  }

  ResponseFormat Format() const { return {request_, "id-1", 1700000000, "m\"odel", *tokenizer_}; }

  static Json Parsed(const std::string& text) {
    const auto json = ParseJson(text, "chunk");
    EXPECT_TRUE(json.ok()) << text;
    return json.ok() ? *json : Json();
  }

  GenerationRequest request_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(ResponseFormatTest, WritesCompletionChunks) {
  ChoiceOutput delta{.index = 2, .text = "a\"\\\n\x01\xC3\xB6", .tokens = {1, 2}};
  EXPECT_EQ(Format().Chunk(delta, true, nullptr),
            "{\"id\":\"id-1\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":"
            "\"m\\\"odel\",\"choices\":["
            "{\"index\":2,\"text\":\"a\\\"\\\\\\n\\u0001\xC3\xB6\",\"logprobs\":null,\"finish_"
            "reason\":null}]}");
  delta.finish = FinishReason::kStop;
  EXPECT_EQ(Parsed(Format().Chunk(delta, false, nullptr))["choices"][0]["finish_reason"], "stop");
}

TEST_F(ResponseFormatTest, EveryTextIsValidJson) {
  for (int byte = 0; byte < 256; ++byte) {
    const ChoiceOutput delta{.text = "x" + std::string(1, static_cast<char>(byte)) + "y"};
    const Json chunk = Parsed(Format().Chunk(delta, false, nullptr));
    const std::string expected = byte < 0x80 ? delta.text : "x\xEF\xBF\xBDy";
    EXPECT_EQ(chunk["choices"][0]["text"], expected);
  }
}

TEST_F(ResponseFormatTest, WritesChatChunks) {
  request_.chat = true;
  request_.return_token_ids = true;
  request_.include_usage = true;
  const std::vector<int32_t> prompt = {7, 8};
  const ChoiceOutput delta{.index = 1, .text = "hi", .tokens = {104, 105}, .prompt_ids = &prompt};
  const Json first = Parsed(Format().Chunk(delta, true, nullptr));
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", "hi"}}));
  EXPECT_EQ(first["choices"][0]["token_ids"], (Json{104, 105}));
  EXPECT_EQ(first["prompt_token_ids"], (Json{7, 8}));
  EXPECT_TRUE(first.contains("usage") && first["usage"].is_null());
  const Json second = Parsed(Format().Chunk(delta, false, nullptr));
  EXPECT_EQ(second["choices"][0]["delta"], (Json{{"content", "hi"}}));
  EXPECT_FALSE(second.contains("prompt_token_ids"));
}

TEST_F(ResponseFormatTest, WritesTheLastChunk) {
  const UsageTotals usage{.prompt_tokens = 3, .cached_tokens = 2, .completion_tokens = 4};
  const Json metrics{{"a", 1}};
  const Json chunk = Parsed(Format().LastChunk(&usage, &metrics));
  EXPECT_EQ(chunk["choices"], Json::array());
  EXPECT_EQ(chunk["usage"], (Json{{"prompt_tokens", 3},
                                  {"completion_tokens", 4},
                                  {"total_tokens", 7},
                                  {"prompt_tokens_details", Json{{"cached_tokens", 2}}}}));
  EXPECT_EQ(chunk["metrics"], metrics);
}

TEST_F(ResponseFormatTest, TellsStopStringsFromTokens) {
  request_.sampling.stop = {"7"};
  ChoiceOutput choice{.finish = FinishReason::kStop};
  const auto reason = [&](const std::string& text) {
    choice.stop_reason = text;
    return Parsed(Format().Whole({choice}, {}, nullptr))["choices"][0]["stop_reason"];
  };
  EXPECT_EQ(reason(""), nullptr);
  EXPECT_EQ(reason("7"), "7");
  EXPECT_EQ(reason("8"), 8);
  EXPECT_EQ(reason("END"), "END");
}

TEST_F(ResponseFormatTest, WritesLogprobs) {
  request_.sampling.logprobs = 2;
  // "h", half a character, and a value that JSON cannot say.
  ChoiceOutput choice;
  choice.text_offset = 10;
  choice.logprobs = {
      {.token = 'h', .logprob = -1.5f, .top = {{'i', -0.5f}, {'h', -1.5f}}},
      {.token = 0xC3, .logprob = -std::numeric_limits<float>::infinity(), .top = {}}};
  const Json completion = Parsed(Format().Chunk(choice, true, nullptr))["choices"][0]["logprobs"];
  EXPECT_EQ(completion["tokens"], (Json{"h", "bytes:\\xc3"}));
  EXPECT_EQ(completion["token_logprobs"], (Json{-1.5, -9999.0}));
  EXPECT_EQ(completion["top_logprobs"][0], (Json{{"i", -0.5}, {"h", -1.5}}));
  EXPECT_EQ(completion["text_offset"], (Json{10, 11}));
  EXPECT_EQ(Format().TextLength(choice.logprobs), 1 + 10);

  request_.chat = true;
  const Json chat =
      Parsed(Format().Chunk(choice, true, nullptr))["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(chat.size(), 2u);
  EXPECT_EQ(chat[0]["token"], "h");
  EXPECT_EQ(chat[0]["bytes"], (Json{104}));
  EXPECT_EQ(chat[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(chat[1]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(chat[1]["bytes"], (Json{0xC3}));

  request_.tokens_as_ids = true;
  EXPECT_EQ(Parsed(Format().Chunk(choice, true,
                                  nullptr))["choices"][0]["logprobs"]["content"][0]["token"],
            "token_id:104");
}

TEST(SpeculationMetrics, AreVllmsSummary) {
  const Json metrics = SpeculationMetrics({.rounds = 4,
                                           .drafted = 12,
                                           .verified = 10,
                                           .accepted = 5,
                                           .accepted_per_position = {3, 2, 0}},
                                          3);
  EXPECT_EQ(metrics["mean_acceptance_length"], 2.25);
  EXPECT_EQ(metrics["draft_acceptance_rate"], 0.5);
  // One round accepted nothing, one a single token, two two of them: together 5.
  EXPECT_EQ(metrics["acceptance_histogram"], (Json{1, 1, 2, 0}));
  EXPECT_EQ(metrics["num_spec_steps"], 4);
  EXPECT_EQ(metrics["num_accepted_draft_tokens"], 5);
  EXPECT_EQ(metrics["num_draft_tokens"], 10);
  EXPECT_EQ(metrics["num_produced_draft_tokens"], 12);
  EXPECT_EQ(metrics["num_spec_tokens"], 3);
  EXPECT_EQ(SpeculationMetrics({}, 0)["mean_acceptance_length"], 1.0);
}

}  // namespace
}  // namespace firesteel
