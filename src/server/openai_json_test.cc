#include "server/openai_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const ModelLimits kLimits{.vocab_size = 1000, .defaults = {}};

GenerationRequest ParseGood(const std::string& body, bool chat = false) {
  GenerationRequest request;
  const ApiError error = chat ? ParseChatRequest(body, kLimits, &request)
                              : ParseCompletionRequest(body, kLimits, &request);
  EXPECT_EQ(error.status, 0) << body << "\n" << error.message;
  return request;
}

TEST(OpenAiJson, WhatARequestDoesNotSayIsTheModelsDefault) {
  const ModelLimits limits{.vocab_size = 1000, .defaults = {.temperature = 0.6, .top_k = 20}};
  GenerationRequest plain, own, chat;
  ASSERT_EQ(ParseCompletionRequest(R"({"prompt": "a"})", limits, &plain).status, 0);
  EXPECT_EQ(plain.sampling.temperature, 0.6);
  EXPECT_EQ(plain.sampling.top_k, 20);
  EXPECT_EQ(plain.sampling.top_p, 1);
  ASSERT_EQ(
      ParseCompletionRequest(R"({"prompt": "a", "temperature": 0, "top_p": 0.5})", limits, &own)
          .status,
      0);
  EXPECT_EQ(own.sampling.temperature, 0);
  EXPECT_EQ(own.sampling.top_k, 20);
  EXPECT_EQ(own.sampling.top_p, 0.5);
  const char* body = R"({"messages": [{"role": "user", "content": "a"}]})";
  ASSERT_EQ(ParseChatRequest(body, limits, &chat).status, 0);
  EXPECT_EQ(chat.sampling.temperature, 0.6);
}

TEST(OpenAiJson, FieldsThatAskForNothingAreFine) {
  ParseGood(R"({"prompt": "a", "length_penalty": 1.0, "bad_words": []})");
}

enum Kind { kCompletion, kChat, kTokenize, kDetokenize };

struct BadBody {
  Kind kind;
  std::string body;
  std::string param;
  std::string message;  // the whole of it
};

ApiError ParseBad(const BadBody& bad) {
  GenerationRequest request;
  TokenizeRequest tokenize;
  DetokenizeRequest detokenize;
  switch (bad.kind) {
    case kCompletion:
      return ParseCompletionRequest(bad.body, kLimits, &request);
    case kChat:
      return ParseChatRequest(bad.body, kLimits, &request);
    case kTokenize:
      return ParseTokenizeRequest(bad.body, &tokenize);
    case kDetokenize:
      return ParseDetokenizeRequest(bad.body, kLimits, &detokenize);
  }
  return {};
}

// A completion or chat that is good but for `fields`.
BadBody Completion(const std::string& fields, const std::string& param,
                   const std::string& message) {
  return {kCompletion, R"({"prompt": "a", )" + fields + "}", param, message};
}
BadBody Chat(const std::string& fields, const std::string& param, const std::string& message) {
  return {kChat, R"({"messages": [{"role": "user", "content": "a"}], )" + fields + "}", param,
          message};
}
BadBody Messages(const std::string& messages, const std::string& param,
                 const std::string& message) {
  return {kChat, R"({"messages": )" + messages + "}", param, message};
}

