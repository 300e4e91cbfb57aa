#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "firesteel/version.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "server/scripted_engine_internal.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] = "Hello, w\xC3\xB6rld!";  // ScriptedEngine's
constexpr int kTextTokens = 14;
constexpr char kTemplate[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "
    "%}<a>{% endif %}";

class ServerTest : public ::testing::Test {
 protected:
  void Listen(ServerOptions options = {}) {
    options.port = 0;
    auto server = ApiServer::Listen(options);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
  }
  void SetEngine(ScriptedEngine::Script script = {}, const std::string& tokenizer_name = "qwen") {
    auto tokenizer = Tokenizer::Load(FIRESTEEL_SOURCE_DIR "/src/text/testdata/" + tokenizer_name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    auto engine = std::make_unique<ScriptedEngine>(*std::move(tokenizer), std::move(script));
    engine_ = engine.get();
    server_->SetEngine(std::move(engine));
  }
  void Serve(ScriptedEngine::Script script = {}, ServerOptions options = {}) {
    if (options.chat_template.empty()) options.chat_template = kTemplate;
    Listen(std::move(options));
    SetEngine(std::move(script));
  }

  HttpCall Call(const std::string& path, const std::string& body = "") const {
    HttpCall call;
    call.method = body.empty() ? "GET" : "POST";
    call.url = "http://127.0.0.1:" + std::to_string(server_->Port()) + path;
    call.headers = {{"Content-Type", "application/json"}};
    call.body = body;
    call.timeout_ms = 30'000;
    return call;
  }
  HttpClient::Response Fetch(HttpCall call) const {
    const auto response = HttpClient::Fetch(std::move(call));
    EXPECT_TRUE(response.ok()) << response.status().message();
    return response.ok() ? *response : HttpClient::Response{};
  }
  HttpClient::Response Fetch(const std::string& path, const std::string& body = "") const {
    return Fetch(Call(path, body));
  }
  Json FetchJson(const std::string& path, const std::string& body = "", int status = 200) const {
    const HttpClient::Response response = Fetch(path, body);
    EXPECT_EQ(response.status, status) << response.body;
    const auto json = ParseJson(response.body, path);
    EXPECT_TRUE(json.ok()) << response.body;
    return json.ok() ? *json : Json();
  }

  // The events of a stream. Checks that [DONE] is there once, at the end, and leaves it out.
  static std::vector<Json> Events(const std::string& body) {
    std::vector<std::string> events;
    SseParser().Push(body, [&](std::string_view data) { events.emplace_back(data); });
    EXPECT_FALSE(events.empty());
    if (events.empty() || events.back() != "[DONE]") {
      ADD_FAILURE() << "no [DONE] at the end of:\n" << body;
      return {};
    }
    events.pop_back();
    std::vector<Json> parsed;
    for (const std::string& event : events) {
      const auto json = ParseJson(event, "event");
      EXPECT_TRUE(json.ok()) << event;
      if (json.ok()) parsed.push_back(*json);
    }
    return parsed;
  }
  std::vector<Json> Stream(const std::string& path, const std::string& body) const {
    const HttpClient::Response response = Fetch(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Events(response.body);
  }

  std::unique_ptr<ApiServer> server_;
  ScriptedEngine* engine_ = nullptr;
};

TEST_F(ServerTest, AnswersACompletion) {
  Serve();
  const Json body = FetchJson("/v1/completions",
                              R"({"model": "scripted", "prompt": "hi", "return_token_ids": true})");
  EXPECT_THAT(body["id"].get<std::string>(), ::testing::StartsWith("cmpl-"));
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "scripted");
  ASSERT_EQ(body["choices"].size(), 1u);
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["text"], kText);
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], nullptr);
  EXPECT_EQ(choice["logprobs"], nullptr);
  EXPECT_EQ(choice["token_ids"].size(), static_cast<size_t>(kTextTokens));
  const auto prompt = engine_->Requests().at(0).prompt;
  EXPECT_EQ(choice["prompt_token_ids"], Json(prompt));
  EXPECT_EQ(body["usage"]["prompt_tokens"], prompt.size());
  EXPECT_EQ(body["usage"]["completion_tokens"], kTextTokens);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
  EXPECT_FALSE(body.contains("metrics"));
  EXPECT_EQ(engine_->Requests().at(0).sampling.max_tokens, 16);
}

