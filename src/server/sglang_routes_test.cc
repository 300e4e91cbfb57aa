#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/sse.h"
#include "server/scripted_engine_internal.h"
#include "server/server.h"
#include "server/sglang_json.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] = "Hello, w\xC3\xB6rld!";  // ScriptedEngine's, one token a byte

class SglangRoutesTest : public ::testing::Test {
 protected:
  SglangRoutesTest() {
    ServerOptions options;
    options.port = 0;
    auto server = ApiServer::Listen(options);
    EXPECT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
    auto tokenizer = Tokenizer::Load(FIRESTEEL_SOURCE_DIR "/src/text/testdata/qwen");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    auto engine = std::make_unique<ScriptedEngine>(*std::move(tokenizer), ScriptedEngine::Script());
    engine_ = engine.get();
    server_->SetEngine(std::move(engine));
  }

  HttpClient::Response Fetch(const char* method, const std::string& path,
                             const std::string& body = "", const std::string& key = "") const {
    HttpCall call;
    if (!key.empty()) call.headers.emplace_back("Authorization", "Bearer " + key);
    call.method = method;
    call.url = "http://127.0.0.1:" + std::to_string(server_->Port()) + path;
    call.body = body;
    const auto response = HttpClient::Fetch(std::move(call));
    EXPECT_TRUE(response.ok()) << response.status().message();
    return response.ok() ? *response : HttpClient::Response{};
  }

  std::unique_ptr<ApiServer> server_;
  ScriptedEngine* engine_ = nullptr;
};

TEST_F(SglangRoutesTest, AStreamRepeatsTheTextSoFar) {
  const auto response = Fetch("POST", "/generate", R"({"text":"hi","stream":true,
      "sampling_params":{"max_new_tokens":7,"temperature":0,"ignore_eos":true},
      "return_logprob":false,"lora_path":null})");
  ASSERT_EQ(response.status, 200) << response.body;
  std::vector<std::string> texts;
  std::vector<int> counts;
  Json last;
  bool done = false;
  SseParser().Push(response.body, [&](std::string_view data) {
    if (data == "[DONE]") {
      done = true;
      return;
    }
    last = *ParseJson(data, "event");
    texts.push_back(last["text"]);
    counts.push_back(last["meta_info"]["completion_tokens"]);
  });
  EXPECT_TRUE(done);
  ASSERT_EQ(counts.size(), 7u);
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(counts[i], static_cast<int>(i + 1));
    EXPECT_EQ(std::string(kText).substr(0, texts[i].size()), texts[i]);
  }
  EXPECT_EQ(last["meta_info"]["finish_reason"]["type"], "length");
  EXPECT_EQ(last["meta_info"]["prompt_tokens"], 2);
  EXPECT_EQ(engine_->Requests().front().sampling.max_tokens, 7);
  EXPECT_TRUE(engine_->Requests().front().sampling.ignore_eos);
}

TEST_F(SglangRoutesTest, KeysMakeTenants) {
  const auto tenant_of = [&](const std::string& key) {
    EXPECT_EQ(Fetch("POST", "/generate", R"({"input_ids":[1,2,3]})", key).status, 200);
    return engine_->Requests().back().tenant;
  };
  const std::string a = tenant_of("a"), b = tenant_of("b");
  EXPECT_NE(a, b);
  EXPECT_NE(a, tenant_of(""));
  EXPECT_EQ(a, tenant_of("a"));
}

TEST_F(SglangRoutesTest, AWholeAnswerHasTextIdsAndCounts) {
  const auto response =
      Fetch("POST", "/generate", R"({"input_ids":[1,2,3],"sampling_params":{"sampling_seed":5}})");
  ASSERT_EQ(response.status, 200) << response.body;
  const auto json = ParseJson(response.body, "body");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["text"], kText);
  EXPECT_EQ((*json)["output_ids"].size(), 14u);
  EXPECT_EQ((*json)["meta_info"]["prompt_tokens"], 3);
  EXPECT_EQ((*json)["meta_info"]["cached_tokens"], 1);
  EXPECT_EQ((*json)["meta_info"]["finish_reason"]["type"], "stop");
  EXPECT_THAT(engine_->Requests().front().prompt, ElementsAre(1, 2, 3));
  EXPECT_EQ(engine_->Requests().front().sampling.seed, 5u);
  EXPECT_EQ(engine_->Requests().front().sampling.max_tokens, 128);
}

TEST_F(SglangRoutesTest, BadBodiesAreNamedInItsWords) {
  const struct {
    const char* body;
    const char* message;
  } kCases[] = {
      {"{}", "expected one of text and input_ids"},
      {R"({"text":"a","input_ids":[1]})", "expected one of text and input_ids"},
      {R"({"text":["a","b"]})", "batches are not supported"},
      {R"({"input_ids":[[1]]})", "a list of token ids"},
      {R"({"text":"a","sampling_params":{"max_new_tokens":0}})",
       "sampling_params.max_new_tokens is 0"},
      {R"({"text":"a","sampling_params":{"n":2}})", "sampling_params.n is 2"},
      {R"({"text":"a","sampling_params":{"temperature":-1}})", "temperature"},
      {R"({"text":"a","sampling_params":{"regex":"x"}})", "regex is not supported"},
      {R"({"text":"a","return_logprob":true})", "return_logprob is not supported"},
      {R"({"text":"a","lora_path":"x"})", "lora_path is not supported"},
      {"[", "body"},
  };
  for (const auto& c : kCases) {
    const auto response = Fetch("POST", "/generate", c.body);
    EXPECT_EQ(response.status, 400) << c.body;
    EXPECT_THAT(response.body, HasSubstr(c.message)) << c.body;
  }
}

TEST_F(SglangRoutesTest, TellsAboutItselfAndFlushes) {
  for (const char* path : {"/server_info", "/get_server_info"}) {
    const auto response = Fetch("GET", path);
    EXPECT_EQ(response.status, 200);
    const auto json = ParseJson(response.body, path);
    ASSERT_TRUE(json.ok());
    EXPECT_EQ((*json)["model_path"], "scripted");
    EXPECT_EQ((*json)["internal_states"].size(), 1u);
  }
  EXPECT_EQ(Fetch("POST", "/flush_cache").status, 200);
  EXPECT_EQ(Fetch("GET", "/flush_cache").status, 200);
}

}  // namespace
}  // namespace firesteel
