#include "bench/request_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firesteel {
namespace {

Prompt Text() {
  Prompt prompt;
  prompt.text = "hi";
  prompt.output_tokens = 5;
  return prompt;
}

TEST(RequestBodyTest, OurOwn) {
  BodySettings settings;
  settings.model = "m";
  settings.extra = Json{{"temperature", 0.5}};
  Prompt prompt = Text();
  prompt.body = Json{{"seed", 3}};
  EXPECT_EQ(RequestBody(settings, {}, prompt),
            R"({"model":"m","prompt":"hi","max_tokens":5,"temperature":0.5,"stream":true,)"
            R"("stream_options":{"include_usage":true},"return_token_ids":true,"seed":3})");
  prompt.token_ids = {1, 2};
  settings.ignore_eos = true;
  EXPECT_EQ(RequestBody(settings, {.token_ids = false, .usage = false}, prompt),
            R"({"model":"m","prompt":[1,2],"max_tokens":5,"temperature":0.5,"ignore_eos":true,)"
            R"("stream":true,"seed":3})");
  settings.api = ApiKind::kChat;
  EXPECT_EQ(RequestBody(settings, {.token_ids = false, .usage = false}, Text()),
            R"({"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,)"
            R"("temperature":0.5,"ignore_eos":true,"stream":true})");
}

TEST(RequestBodyTest, VllmsTool) {
  BodySettings settings;
  settings.dialect = Dialect::kVllm;
  settings.model = "m";
  EXPECT_EQ(RequestBody(settings, {}, Text()),
            R"({"model":"m","prompt":"hi","max_tokens":5,"repetition_penalty":1.0,)"
            R"("logprobs":null,"stream":true,"stream_options":{"include_usage":true}})");
  settings.api = ApiKind::kChat;
  EXPECT_EQ(RequestBody(settings, {}, Text()),
            R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],)"
            R"("max_completion_tokens":5,"stream":true,"stream_options":{"include_usage":true}})");
}

TEST(RequestBodyTest, SglangsTool) {
  BodySettings settings;
  settings.dialect = Dialect::kSglang;
  settings.model = "m";
  settings.ignore_eos = true;
  EXPECT_EQ(RequestBody(settings, {}, Text()),
            R"({"model":"m","prompt":"hi","max_tokens":5,"temperature":0.0,"best_of":1,)"
            R"("ignore_eos":true,"stream":true})");
  settings.api = ApiKind::kChat;
  EXPECT_EQ(RequestBody(settings, {}, Text()),
            R"({"model":"m","messages":[{"role":"user","content":"hi"}],)"
            R"("max_completion_tokens":5,"temperature":0.0,"ignore_eos":true,"stream":true})");
  settings.api = ApiKind::kSglang;
  settings.extra =
      Json{{"top_p", 0.9}, {"sampling_params", Json{{"top_k", 4}}}, {"lora_path", "x"}};
  EXPECT_EQ(RequestBody(settings, {}, Text()),
            R"({"text":"hi","sampling_params":{"temperature":0.0,"max_new_tokens":5,)"
            R"("ignore_eos":true,"top_p":0.9,"top_k":4},"stream":true,"lora_path":"x"})");
  Prompt ids = Text();
  ids.token_ids = {7};
  EXPECT_NE(RequestBody(settings, {}, ids).find("\"input_ids\":[7]"), std::string::npos);
}

}  // namespace
}  // namespace firesteel