TEST(OpenAiJson, NamesWhatIsWrong) {
  const std::string kinds =
      "a string, an array of strings, an array of token ids, or an array of such arrays";
  const BadBody kBad[] = {
      {kCompletion, "[]", "", "request body: is [], expected an object"},
      {kCompletion, "7", "", "request body: is 7, expected an object"},
      {kCompletion, "{}", "prompt", "prompt is missing, expected " + kinds},
      {kCompletion, R"({"prompt": null})", "prompt", "prompt is missing, expected " + kinds},
      {kCompletion, R"({"prompt": 5})", "prompt", "prompt is 5, expected " + kinds},
      {kCompletion, R"({"prompt": {}})", "prompt", "prompt is an object, expected " + kinds},
      {kCompletion, R"({"prompt": []})", "prompt", "prompt is [], expected " + kinds},
      {kCompletion, R"({"prompt": ["a", 1]})", "prompt[1]",
       "prompt[1] is 1, expected a string, as prompt[0] is"},
      {kCompletion, R"({"prompt": [1, "a"]})", "prompt[1]",
       "prompt[1] is \"a\", expected a token id from 0 to 999"},
      {kCompletion, R"({"prompt": [1, 1000]})", "prompt[1]",
       "prompt[1] is 1000, expected a token id from 0 to 999"},
      {kCompletion, R"({"prompt": [-1]})", "prompt[0]",
       "prompt[0] is -1, expected a token id from 0 to 999"},
      {kCompletion, R"({"prompt": [1.5]})", "prompt[0]",
       "prompt[0] is 1.5, expected a token id from 0 to 999"},
      {kCompletion, R"({"prompt": [[1], []]})", "prompt[1]",
       "prompt[1] is [], expected at least one token id"},
      {kCompletion, R"({"prompt": [[1], 2]})", "prompt[1]",
       "prompt[1] is 2, expected a string or an array of token ids"},
      {kCompletion, R"({"prompt": [[1, 9999]]})", "prompt[0][1]",
       "prompt[0][1] is 9999, expected a token id from 0 to 999"},
      {kCompletion, R"({"prompt": [null]})", "prompt[0]",
       "prompt[0] is null, expected a string or an array of token ids"},
      Completion(R"("model": 3)", "model", "model is 3, expected a string"),
      Completion(R"("max_tokens": 0)", "max_tokens",
                 "max_tokens is 0, expected an integer of at least 1"),
      Completion(R"("max_tokens": "many")", "max_tokens",
                 "max_tokens is \"many\", expected an integer of at least 1"),
      Completion(R"("max_tokens": 1.5)", "max_tokens",
                 "max_tokens is 1.5, expected an integer of at least 1"),
      Completion(R"("max_tokens": 99999999999)", "max_tokens",
                 "max_tokens is 99999999999, expected an integer from 1 to 2147483647"),
      Completion(R"("temperature": "hot")", "temperature",
                 "temperature is \"hot\", expected a number of at least 0"),
      Completion(R"("temperature": -0.1)", "temperature",
                 "temperature is -0.1, expected a number of at least 0"),
      Completion(R"("temperature": [1])", "temperature",
                 "temperature is [1], expected a number of at least 0"),
      Completion(R"("top_p": 0)", "top_p", "top_p is 0, expected a number above 0, up to 1"),
      Completion(R"("top_p": 1.1)", "top_p", "top_p is 1.1, expected a number from 0 to 1"),
      Completion(R"("top_k": -2)", "top_k", "top_k is -2, expected an integer of at least -1"),
      Completion(R"("top_k": true)", "top_k", "top_k is true, expected an integer of at least -1"),
      Completion(R"("min_p": 2)", "min_p", "min_p is 2, expected a number from 0 to 1"),
      Completion(R"("presence_penalty": 3)", "presence_penalty",
                 "presence_penalty is 3, expected a number from -2 to 2"),
      Completion(R"("frequency_penalty": -3)", "frequency_penalty",
                 "frequency_penalty is -3, expected a number from -2 to 2"),
      Completion(R"("repetition_penalty": 0)", "repetition_penalty",
                 "repetition_penalty is 0, expected a number above 0"),
      Completion(R"("n": 0)", "n", "n is 0, expected an integer from 1 to 64"),
      Completion(R"("n": 65)", "n", "n is 65, expected an integer from 1 to 64"),
      Completion(R"("n": 2, "best_of": 3)", "best_of",
                 "best_of is 3, expected n, which is 2: choosing among more answers than are "
                 "returned is not supported"),
      Completion(R"("seed": "x")", "seed", "seed is \"x\", expected a 64-bit integer"),
      Completion(
          R"("seed": 1e30)", "seed",
          "seed is 1e+30, expected an integer from -9223372036854775808 to 9223372036854775807"),
      Completion(R"("stop": 7)", "stop",
                 "stop is 7, expected a string that is not empty, or an array of them"),
      Completion(R"("stop": "")", "stop",
                 "stop is \"\", expected a string that is not empty, or an array of them"),
      Completion(R"("stop": ["a", ""])", "stop[1]",
                 "stop[1] is \"\", expected a string that is not empty"),
      Completion(R"("stop": ["a", ")" + std::string(1025, 'x') + "\"]", "stop",
                 "stop holds a string of 1025 bytes, expected at most 1024"),
      Completion("\"stop_token_ids\": " + DumpJson(Json(std::vector<int>(4097, 7))),
                 "stop_token_ids",
                 "stop_token_ids is an array of 4097, expected at most 4096 token ids"),
      Completion(R"("stop_token_ids": 5)", "stop_token_ids",
                 "stop_token_ids is 5, expected an array"),
      Completion(R"("stop_token_ids": [1, 1000])", "stop_token_ids[1]",
                 "stop_token_ids[1] is 1000, expected an integer from 0 to 999"),
      Completion(R"("min_tokens": -1)", "min_tokens",
                 "min_tokens is -1, expected an integer of at least 0"),
      Completion(R"("max_tokens": 3, "min_tokens": 4)", "min_tokens",
                 "min_tokens is 4, expected at most max_tokens, which is 3"),
      Completion(R"("ignore_eos": 1)", "ignore_eos", "ignore_eos is 1, expected true or false"),
      Completion(R"("include_stop_str_in_output": "no")", "include_stop_str_in_output",
                 "include_stop_str_in_output is \"no\", expected true or false"),
      Completion(R"("skip_special_tokens": {})", "skip_special_tokens",
                 "skip_special_tokens is an object, expected true or false"),
      Completion(R"("spec_tokens": -2)", "spec_tokens",
                 "spec_tokens is -2, expected an integer of at least -1"),
      Completion(R"("spec_metrics": 1)", "spec_metrics",
                 "spec_metrics is 1, expected true or false"),
      Completion(R"("return_token_ids": "yes")", "return_token_ids",
                 "return_token_ids is \"yes\", expected true or false"),
      Completion(R"("logprobs": 21)", "logprobs",
                 "logprobs is 21, expected an integer from 0 to 20"),
      Completion(R"("logprobs": true)", "logprobs",
                 "logprobs is true, expected an integer from 0 to 20"),
      Completion(R"("logit_bias": [1])", "logit_bias", "logit_bias is [1], expected an object"),
      Completion(R"("logit_bias": {"a": 1})", "logit_bias",
                 "logit_bias has the key \"a\", expected token ids from 0 to 999"),
      Completion(R"("logit_bias": {"1000": 1})", "logit_bias",
                 "logit_bias has the key \"1000\", expected token ids from 0 to 999"),
      Completion(R"("logit_bias": {"5": 101})", "logit_bias.5",
                 "logit_bias.5 is 101, expected a number from -100 to 100"),
      Completion(R"("logit_bias": {"5": null})", "logit_bias.5",
                 "logit_bias.5 is null, expected a number from -100 to 100"),
      Completion(R"("stream": "true")", "stream", "stream is \"true\", expected true or false"),
      Completion(R"("stream_options": {"include_usage": true})", "stream_options",
                 "stream_options is an object, expected nothing, since stream is not true"),
      Completion(R"("stream": true, "stream_options": 1)", "stream_options",
                 "stream_options is 1, expected an object"),
      Completion(R"("stream": true, "stream_options": {"include_usage": 1})",
                 "stream_options.include_usage",
                 "stream_options.include_usage is 1, expected true or false"),
      Completion(R"("echo": true)", "echo", "echo is not supported"),
      Completion(R"("suffix": "end")", "suffix", "suffix is not supported"),
      Completion(R"("prompt_logprobs": 1)", "prompt_logprobs", "prompt_logprobs is not supported"),
      Completion(R"("use_beam_search": true)", "use_beam_search",
                 "use_beam_search is not supported"),
      Completion(R"("guided_json": {})", "guided_json", "guided_json is not supported"),
      {kChat, "{}", "messages", "messages is missing, expected an array of messages"},
      Messages(R"("hi")", "messages", "messages is \"hi\", expected an array"),
      Messages("[]", "messages", "messages is [], expected at least one message"),
      Messages(R"(["hi"])", "messages[0]",
               "messages[0] is \"hi\", expected an object with role and content"),
      Messages(R"([{"content": "a"}])", "messages[0].role",
               "messages[0].role is null, expected a string such as \"user\""),
      Messages(R"([{"role": 1, "content": "a"}])", "messages[0].role",
               "messages[0].role is 1, expected a string such as \"user\""),
      Messages(R"([{"role": "user"}])", "messages[0].content",
               "messages[0].content is missing, expected a string or an array of text parts"),
      Messages(R"([{"role": "user", "content": 1}])", "messages[0].content",
               "messages[0].content is 1, expected a string or an array of text parts"),
      Messages(R"([{"role": "user", "content": ["a"]}])", "messages[0].content[0]",
               "messages[0].content[0] is \"a\", expected an object with type and text"),
      Messages(R"([{"role": "user", "content": [{"type": "image_url"}]}])",
               "messages[0].content[0].type",
               "messages[0].content[0].type is \"image_url\", expected \"text\": other kinds of "
               "content are not supported"),
      Messages(R"([{"role": "user", "content": [{"type": "text", "text": 1}]}])",
               "messages[0].content[0].text",
               "messages[0].content[0].text is 1, expected a string"),
      Chat(R"("max_completion_tokens": -1)", "max_completion_tokens",
           "max_completion_tokens is -1, expected an integer of at least 1"),
      Chat(R"("logprobs": 1)", "logprobs", "logprobs is 1, expected true or false"),
      Chat(R"("top_logprobs": 2)", "top_logprobs",
           "top_logprobs is 2, expected nothing, since logprobs is not true"),
      Chat(R"("logprobs": true, "top_logprobs": 21)", "top_logprobs",
           "top_logprobs is 21, expected an integer from 0 to 20"),
      Chat(R"("tools": {})", "tools", "tools is an object, expected an array"),
      Chat(R"("tools": [1])", "tools[0]", "tools[0] is 1, expected an object"),
      Chat(R"("tool_choice": "required")", "tool_choice",
           "tool_choice is \"required\", expected \"auto\" or \"none\": forcing a call is not "
           "supported"),
      Chat(R"("response_format": {"type": "json_object"})", "response_format.type",
           "response_format.type is \"json_object\", expected \"text\": other formats are not "
           "supported"),
      Chat(R"("response_format": "text")", "response_format",
           "response_format is \"text\", expected an object"),
      Chat(R"("chat_template": "x")", "chat_template", "chat_template is not supported"),
      Chat(R"("chat_template_kwargs": [])", "chat_template_kwargs",
           "chat_template_kwargs is [], expected an object"),
      Chat(R"("add_generation_prompt": 0)", "add_generation_prompt",
           "add_generation_prompt is 0, expected true or false"),
      Chat(R"("continue_final_message": true)", "continue_final_message",
           "continue_final_message is not supported"),
      {kTokenize, "{}", "prompt", "prompt and messages are missing, expected one of them"},
      {kTokenize, R"({"prompt": 1})", "prompt", "prompt is 1, expected a string"},
      {kTokenize, R"({"prompt": "a", "return_token_strs": 1})", "return_token_strs",
       "return_token_strs is 1, expected true or false"},
      {kDetokenize, "{}", "tokens", "tokens is missing, expected an array of token ids"},
      {kDetokenize, R"({"tokens": [1000]})", "tokens[0]",
       "tokens[0] is 1000, expected an integer from 0 to 999"},
  };
  for (const BadBody& bad : kBad) {
    const ApiError error = ParseBad(bad);
    EXPECT_EQ(error.status, 400) << bad.body;
    EXPECT_EQ(error.param, bad.param) << bad.body;
    EXPECT_EQ(error.message, bad.message) << bad.body;
  }
}