TEST_F(ServerTest, StreamsACompletion) {
  Serve();
  const auto events =
      Stream("/v1/completions", R"({"prompt": [1, 2, 3], "stream": true, "return_token_ids": true,
                                                   "stream_options": {"include_usage": true}})");
  std::string text;
  std::vector<int32_t> tokens;
  std::set<std::string> ids;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json& choice = events[i]["choices"][0];
    text += choice["text"].get<std::string>();
    for (const Json& token : choice["token_ids"]) tokens.push_back(token.get<int32_t>());
    ids.insert(events[i]["id"].get<std::string>());
    EXPECT_EQ(choice["finish_reason"].is_null(), i + 2 < events.size());
    EXPECT_EQ(choice.contains("prompt_token_ids"), i == 0);
    EXPECT_TRUE(events[i]["usage"].is_null());
  }
  EXPECT_EQ(text, kText);
  EXPECT_EQ(tokens.size(), static_cast<size_t>(kTextTokens));
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"]["total_tokens"], 3 + kTextTokens);
}

TEST_F(ServerTest, AnswersAndStreamsAChat) {
  Serve();
  const std::string messages = R"("messages": [{"role": "user", "content": "hi"}])";
  const Json body =
      FetchJson("/v1/chat/completions", "{" + messages + R"(, "logprobs": true, "top_logprobs": 2,
                                                        "return_token_ids": true, "spec_metrics": true})");
  EXPECT_EQ(body["object"], "chat.completion");
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"], (Json{{"role", "assistant"}, {"content", kText}}));
  EXPECT_EQ(choice["logprobs"]["content"].size(), static_cast<size_t>(kTextTokens));
  EXPECT_EQ(choice["logprobs"]["content"][0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(body["metrics"]["speculative_decoding"]["mean_acceptance_length"], 2.25);
  // The prompt is the template's text; a chat may use the rest of the context.
  const Request request = engine_->Requests().at(0);
  EXPECT_EQ(engine_->tokenizer().Decode(request.prompt, false), "<user>hi<a>");
  EXPECT_EQ(request.sampling.max_tokens, 100 - static_cast<int32_t>(request.prompt.size()));
  EXPECT_EQ(body["prompt_token_ids"], Json(request.prompt));

  const auto events =
      Stream("/v1/chat/completions", "{" + messages + R"(, "stream": true, "spec_metrics": true})");
  std::string text;
  for (const Json& event : events) {
    if (event["choices"].empty()) continue;
    const Json& delta = event["choices"][0]["delta"];
    EXPECT_EQ(delta.contains("role"), &event == &events.front());
    text += delta["content"].get<std::string>();
  }
  EXPECT_EQ(text, kText);
  EXPECT_EQ(events.back()["metrics"]["speculative_decoding"]["num_spec_steps"], 4);
}

TEST_F(ServerTest, GivesNAnswersToEachPrompt) {
  Serve();
  const Json body = FetchJson("/v1/completions",
                              R"({"prompt": ["a", "bc"], "n": 3, "seed": 5, "max_tokens": 2})");
  ASSERT_EQ(body["choices"].size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["finish_reason"], "length");
    EXPECT_EQ(body["choices"][i]["text"], "He");
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 12);
  std::multiset<int32_t> numbers;
  size_t prompt_tokens = 0;
  for (const Request& request : engine_->Requests()) {
    numbers.insert(request.sampling.choice);
    EXPECT_EQ(request.sampling.seed, 5u);
    if (request.sampling.choice == 0) prompt_tokens += request.prompt.size();
  }
  EXPECT_THAT(numbers, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_EQ(body["usage"]["prompt_tokens"], prompt_tokens);

  std::map<int, std::string> texts;
  for (const Json& event :
       Stream("/v1/completions", R"({"prompt": "a", "n": 3, "stream": true})")) {
    texts[event["choices"][0]["index"].get<int>()] +=
        event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(texts, (std::map<int, std::string>{{0, kText}, {1, kText}, {2, kText}}));
}

TEST_F(ServerTest, SaysWhatStoppedIt) {
  Serve({.stop_reason = "rld"});
  EXPECT_EQ(FetchJson("/v1/completions",
                      R"({"prompt": "a", "stop": ["rld"]})")["choices"][0]["stop_reason"],
            "rld");
  EXPECT_THAT(engine_->Requests().at(0).sampling.stop, ElementsAre("rld"));
}

TEST_F(ServerTest, ContinuousUsageCountsUp) {
  Serve();
  const auto events = Stream("/v1/completions", R"({"prompt": [1], "stream": true, "max_tokens": 3,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true}})");
  ASSERT_EQ(events.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[i]["usage"]["completion_tokens"], i + 1);
}

TEST_F(ServerTest, AnErrorDuringAStreamEndsItProperly) {
  Serve({.fail_after = 3});
  const auto events = Stream("/v1/completions", R"({"prompt": "a", "stream": true, "n": 2})");
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events.back()["error"]["message"], "scripted failure");
  EXPECT_EQ(events.back()["error"]["type"], "server_error");
  int errors = 0;
  for (const Json& event : events) errors += event.contains("error");
  EXPECT_EQ(errors, 1);

  const Json whole = FetchJson("/v1/completions", R"({"prompt": "a"})", 500);
  EXPECT_EQ(whole["error"]["message"], "scripted failure");
}

TEST_F(ServerTest, AFullQueueIs429AndTakesBackWhatWasAccepted) {
  Serve({.hold_after = 0,
         .refuse = ResourceExhausted("the queue is full"),
         .accept_before_refusing = 2});
  const Json body = FetchJson("/v1/completions", R"({"prompt": "a", "n": 3, "stream": true})", 429);
  EXPECT_EQ(body["error"]["message"], "the queue is full");
  EXPECT_EQ(body["error"]["code"], "rate_limit_exceeded");
  EXPECT_TRUE(engine_->WaitForCancelled(2));
}

TEST_F(ServerTest, MapsRefusals) {
  Serve({.refuse = InvalidArgument("too long by 7")});
  EXPECT_EQ(FetchJson("/v1/completions", R"({"prompt": "a"})", 400)["error"],
            (Json{{"message", "too long by 7"},
                  {"type", "invalid_request_error"},
                  {"param", nullptr},
                  {"code", nullptr}}));
}

TEST_F(ServerTest, NamesBadFieldsRoutesAndModels) {
  Serve({}, {.served_model_names = {"one", "two"}});
  const Json field =
      FetchJson("/v1/completions", R"({"prompt": "a", "temperature": "x"})", 400)["error"];
  EXPECT_EQ(field["param"], "temperature");
  EXPECT_EQ(field["type"], "invalid_request_error");
  EXPECT_THAT(field["message"].get<std::string>(), HasSubstr("\"x\""));
  const Json model =
      FetchJson("/v1/completions", R"({"prompt": "a", "model": "three"})", 404)["error"];
  EXPECT_EQ(model["code"], "model_not_found");
  EXPECT_EQ(model["message"], "The model `three` does not exist; this server has `one`, `two`.");
  EXPECT_EQ(FetchJson("/v1/completions", R"({"prompt": "a", "model": "two"})")["model"], "one");
  EXPECT_EQ(FetchJson("/v1/completions", R"({"prompt": ""})", 400)["error"]["param"], "prompt");
  EXPECT_EQ(FetchJson("/nothing", "", 404)["error"]["message"], "there is no route GET /nothing");
  EXPECT_EQ(FetchJson("/v1/completions", "", 405)["error"]["message"],
            "/v1/completions is asked with GET, expected POST");
  HttpCall odd = Call("/health");
  odd.method = "BREW";
  EXPECT_EQ(Fetch(std::move(odd)).status, 405);
  EXPECT_TRUE(engine_->Requests().size() == 1);
}

TEST_F(ServerTest, ListsModels) {
  Serve({}, {.served_model_names = {"one", "two", "org/50%"}});
  const Json list = FetchJson("/v1/models?x=1");
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 3u);
  EXPECT_EQ(list["data"][1]["id"], "two");
  EXPECT_EQ(list["data"][0]["max_model_len"], 100);
  EXPECT_EQ(FetchJson("/v1/models/two")["id"], "two");
  for (const char* path : {"/v1/models/org/50%", "/v1/models/org%2F50%25", "/v1/models/org%2f50%"})
    EXPECT_EQ(FetchJson(path)["id"], "org/50%");
  EXPECT_EQ(FetchJson("/v1/models/three", "", 404)["error"]["code"], "model_not_found");
}

