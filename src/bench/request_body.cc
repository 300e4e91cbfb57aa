#include "bench/request_body.h"

#include <utility>

namespace firesteel {
namespace {

void Merge(const Json& extra, Json* body) {
  for (const auto& [key, value] : extra.items()) (*body)[key] = value;
}

// Keys of /generate's sampling_params, among those of the other APIs.
constexpr const char* kSamplingKeys[] = {"temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "frequency_penalty",
                                         "presence_penalty",
                                         "repetition_penalty",
                                         "stop",
                                         "stop_token_ids",
                                         "min_new_tokens",
                                         "max_new_tokens",
                                         "ignore_eos",
                                         "skip_special_tokens",
                                         "n",
                                         "seed"};

bool IsSamplingKey(const std::string& key) {
  for (const char* known : kSamplingKeys) {
    if (key == known) return true;
  }
  return false;
}

std::string GenerateBody(const BodySettings& settings, const Prompt& prompt) {
  Json body = Json::object();
  if (prompt.token_ids.empty()) {
    body["text"] = prompt.text;
  } else {
    body["input_ids"] = prompt.token_ids;
  }
  Json sampling = Json::object();
  sampling["temperature"] = 0.0;
  sampling["max_new_tokens"] = RequestedTokens(settings, prompt);
  sampling["ignore_eos"] = settings.ignore_eos;
  Json others = Json::object();
  for (const Json* extra : {&settings.extra, &prompt.body}) {
    for (const auto& [key, value] : extra->items()) {
      if (key == "sampling_params" && value.is_object()) {
        Merge(value, &sampling);
      } else if (IsSamplingKey(key)) {
        sampling[key] = value;
      } else {
        others[key] = value;
      }
    }
  }
  body["sampling_params"] = std::move(sampling);
  body["stream"] = true;
  Merge(others, &body);
  return DumpJson(body);
}

}  // namespace

const char* ApiKindName(ApiKind api) {
  switch (api) {
    case ApiKind::kCompletions:
      return "completions";
    case ApiKind::kChat:
      return "chat";
    case ApiKind::kSglang:
      return "sglang";
  }
  return "completions";
}

const char* DefaultPath(ApiKind api) {
  switch (api) {
    case ApiKind::kCompletions:
      return "/v1/completions";
    case ApiKind::kChat:
      return "/v1/chat/completions";
    case ApiKind::kSglang:
      return "/generate";
  }
  return "/v1/completions";
}

ApiKind ApiKindOfPath(const std::string& endpoint) {
  if (endpoint.ends_with("/chat/completions")) return ApiKind::kChat;
  return endpoint.ends_with("/generate") ? ApiKind::kSglang : ApiKind::kCompletions;
}

int32_t RequestedTokens(const BodySettings& settings, const Prompt& prompt) {
  return prompt.output_tokens > 0 ? prompt.output_tokens : settings.output_len;
}

std::string RequestBody(const BodySettings& settings, const OptionalKeys& keys,
                        const Prompt& prompt) {
  if (settings.api == ApiKind::kSglang) return GenerateBody(settings, prompt);
  const bool chat = settings.api == ApiKind::kChat;
  const bool native = settings.dialect == Dialect::kNative;
  const bool vllm = settings.dialect == Dialect::kVllm;
  Json body = Json::object();
  body["model"] = settings.model;
  if (chat && !prompt.messages.is_null()) {
    body["messages"] = prompt.messages;
  } else if (chat) {
    const Json content =
        vllm ? Json::array({Json{{"type", "text"}, {"text", prompt.text}}}) : Json(prompt.text);
    body["messages"] = Json::array({Json{{"role", "user"}, {"content", content}}});
  } else if (prompt.token_ids.empty()) {
    body["prompt"] = prompt.text;
  } else {
    body["prompt"] = prompt.token_ids;
  }
  body[chat && !native ? "max_completion_tokens" : "max_tokens"] =
      RequestedTokens(settings, prompt);
  if (!vllm) body["temperature"] = 0.0;
  if (!native && !chat) {
    if (vllm) {
      body["repetition_penalty"] = 1.0;
      body["logprobs"] = nullptr;
    } else {
      body["best_of"] = 1;
    }
  }
  if (settings.ignore_eos || settings.dialect == Dialect::kSglang) {
    body["ignore_eos"] = settings.ignore_eos;
  }
  body["stream"] = true;
  if (vllm || (native && keys.usage)) body["stream_options"] = Json{{"include_usage", true}};
  if (native && keys.token_ids) body["return_token_ids"] = true;
  Merge(settings.extra, &body);
  Merge(prompt.body, &body);
  return DumpJson(body);
}

}  // namespace firesteel