TEST(OpenAiJson, RefusesWhatIsNoJson) {
  for (const std::string body :
       {"", "{", "nonsense", "{\"prompt\": \"\xff\"}", "{\"prompt\": \"a\"} x", "{'prompt': 1}"}) {
    const ApiError error = ParseBad({kCompletion, body, "", ""});
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_THAT(error.message, HasSubstr("request body: is not valid JSON"));
  }
  const std::string deep = R"({"prompt": )" + std::string(100'000, '[');
  EXPECT_THAT(ParseBad({kCompletion, deep, "", ""}).message,
              HasSubstr("nested deeper than 256 levels"));
  std::string wide = R"({"prompt": "a")";
  for (int i = 0; i < 200'000; ++i) wide += ",\"" + std::to_string(i) + "\":0";
  EXPECT_THAT(ParseBad({kCompletion, wide + "}", "", ""}).message,
              HasSubstr("more than 1024 members"));
}

TEST(OpenAiJson, CutsLongValuesInMessages) {
  const ApiError error =
      ParseBad(Completion("\"top_k\": \"" + std::string(5000, 'x') + "\"", "", ""));
  EXPECT_LT(error.message.size(), 200u);
  EXPECT_THAT(error.message, HasSubstr("xxx…, expected an integer"));
}

TEST(OpenAiJson, ReadsEveryKindOfPrompt) {
  const auto prompts = [](const std::string& prompt) {
    return ParseGood("{\"prompt\": " + prompt + "}").prompts;
  };
  EXPECT_THAT(prompts(R"("text")"), ElementsAre(Prompt("text")));
  EXPECT_THAT(prompts(R"("")"), ElementsAre(Prompt("")));
  EXPECT_THAT(prompts(R"(["a", "b"])"), ElementsAre(Prompt("a"), Prompt("b")));
  EXPECT_THAT(prompts("[1, 2.0]"), ElementsAre(Prompt(std::vector<int32_t>{1, 2})));
  EXPECT_THAT(prompts("[[1], [2, 3]]"),
              ElementsAre(Prompt(std::vector<int32_t>{1}), Prompt(std::vector<int32_t>{2, 3})));
}

TEST(OpenAiJson, HasOpenAiDefaults) {
  const GenerationRequest request = ParseGood(R"({"prompt": "a"})");
  const SamplingParams defaults;
  EXPECT_FALSE(request.has_max_tokens);
  EXPECT_EQ(request.sampling.temperature, 1.0);
  EXPECT_EQ(request.sampling.logprobs, -1);
  EXPECT_EQ(request.sampling.seed, std::nullopt);
  EXPECT_EQ(request.sampling.spec_tokens, defaults.spec_tokens);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.add_special_tokens);
}

TEST(OpenAiJson, ReadsEveryParameter) {
  const GenerationRequest request = ParseGood(R"({
    "model": "m", "prompt": "a", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1,
    "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1, "seed": -5, "n": 3, "best_of": 3,
    "min_tokens": 2, "ignore_eos": true, "stop_token_ids": [4, 5], "stop": ["x", "y"], "logprobs": 2,
    "include_stop_str_in_output": true, "skip_special_tokens": false, "spec_tokens": 4, "spec_metrics": true,
    "logit_bias": {"10": 2.5, "11": -100}, "stream": true, "return_token_ids": true, "add_special_tokens": false,
    "stream_options": {"include_usage": true, "continuous_usage_stats": true}, "return_tokens_as_token_ids": true,
    "user": "somebody", "echo": false, "suffix": null, "unknown": {"a": [1]}})");
  EXPECT_EQ(request.model, "m");
  const SamplingParams& sampling = request.sampling;
  EXPECT_TRUE(request.has_max_tokens);
  EXPECT_EQ(sampling.max_tokens, 7);
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -1);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.seed, static_cast<uint64_t>(-5));
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(4, 5));
  EXPECT_THAT(sampling.stop, ElementsAre("x", "y"));
  EXPECT_EQ(sampling.logprobs, 2);
  EXPECT_TRUE(sampling.include_stop_in_output);
  EXPECT_FALSE(sampling.skip_special_tokens);
  EXPECT_EQ(sampling.spec_tokens, 4);
  EXPECT_TRUE(request.spec_metrics);
  EXPECT_THAT(sampling.logit_bias, ElementsAre(Pair(10, 2.5f), Pair(11, -100.0f)));
  EXPECT_TRUE(request.stream && request.include_usage && request.continuous_usage);
  EXPECT_TRUE(request.return_token_ids && request.tokens_as_ids);
  EXPECT_FALSE(request.add_special_tokens);
}