TEST_F(ServerTest, TokenizesAndBack) {
  Serve();
  const Json tokens = FetchJson("/tokenize", R"({"prompt": "h\u00f6", "return_token_strs": true})");
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["max_model_len"], 100);
  EXPECT_EQ(tokens["token_strs"].size(), tokens["tokens"].size());
  EXPECT_EQ(FetchJson("/detokenize", DumpJson(Json{{"tokens", tokens["tokens"]}}))["prompt"],
            "h\xC3\xB6");
  const Json chat = FetchJson("/tokenize", R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(FetchJson("/detokenize", DumpJson(Json{{"tokens", chat["tokens"]}}))["prompt"],
            "<user>hi<a>");
  EXPECT_EQ(FetchJson("/detokenize", R"({"tokens": [99999999]})", 400)["error"]["param"],
            "tokens[0]");
}

TEST_F(ServerTest, IsUnavailableUntilThereIsAnEngine) {
  Listen({.chat_template = kTemplate});
  EXPECT_EQ(FetchJson("/health", "", 503)["error"]["type"], "service_unavailable_error");
  EXPECT_EQ(Fetch("/v1/completions", R"({"prompt": "a"})").status, 503);
  EXPECT_EQ(Fetch("/v1/models").status, 503);
  EXPECT_EQ(Fetch("/metrics").status, 503);
  EXPECT_EQ(FetchJson("/version")["version"], kVersion);
  SetEngine();
  EXPECT_EQ(Fetch("/health").status, 200);
  EXPECT_EQ(Fetch("/v1/completions", R"({"prompt": "a"})").status, 200);
}

