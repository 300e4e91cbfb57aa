#include "server/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "firesteel/version.h"

namespace firesteel {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";
// A prompt of more than this many contexts is not counted to its end: everybody waits for the io
// thread meanwhile.
constexpr size_t kCountedContexts = 2;
constexpr size_t kMaxTokenizeBytes = size_t{1} << 20;

// The time taken depends on the lengths alone.
bool SameSecret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(secret[i % secret.size()]);
  }
  return difference == 0;
}

bool HasKey(const HttpRequest& request, std::string_view key) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view value = request.Header("authorization");
  return value.substr(0, kScheme.size()) == kScheme &&
         SameSecret(value.substr(kScheme.size()), key);
}

// Whoever sends another key or another salt is another tenant.
std::string TenantOf(const HttpRequest& request, const std::string& salt) {
  return std::string(request.Header("authorization")) + '\n' + salt;
}

// "org%2Fname", as clients send a name with a slash; what is not %XX stays as it is.
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const hex = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      decoded.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

void SendJson(ResponseWriter& writer, const Json& body) {
  writer.Respond(200, {{"Content-Type", "application/json"}}, DumpJson(body));
}

}  // namespace

const Routes::Route Routes::kRoutes[] = {
    {"POST", "/v1/completions", false, true, true, &Routes::Completions},
    {"POST", "/v1/chat/completions", false, true, true, &Routes::ChatCompletions},
    {"GET", "/v1/models", false, true, false, &Routes::Models},
    {"POST", "/tokenize", false, true, true, &Routes::Tokenize},
    {"POST", "/detokenize", false, true, true, &Routes::Detokenize},
    {"POST", "/reset_prefix_cache", false, true, true, &Routes::ResetPrefixCache},
    {"POST", "/generate", false, true, true, &Routes::SglangGenerate},
    {"POST", "/flush_cache", false, true, true, &Routes::SglangFlushCache},
    {"GET", "/flush_cache", false, true, true, &Routes::SglangFlushCache},
    {"GET", "/server_info", false, true, false, &Routes::SglangServerInfo},
    {"GET", "/get_server_info", false, true, false, &Routes::SglangServerInfo},
    {"GET", "/version", true, false, false, &Routes::Version},
    {"GET", "/health", true, true, true, &Routes::Health},
    {"GET", "/metrics", true, true, false, &Routes::Metrics},
};

Routes::Routes(const ServerOptions& options, const Clock& clock, std::function<void()> on_idle)
    : options_(options), clock_(clock), on_idle_(std::move(on_idle)) {}

void Routes::SetEngine(Engine* engine, HttpServer* http) {
  const ModelSummary& summary = engine->Summary();
  model_names_ = options_.served_model_names;
  if (model_names_.empty()) model_names_.push_back(summary.name);
  context_ = {.engine = engine,
              .http = http,
              .clock = &clock_,
              .metrics = &metrics_,
              .model_name = model_names_.front()};
  created_ = std::time(nullptr);

  const Tokenizer& tokenizer = engine->tokenizer();
  const std::string& source =
      options_.chat_template.empty() ? tokenizer.chat_template() : options_.chat_template;
  if (source.empty()) {
    chat_template_error_ =
        InvalidArgument(fmt::format("model {} has no chat template: use /v1/completions, or start "
                                    "the server with --chat-template",
                                    model_names_.front()));
  } else if (auto compiled =
                 ChatTemplate::Compile(source, tokenizer.bos_token(), tokenizer.eos_token());
             compiled.ok()) {
    chat_template_ = *std::move(compiled);
  } else {
    chat_template_error_ =
        InvalidArgument("the chat template cannot be used: " + compiled.status().message());
    FS_LOG_WARNING("server: {}", chat_template_error_.message());
  }
  ready_.store(true, std::memory_order_release);
}

void Routes::StartDrain() {
  draining_ = true;
  if (active_.empty()) on_idle_();
}

ApiError Routes::Refusal(const Route& route, const HttpRequest& request) const {
  ApiError error;
  if (!route.open && !options_.api_key.empty() && !HasKey(request, options_.api_key)) {
    error = {.status = 401,
             .message = "expected the header Authorization: Bearer with the server's API key",
             .param = "",
             .code = "invalid_api_key"};
  } else if (route.needs_engine && !ready_.load(std::memory_order_acquire)) {
    error = {.status = 503,
             .message = "the server is starting: the model is not loaded yet",
             .param = "",
             .code = ""};
  } else if (route.is_work && draining_) {
    error = {.status = 503, .message = "the server is shutting down", .param = "", .code = ""};
  }
  return error;
}

