// Which request goes where: method, path, key and state are checked here; then one function for
// each route.
//
// Io thread only, but for SetEngine.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "firesteel/engine.h"
#include "net/http_server.h"
#include "server/generation.h"
#include "server/server.h"
#include "text/chat_template.h"

namespace firesteel {

class Routes {
 public:
  // `on_idle` runs on the io thread when, draining, no generation is left.
  Routes(const ServerOptions& options, const Clock& clock, std::function<void()> on_idle);

  // Thread-safe, once. Both outlive every call of Dispatch; until then the routes that need them
  // answer 503.
  void SetEngine(Engine* engine, HttpServer* http);

  void Dispatch(HttpRequest request, std::shared_ptr<ResponseWriter> writer);

  // New work is refused from here on.
  void StartDrain();
  size_t NumActive() const { return active_.size(); }

 private:
  using Handler = void (Routes::*)(const HttpRequest&, std::shared_ptr<ResponseWriter>);
  struct Route {
    const char* method;
    const char* path;
    bool open;          // no API key asked
    bool needs_engine;  // 503 before SetEngine
    bool is_work;       // 503 while draining
    Handler handler;
  };
  static const Route kRoutes[];

  void Completions(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void ChatCompletions(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void Models(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void Tokenize(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void Detokenize(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void ResetPrefixCache(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  // sglang_routes.cc
  void SglangGenerate(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void SglangFlushCache(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void SglangServerInfo(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void Version(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void Health(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);
  void Metrics(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer);

  ApiError Refusal(const Route& route, const HttpRequest& request) const;
  ApiError CheckModel(const std::string& model) const;
  ModelLimits Limits() const;
  Json ModelCard(const std::string& name) const;
  // Text of a chat, or why the template cannot make it.
  ApiError RenderChat(const ChatInput& input, std::string* text) const;
  ApiError EncodePrompts(const GenerationRequest& request,
                         std::vector<std::vector<int32_t>>* prompts) const;
  // `parsed` is what `request` asks for; whose it is, is settled here for every route.
  void Generate(const HttpRequest& request, GenerationRequest parsed, int64_t arrival_ns,
                std::shared_ptr<ResponseWriter> writer);

  const ServerOptions options_;
  const Clock& clock_;
  const std::function<void()> on_idle_;
  ServerMetrics metrics_;

  // Written by SetEngine before `ready_`.
  ApiGenerationContext context_;
  std::vector<std::string> model_names_;
  std::unique_ptr<ChatTemplate> chat_template_;
  Status chat_template_error_;  // why there is none
  int64_t created_ = 0;
  std::atomic<bool> ready_ = false;

  bool draining_ = false;
  std::unordered_set<std::shared_ptr<ApiGeneration>> active_;
};

}  // namespace firesteel