TEST_F(ServerTest, ChecksTheKey) {
  Serve({}, {.api_key = "secret"});
  for (const std::string path :
       {"/v1/models", "/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions"}) {
    const bool get = path == "/v1/models";
    EXPECT_EQ(Fetch(path, get ? "" : "{}").status, 401) << path;
    for (const std::string value :
         {"Bearer secre", "Bearer secret2", "Bearer Secret", "secret", "Basic secret", "Bearer "}) {
      HttpCall call = Call(path, get ? "" : "{}");
      call.headers.emplace_back("Authorization", value);
      EXPECT_EQ(Fetch(std::move(call)).status, 401) << path << " " << value;
    }
    HttpCall call = Call(path, get ? "" : "{}");
    call.headers.emplace_back("Authorization", "Bearer secret");
    EXPECT_EQ(Fetch(std::move(call)).status, get ? 200 : 400) << path;
  }
  for (const std::string path : {"/health", "/metrics", "/version"})
    EXPECT_EQ(Fetch(path).status, 200);
}

// Speculation keeps what it learns from a text for one tenant: same key, same salt.
TEST_F(ServerTest, KeysAndSaltsMakeTenants) {
  Serve({}, {});
  const auto tenant_of = [&](const std::string& key, const std::string& salt) {
    HttpCall call = Call(
        "/v1/completions",
        R"({"prompt": "a")" + (salt.empty() ? "" : R"(, "cache_salt": ")" + salt + "\"") + "}");
    if (!key.empty()) call.headers.emplace_back("Authorization", "Bearer " + key);
    EXPECT_EQ(Fetch(std::move(call)).status, 200);
    return engine_->Requests().back().tenant;
  };
  const std::vector<std::string> tenants = {tenant_of("", ""), tenant_of("a", ""),
                                            tenant_of("b", ""), tenant_of("a", "x"),
                                            tenant_of("", "x")};
  EXPECT_EQ(std::set<std::string>(tenants.begin(), tenants.end()).size(), tenants.size());
  EXPECT_EQ(tenant_of("a", "x"), tenants[3]);
  EXPECT_EQ(tenant_of("", ""), tenants[0]);
  EXPECT_EQ(Fetch("/v1/completions", R"({"prompt": "a", "cache_salt": 7})").status, 400);
}