void Routes::Dispatch(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const std::string path = request.path.starts_with(kModelPrefix) ? "/v1/models" : request.path;
  const Route* wrong_method = nullptr;
  for (const Route& route : kRoutes) {
    if (path != route.path) continue;
    if (method != route.method) {
      wrong_method = &route;
      continue;
    }
    if (const ApiError error = Refusal(route, request); error.status != 0) {
      HttpHeaders headers;
      if (draining_) headers.emplace_back("Connection", "close");
      SendError(*writer, error, std::move(headers));
    } else {
      (this->*route.handler)(request, std::move(writer));
    }
    return;
  }
  if (wrong_method != nullptr) {
    SendError(*writer,
              {.status = 405,
               .message = fmt::format("{} is asked with {}, expected {}", path, request.method,
                                      wrong_method->method),
               .param = "",
               .code = "method_not_allowed"},
              {{"Allow", wrong_method->method}});
    return;
  }
  SendError(*writer, {.status = 404,
                      .message = fmt::format("there is no route {} {}", request.method,
                                             ReplaceInvalidUtf8(request.path)),
                      .param = "",
                      .code = "not_found"});
}

ModelLimits Routes::Limits() const {
  const ModelSummary& model = context_.engine->Summary();
  return {.vocab_size = model.vocab_size, .defaults = model.default_sampling};
}

ApiError Routes::CheckModel(const std::string& model) const {
  if (model.empty() ||
      std::find(model_names_.begin(), model_names_.end(), model) != model_names_.end())
    return {};
  return {.status = 404,
          .message = fmt::format("The model `{}` does not exist; this server has `{}`.", model,
                                 fmt::join(model_names_, "`, `")),
          .param = "model",
          .code = "model_not_found"};
}

ApiError Routes::RenderChat(const ChatInput& input, std::string* text) const {
  if (chat_template_ == nullptr) return ErrorFromStatus(chat_template_error_, "messages");
  Result<std::string> rendered = chat_template_->Render(
      input.messages, input.tools, input.add_generation_prompt, input.template_kwargs);
  if (!rendered.ok()) return ErrorFromStatus(rendered.status(), "messages");
  *text = *std::move(rendered);
  return {};
}

ApiError Routes::EncodePrompts(const GenerationRequest& request,
                               std::vector<std::vector<int32_t>>* prompts) const {
  const Tokenizer& tokenizer = context_.engine->tokenizer();
  const auto context = static_cast<size_t>(context_.engine->Summary().max_model_len);
  const std::string field = request.chat ? "messages" : "prompt";
  const auto encode = [&](std::string_view text, bool add_special_tokens) {
    prompts->push_back(tokenizer.Encode(text, {.add_special_tokens = add_special_tokens,
                                               .max_tokens = kCountedContexts * context}));
  };
  const auto refuse = [&](std::string message) {
    return ApiError{.status = 400, .message = std::move(message), .param = field, .code = ""};
  };
  if (request.chat) {
    std::string text;
    if (ApiError error = RenderChat(request.chat_input, &text); error.status != 0) return error;
    encode(text, false);
  }
  for (const Prompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      encode(*text, request.add_special_tokens);
    } else {
      prompts->push_back(std::get<std::vector<int32_t>>(prompt));
    }
    if (prompts->back().size() > kCountedContexts * context) break;
  }
  for (const auto& prompt : *prompts) {
    if (prompt.empty()) return refuse("the prompt is empty, expected at least one token");
    if (prompt.size() > kCountedContexts * context) {
      return refuse(
          fmt::format("{}: more than {} tokens, the model's context of {} takes at most {}", field,
                      kCountedContexts * context, context, context - 1));
    }
  }
  return {};
}

void Routes::Generate(const HttpRequest& request, GenerationRequest parsed, int64_t arrival_ns,
                      std::shared_ptr<ResponseWriter> writer) {
  parsed.tenant = TenantOf(request, parsed.cache_salt);
  std::vector<std::vector<int32_t>> prompts;
  ApiError error = CheckModel(parsed.model);
  if (error.status == 0) error = EncodePrompts(parsed, &prompts);
  if (error.status != 0) {
    SendError(*writer, error);
    return;
  }
  const auto answers = prompts.size() * static_cast<size_t>(parsed.n);
  const auto queue = static_cast<size_t>(context_.engine->options().max_queue);
  if (answers > queue) {
    // Not 429: it would not fit later either.
    SendError(*writer, {.status = 400,
                        .message = fmt::format("{} prompts times n of {} are {} answers, expected "
                                               "at most {}, which the queue takes",
                                               prompts.size(), parsed.n, answers, queue),
                        .param = "n",
                        .code = ""});
    return;
  }
  // The generation owns itself through `active_` until the engine has ended all of it.
  auto slot = std::make_shared<std::weak_ptr<ApiGeneration>>();
  auto generation = std::make_shared<ApiGeneration>(context_, std::move(parsed), std::move(prompts),
                                                    arrival_ns, std::move(writer), [this, slot] {
                                                      active_.erase(slot->lock());
                                                      if (draining_ && active_.empty()) on_idle_();
                                                    });
  *slot = generation;
  active_.insert(generation);
  generation->Start();
}