TEST(OpenAiJson, TakesAnySeed) {
  EXPECT_EQ(ParseGood(R"({"prompt": "a", "seed": -9223372036854775808})").sampling.seed,
            uint64_t{1} << 63);
  EXPECT_EQ(ParseGood(R"({"prompt": "a", "seed": 9223372036854775807})").sampling.seed,
            (uint64_t{1} << 63) - 1);
  EXPECT_EQ(ParseGood(R"({"prompt": "a", "stop": "one", "seed": null})").sampling.seed,
            std::nullopt);
}

TEST(OpenAiJson, ReadsChats) {
  const GenerationRequest request = ParseGood(R"({
    "messages": [
      {"role": "system", "content": "s"},
      {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "name": "n"},
      {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "content": "4"}],
    "tools": [{"type": "function"}], "tool_choice": "auto", "chat_template_kwargs": {"enable_thinking": false},
    "add_generation_prompt": false, "max_tokens": 1, "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 3,
    "response_format": {"type": "text"}})",
                                              /*chat=*/true);
  EXPECT_TRUE(request.chat);
  const Json& messages = request.chat_input.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1]["content"], "one\ntwo");
  EXPECT_EQ(messages[1]["name"], "n");
  EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["arguments"], (Json{{"a", 1}}));
  EXPECT_EQ(request.chat_input.tools.size(), 1u);
  EXPECT_EQ(request.chat_input.template_kwargs, (Json{{"enable_thinking", false}}));
  EXPECT_FALSE(request.chat_input.add_generation_prompt);
  EXPECT_EQ(request.sampling.max_tokens, 9);
  EXPECT_EQ(request.sampling.logprobs, 3);

  const GenerationRequest plain = ParseGood(
      R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}], "tool_choice": "none", "logprobs": true})",
      true);
  EXPECT_TRUE(plain.chat_input.tools.is_null());
  EXPECT_EQ(plain.sampling.logprobs, 0);
}

}  // namespace
}  // namespace firesteel