TEST_F(ServerTest, SaysThatThereIsNoChatTemplate) {
  Listen();
  SetEngine({}, "gpt2");
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}]})";
  EXPECT_EQ(FetchJson("/v1/chat/completions", chat, 400)["error"]["message"],
            "model scripted has no chat template: use /v1/completions, or start the server with "
            "--chat-template");
}

TEST_F(ServerTest, SaysWhyAChatTemplateFails) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}]})";
  Serve({}, {.chat_template = "{% broken"});
  EXPECT_THAT(FetchJson("/v1/chat/completions", chat, 400)["error"]["message"].get<std::string>(),
              HasSubstr("the chat template cannot be used"));
  Serve({}, {.chat_template = "{{ raise_exception('roles must alternate') }}"});
  EXPECT_THAT(FetchJson("/v1/chat/completions", chat, 400)["error"]["message"].get<std::string>(),
              HasSubstr("roles must alternate"));
}

TEST_F(ServerTest, CancelsWhatNobodyWaitsFor) {
  Serve({.hold_after = 2});
  {
    HttpClient client;
    std::string received;
    HttpCall stream = Call("/v1/completions", R"({"prompt": "a", "n": 3, "stream": true})");
    stream.on_data = [&](std::string_view bytes, int64_t) { received += bytes; };
    client.Start(std::move(stream));
    client.Start(Call("/v1/completions", R"({"prompt": "a"})"));
    while (received.find("\"index\":2") == std::string::npos) client.Poll(1000);
    ASSERT_TRUE(engine_->WaitForRequests(4));
  }  // both connections close
  EXPECT_TRUE(engine_->WaitForCancelled(4));
  EXPECT_EQ(Fetch("/health").status, 200);
}

TEST_F(ServerTest, DrainsWhatItAccepted) {
  Serve({.hold_after = 2});
  std::thread runner([this] { server_->Run(); });
  HttpClient client;
  std::string streamed;
  int whole_status = 0;
  HttpCall stream = Call("/v1/completions", R"({"prompt": "a", "stream": true})");
  stream.on_data = [&](std::string_view bytes, int64_t) { streamed += bytes; };
  client.Start(std::move(stream));
  HttpCall whole = Call("/v1/completions", R"({"prompt": "a"})");
  whole.on_done = [&](int status, const std::string&, int64_t) { whole_status = status; };
  client.Start(std::move(whole));
  while (streamed.find("\"text\":\"e\"") == std::string::npos) client.Poll(1000);
  ASSERT_TRUE(engine_->WaitForRequests(2));

  server_->Stop();
  int health = 200;
  while (health == 200) health = Fetch("/health").status;  // until the io thread has heard
  EXPECT_EQ(health, 503);
  EXPECT_EQ(FetchJson("/v1/completions", R"({"prompt": "a"})", 503)["error"]["message"],
            "the server is shutting down");
  EXPECT_EQ(Fetch("/metrics").status, 200);

  engine_->Release();
  while (client.InFlight() > 0) client.Poll(1000);
  runner.join();
  std::string text;
  for (const Json& event : Events(streamed)) text += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, kText);
  EXPECT_EQ(whole_status, 200);
  EXPECT_FALSE(HttpClient::Fetch(Call("/health")).ok());
}