void Routes::Completions(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer) {
  const int64_t arrival_ns = clock_.NowNs();
  GenerationRequest parsed;
  if (const ApiError error = ParseCompletionRequest(request.body, Limits(), &parsed);
      error.status != 0) {
    SendError(*writer, error);
    return;
  }
  Generate(request, std::move(parsed), arrival_ns, std::move(writer));
}

void Routes::ChatCompletions(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer) {
  const int64_t arrival_ns = clock_.NowNs();
  GenerationRequest parsed;
  if (const ApiError error = ParseChatRequest(request.body, Limits(), &parsed); error.status != 0) {
    SendError(*writer, error);
    return;
  }
  Generate(request, std::move(parsed), arrival_ns, std::move(writer));
}

Json Routes::ModelCard(const std::string& name) const {
  return Json{{"id", name},
              {"object", "model"},
              {"created", created_},
              {"owned_by", "firesteel"},
              {"root", context_.engine->Summary().name},
              {"parent", nullptr},
              {"max_model_len", context_.engine->Summary().max_model_len}};
}

void Routes::Models(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer) {
  if (request.path.starts_with(kModelPrefix)) {
    const std::string name =
        PercentDecoded(std::string_view(request.path).substr(kModelPrefix.size()));
    if (const ApiError error = CheckModel(name); error.status != 0) {
      SendError(*writer, error);
    } else {
      SendJson(*writer, ModelCard(name.empty() ? model_names_.front() : name));
    }
    return;
  }
  Json data = Json::array();
  for (const std::string& name : model_names_) data.push_back(ModelCard(name));
  SendJson(*writer, Json{{"object", "list"}, {"data", std::move(data)}});
}

void Routes::Tokenize(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer) {
  TokenizeRequest parsed;
  ApiError error = ParseTokenizeRequest(request.body, &parsed);
  if (error.status == 0) error = CheckModel(parsed.model);
  if (error.status == 0 && parsed.chat) error = RenderChat(parsed.chat_input, &parsed.prompt);
  if (error.status != 0) {
    SendError(*writer, error);
    return;
  }
  if (parsed.prompt.size() > kMaxTokenizeBytes) {
    SendError(*writer, {.status = 400,
                        .message = fmt::format("the text holds {} bytes, expected at most {}",
                                               parsed.prompt.size(), kMaxTokenizeBytes),
                        .param = parsed.chat ? "messages" : "prompt",
                        .code = ""});
    return;
  }
  const Tokenizer& tokenizer = context_.engine->tokenizer();
  const std::vector<int32_t> tokens = tokenizer.Encode(parsed.prompt, parsed.add_special_tokens);
  Json strings = nullptr;
  if (parsed.return_token_strs) {
    strings = Json::array();
    for (const int32_t token : tokens)
      strings.push_back(ReplaceInvalidUtf8(tokenizer.TokenBytes(token)));
  }
  SendJson(*writer, Json{{"count", tokens.size()},
                         {"max_model_len", context_.engine->Summary().max_model_len},
                         {"tokens", tokens},
                         {"token_strs", std::move(strings)}});
}

void Routes::Detokenize(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer) {
  DetokenizeRequest parsed;
  ApiError error = ParseDetokenizeRequest(request.body, Limits(), &parsed);
  if (error.status == 0) error = CheckModel(parsed.model);
  if (error.status != 0) {
    SendError(*writer, error);
    return;
  }
  const Tokenizer& tokenizer = context_.engine->tokenizer();
  SendJson(*writer,
           Json{{"prompt", tokenizer.Decode(parsed.tokens, /*skip_special_tokens=*/false)}});
}

void Routes::ResetPrefixCache(const HttpRequest&, std::shared_ptr<ResponseWriter> writer) {
  if (context_.engine->ResetPrefixCache()) {
    SendJson(*writer, Json{{"reset", true}});
  } else {
    SendError(*writer,
              {.status = 409,
               .message = "requests are running, expected none while the prefix cache is dropped",
               .param = "",
               .code = ""});
  }
}

void Routes::Version(const HttpRequest&, std::shared_ptr<ResponseWriter> writer) {
  SendJson(*writer, Json{{"version", kVersion}});
}

void Routes::Health(const HttpRequest&, std::shared_ptr<ResponseWriter> writer) {
  SendJson(*writer, Json{{"status", "ok"}});
}

void Routes::Metrics(const HttpRequest&, std::shared_ptr<ResponseWriter> writer) {
  const Engine& engine = *context_.engine;
  writer->Respond(200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                  metrics_.Render(engine.Stats(), engine.Summary(), model_names_.front(),
                                  engine.options().speculation.verify));
}

}  // namespace firesteel