TEST_F(ServerTest, TellsClientsWhenTheDrainTakesTooLong) {
  for (const bool now : {false, true}) {
    Serve({.hold_after = 2}, {.drain_timeout_ms = now ? 600'000 : 50});
    std::thread runner([this] { server_->Run(); });
    HttpClient client;
    std::string streamed;
    HttpCall stream = Call("/v1/completions", R"({"prompt": "a", "stream": true})");
    stream.on_data = [&](std::string_view bytes, int64_t) { streamed += bytes; };
    client.Start(std::move(stream));
    while (streamed.find("\"text\":\"e\"") == std::string::npos) client.Poll(1000);
    server_->Stop();
    if (now) server_->StopNow();
    while (client.InFlight() > 0) client.Poll(1000);
    runner.join();
    const auto events = Events(streamed);
    ASSERT_FALSE(events.empty());
    EXPECT_THAT(events.back()["error"]["message"].get<std::string>(), HasSubstr("shutting down"));
    server_.reset();
  }
}

TEST_F(ServerTest, DiesCleanlyWithRequestsInFlight) {
  Serve({.hold_after = 2});
  HttpClient client;
  client.Start(Call("/v1/completions", R"({"prompt": "a"})"));
  client.Start(Call("/v1/completions", R"({"prompt": "a", "stream": true, "n": 4})"));
  std::thread waiter([this] { EXPECT_TRUE(engine_->WaitForRequests(5)); });
  while (engine_->Requests().size() < 5) client.Poll(1);
  waiter.join();
  server_.reset();
  while (client.InFlight() > 0) client.Poll(1000);
}

// Prometheus' text format: HELP and TYPE before the samples of a family, all samples of one in a
// row, cumulative buckets.
TEST_F(ServerTest, ShowsMetrics) {
  Serve();
  Fetch("/v1/completions", R"({"prompt": [1, 2, 3], "max_tokens": 5})");
  Fetch("/v1/completions", R"({"prompt": [1, 2, 3]})");
  const std::string page = Fetch("/metrics").body;
  const std::regex sample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (\+Inf|-?[0-9.e+-]+))re");
  std::istringstream lines(page);
  std::string line, family;
  std::set<std::string> families;
  std::map<std::string, double> values;
  double bucket = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family;
      bucket = 0;
      continue;
    }
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_TRUE(match[1].str().starts_with(family)) << line;
    EXPECT_THAT(line, HasSubstr(R"(model_name="scripted",engine="0")"));
    const double value = std::stod(match[4].str());
    if (match[1].str().ends_with("_count")) bucket = 0;  // the buckets of other labels follow
    values[line.substr(0, line.rfind(' '))] = value;
    if (match[1].str().ends_with("_bucket")) {
      EXPECT_GE(value, bucket) << line;
      bucket = value;
    }
  }
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    const auto found = values.find(name + R"({model_name="scripted",engine="0")" + labels + "}");
    EXPECT_NE(found, values.end()) << name << "\n" << page;
    return found == values.end() ? -1.0 : found->second;
  };
  EXPECT_EQ(value("vllm:num_requests_running"), 0);
  EXPECT_EQ(value("vllm:num_requests_waiting"), 0);
  EXPECT_EQ(value("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(value("vllm:generation_tokens_total"), 5 + kTextTokens);
  EXPECT_EQ(value("vllm:request_success_total", R"(,finished_reason="stop")"), 1);
  EXPECT_EQ(value("vllm:request_success_total", R"(,finished_reason="length")"), 1);
  EXPECT_EQ(value("vllm:time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(value("vllm:e2e_request_latency_seconds_count"), 2);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_count"), 4 + kTextTokens - 1);
  EXPECT_EQ(value("vllm:request_prompt_tokens_count"), 2);
  EXPECT_EQ(value("vllm:request_generation_tokens_sum"), 5 + kTextTokens);
  EXPECT_EQ(value("vllm:request_generation_tokens_bucket", R"(,le="5")"), 1);
  EXPECT_EQ(value("vllm:e2e_request_latency_seconds_bucket", R"(,le="+Inf")"), 2);
  for (const std::string name :
       {"vllm:prompt_tokens_total", "vllm:num_preemptions_total", "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total", "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total", "vllm:time_per_output_token_seconds",
        "spec_drafted_tokens_total", "spec_rounds_total", "spec_reached_total",
        "spec_step_seconds"}) {
    EXPECT_TRUE(families.contains(name)) << name;
  }
}

TEST_F(ServerTest, DropsThePrefixCacheWhenIdle) {
  Serve({.hold_after = 1});
  EXPECT_EQ(Fetch("/reset_prefix_cache", "{}").status, 200);
  HttpClient client;
  client.Start(Call("/v1/completions", R"({"prompt": "a"})"));
  while (engine_->Requests().empty()) client.Poll(1);
  EXPECT_EQ(Fetch("/reset_prefix_cache", "{}").status, 409);
}

TEST_F(ServerTest, PromptsFarTooLongAreNotCounted) {
  Serve();
  const std::string spaces(2 << 20, ' ');
  const Json error = FetchJson("/v1/completions", DumpJson(Json{{"prompt", spaces}}), 400)["error"];
  EXPECT_EQ(error["message"],
            "prompt: more than 200 tokens, the model's context of 100 takes at most 99");
  EXPECT_EQ(error["param"], "prompt");
  const Json message = {{"role", "user"}, {"content", spaces}};
  EXPECT_EQ(FetchJson("/v1/chat/completions", DumpJson(Json{{"messages", Json::array({message})}}),
                      400)["error"]["param"],
            "messages");
  EXPECT_THAT(FetchJson("/tokenize", DumpJson(Json{{"prompt", spaces}}), 400)["error"]["message"],
              "the text holds 2097152 bytes, expected at most 1048576");
  EXPECT_TRUE(engine_->Requests().empty());
}

TEST_F(ServerTest, MoreAnswersThanTheQueueTakesAreRefused) {
  Serve();
  Json body{{"prompt", std::vector<std::string>(1024, "a")}, {"n", 64}};
  EXPECT_EQ(FetchJson("/v1/completions", DumpJson(body), 400)["error"]["message"],
            "1024 prompts times n of 64 are 65536 answers, expected at most 1024, which the queue "
            "takes");
  EXPECT_TRUE(engine_->Requests().empty());
}

TEST_F(ServerTest, ErrorsQuoteLittleOfWhatWasSent) {
  Serve();
  const std::string megabyte(1 << 20, '9');
  for (const std::string& body : {"{\"model\": \"" + megabyte + "\", \"prompt\": \"a\"}",
                                  "{\"prompt\": \"a\", \"logit_bias\": {\"" + megabyte + "\": 1}}",
                                  "{\"prompt\": \"a\", \"max_tokens\": " + megabyte + "}"}) {
    const HttpClient::Response response = Fetch("/v1/completions", body);
    EXPECT_GE(response.status, 400);
    EXPECT_LT(response.body.size(), 3000u);
  }
}

TEST_F(ServerTest, ManyLargeObjectsAreRefused) {
  Serve();
  Json object = Json::object();
  for (int i = 0; i < 1000; ++i) object[std::to_string(i)] = 1;
  const auto message = [&](size_t count) {
    const Json body{{"prompt", ""}, {"metadata", std::vector<Json>(count, object)}};
    return FetchJson("/v1/completions", DumpJson(body), 400)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message(20), "the prompt is empty, expected at least one token");
  EXPECT_THAT(message(100), HasSubstr("too many of them have hundreds"));
}

TEST_F(ServerTest, BodiesAboveTheLimitAre413) {
  Serve({}, {.max_body_bytes = 1000});
  EXPECT_EQ(FetchJson("/v1/completions", std::string(2000, ' '), 413)["error"]["message"],
            "the request's body is longer than 1000 bytes");
}

}  // namespace
}  // namespace firesteel
