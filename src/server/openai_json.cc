#include "server/openai_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "server/chat_messages.h"
#include "server/field_reader.h"

namespace firesteel {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr double kMaxDouble = std::numeric_limits<double>::max();
constexpr int64_t kMaxChoices = 64;
constexpr int64_t kMaxLogprobs = 20;
constexpr size_t kMaxPrompts = 1024;
constexpr size_t kMaxStopStrings = 16;
// Every answer of a request keeps its own copy of these.
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokens = 4096;

// Known elsewhere, and changing the answer: to ignore them would be to give a wrong one.
constexpr std::string_view kRefusedFields[] = {
    "chat_template",         "documents",       "functions",          "function_call",
    "guided_choice",         "guided_grammar",  "guided_json",        "guided_regex",
    "prompt_embeds",         "prompt_logprobs", "structured_outputs", "logits_processors",
    "truncate_prompt_tokens"};
// The same, but their false, empty or zero value is what we do.
constexpr std::string_view kRefusedUnlessFalse[] = {
    "allowed_token_ids", "bad_words", "continue_final_message", "echo", "suffix",
    "use_beam_search"};

bool IsFalsy(const Json& value) {
  return value == Json(false) || ((value.is_string() || value.is_structured()) && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

void RefuseUnsupported(FieldReader& fields) {
  for (const std::string_view name : kRefusedFields) {
    if (fields.Has(name)) fields.FailWith(name, fmt::format("{} is not supported", name));
  }
  for (const std::string_view name : kRefusedUnlessFalse) {
    const Json* value = fields.Find(name);
    if (value != nullptr && !IsFalsy(*value))
      fields.FailWith(name, fmt::format("{} is not supported", name));
  }
  // It weighs beams, of which there is one.
  double length_penalty = 1;
  if (fields.Double("length_penalty", -kMaxDouble, kMaxDouble, &length_penalty) &&
      length_penalty != 1) {
    fields.Fail("length_penalty", Json(length_penalty), "1: beam search is not supported");
  }
  if (const Json* format = fields.Object("response_format")) {
    FieldReader inner(*format, "response_format.");
    std::string type;
    if (!inner.String("type", &type) || type != "text") {
      const Json* found = inner.Find("type");
      fields.Fail("response_format.type", found == nullptr ? Json(nullptr) : *found,
                  "\"text\": other formats are not supported");
    }
  }
}

// A nested reader's error is the outer one's.
void Adopt(const FieldReader& inner, FieldReader& outer) {
  if (!inner.ok()) outer.FailWith(inner.error().param, inner.error().message);
}

void ParseStop(FieldReader& fields, SamplingParams& sampling) {
  const Json* stop = fields.Find("stop");
  if (stop == nullptr) return;
  const Json one = Json::array({*stop});
  const Json& list = stop->is_array() ? *stop : one;
  if (list.size() > kMaxStopStrings) {
    fields.Fail("stop", *stop, fmt::format("at most {} strings", kMaxStopStrings));
    return;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& element = list[i];
    if (!element.is_string() || element.get_ref<const std::string&>().empty()) {
      fields.Fail(stop->is_array() ? fmt::format("stop[{}]", i) : "stop", element,
                  stop->is_array() ? "a string that is not empty"
                                   : "a string that is not empty, or an array of them");
      return;
    }
    if (const size_t size = element.get_ref<const std::string&>().size(); size > kMaxStopBytes) {
      fields.FailWith("stop", fmt::format("stop holds a string of {} bytes, expected at most {}",
                                          size, kMaxStopBytes));
      return;
    }
    sampling.stop.push_back(element.get<std::string>());
  }
}

void ParseLogitBias(FieldReader& fields, const ModelLimits& limits, SamplingParams& sampling) {
  const Json* bias = fields.Object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 ||
        token >= limits.vocab_size) {
      fields.FailWith("logit_bias",
                      fmt::format("logit_bias has the key {}, expected token ids from 0 to {}",
                                  DumpJson(Json(key)), limits.vocab_size - 1));
      return;
    }
    FieldReader inner(*bias, "logit_bias.");
    double added = 0;
    if (!value.is_number() || std::abs(added = value.get<double>()) > 100) {
      inner.Fail(key, value, "a number from -100 to 100");
      Adopt(inner, fields);
      return;
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(added));
  }
}

void ParseSampling(FieldReader& fields, const ModelLimits& limits, GenerationRequest& out) {
  SamplingParams& sampling = out.sampling;
  fields.Double("temperature", 0, kMaxDouble, &sampling.temperature);
  fields.Int("top_k", -1, kMaxInt32, &sampling.top_k);
  if (fields.Double("top_p", 0, 1, &sampling.top_p) && sampling.top_p == 0) {
    fields.Fail("top_p", Json(0), "a number above 0, up to 1");
  }
  fields.Double("min_p", 0, 1, &sampling.min_p);
  fields.Double("presence_penalty", -2, 2, &sampling.presence_penalty);
  fields.Double("frequency_penalty", -2, 2, &sampling.frequency_penalty);
  if (fields.Double("repetition_penalty", 0, kMaxDouble, &sampling.repetition_penalty) &&
      sampling.repetition_penalty == 0) {
    fields.Fail("repetition_penalty", Json(0), "a number above 0");
  }
  ParseLogitBias(fields, limits, sampling);

  int64_t seed = 0;
  if (fields.Int("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                 &seed)) {
    sampling.seed = static_cast<uint64_t>(seed);
  }
  fields.Int("n", 1, kMaxChoices, &out.n);
  int32_t best_of = out.n;
  if (fields.Int("best_of", 1, kMaxInt32, &best_of) && best_of != out.n) {
    fields.FailWith(
        "best_of",
        fmt::format("best_of is {}, expected n, which is {}: choosing among more answers than are "
                    "returned is not supported",
                    best_of, out.n));
  }

  fields.Int("min_tokens", 0, kMaxInt32, &sampling.min_tokens);
  if (out.has_max_tokens && sampling.min_tokens > sampling.max_tokens) {
    fields.Fail("min_tokens", Json(sampling.min_tokens),
                fmt::format("at most max_tokens, which is {}", sampling.max_tokens));
  }
  fields.Bool("ignore_eos", &sampling.ignore_eos);
  fields.IntList("stop_token_ids", 0, limits.vocab_size - 1, &sampling.stop_token_ids);
  if (sampling.stop_token_ids.size() > kMaxStopTokens) {
    fields.Fail("stop_token_ids", *fields.Find("stop_token_ids"),
                fmt::format("at most {} token ids", kMaxStopTokens));
  }
  ParseStop(fields, sampling);
  fields.Bool("include_stop_str_in_output", &sampling.include_stop_in_output);
  fields.Bool("skip_special_tokens", &sampling.skip_special_tokens);
  fields.Int("spec_tokens", -1, kMaxInt32, &sampling.spec_tokens);
  fields.String("cache_salt", &out.cache_salt);
}

void ParseDelivery(FieldReader& fields, GenerationRequest& out) {
  fields.Bool("stream", &out.stream);
  if (const Json* options = fields.Object("stream_options")) {
    if (!out.stream) fields.Fail("stream_options", *options, "nothing, since stream is not true");
    FieldReader inner(*options, "stream_options.");
    inner.Bool("include_usage", &out.include_usage);
    inner.Bool("continuous_usage_stats", &out.continuous_usage);
    Adopt(inner, fields);
  }
  fields.Bool("return_token_ids", &out.return_token_ids);
  fields.Bool("return_tokens_as_token_ids", &out.tokens_as_ids);
  fields.Bool("spec_metrics", &out.spec_metrics);
}

bool ReadIds(FieldReader& fields, const std::string& name, const Json& list,
             const ModelLimits& limits, std::vector<int32_t>* ids) {
  ids->reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t id = 0;
    if (!FieldReader::ReadInt(list[i], 0, limits.vocab_size - 1, &id)) {
      fields.Fail(fmt::format("{}[{}]", name, i), list[i],
                  fmt::format("a token id from 0 to {}", limits.vocab_size - 1));
      return false;
    }
    ids->push_back(static_cast<int32_t>(id));
  }
  if (!list.empty()) return true;
  fields.Fail(name, list, "at least one token id");
  return false;
}

void ParsePrompt(FieldReader& fields, const ModelLimits& limits, std::vector<Prompt>* prompts) {
  constexpr std::string_view kKinds =
      "a string, an array of strings, an array of token ids, or an array of such arrays";
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.FailWith("prompt", fmt::format("prompt is missing, expected {}", kKinds));
    return;
  }
  if (prompt->is_string()) {
    prompts->emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    fields.Fail("prompt", *prompt, kKinds);
    return;
  }
  if (prompt->front().is_number()) {
    std::vector<int32_t> ids;
    if (ReadIds(fields, "prompt", *prompt, limits, &ids)) prompts->emplace_back(std::move(ids));
    return;
  }
  if (prompt->size() > kMaxPrompts) {
    fields.Fail("prompt", *prompt, fmt::format("at most {} prompts", kMaxPrompts));
    return;
  }
  const bool strings = prompt->front().is_string();
  for (size_t i = 0; i < prompt->size(); ++i) {
    const Json& element = (*prompt)[i];
    const std::string name = fmt::format("prompt[{}]", i);
    if (strings ? !element.is_string() : !element.is_array()) {
      fields.Fail(name, element,
                  strings ? "a string, as prompt[0] is" : "a string or an array of token ids");
      return;
    }
    if (strings) {
      prompts->emplace_back(element.get<std::string>());
      continue;
    }
    std::vector<int32_t> ids;
    if (!ReadIds(fields, name, element, limits, &ids)) return;
    prompts->emplace_back(std::move(ids));
  }
}

void ParseChatLogprobs(FieldReader& fields, GenerationRequest& out) {
  bool logprobs = false;
  int32_t top = 0;
  fields.Bool("logprobs", &logprobs);
  if (fields.Int("top_logprobs", 0, kMaxLogprobs, &top) && top > 0 && !logprobs) {
    fields.Fail("top_logprobs", Json(top), "nothing, since logprobs is not true");
  }
  if (logprobs) out.sampling.logprobs = top;
}

}  // namespace

ApiError ParseCompletionRequest(std::string_view body, const ModelLimits& limits,
                                GenerationRequest* out) {
  Json object;
  if (ApiError error = ParseBody(body, &object); error.status != 0) return error;
  FieldReader fields(object);
  out->sampling = limits.defaults;
  fields.String("model", &out->model);
  ParsePrompt(fields, limits, &out->prompts);
  RefuseUnsupported(fields);
  out->has_max_tokens = fields.Int("max_tokens", 1, kMaxInt32, &out->sampling.max_tokens);
  ParseSampling(fields, limits, *out);
  fields.Int("logprobs", 0, kMaxLogprobs, &out->sampling.logprobs);
  fields.Bool("add_special_tokens", &out->add_special_tokens);
  ParseDelivery(fields, *out);
  return fields.error();
}

ApiError ParseChatRequest(std::string_view body, const ModelLimits& limits,
                          GenerationRequest* out) {
  Json object;
  if (ApiError error = ParseBody(body, &object); error.status != 0) return error;
  FieldReader fields(object);
  out->chat = true;
  out->sampling = limits.defaults;
  fields.String("model", &out->model);
  ParseChatInput(fields, &out->chat_input);
  RefuseUnsupported(fields);
  out->has_max_tokens = fields.Int("max_tokens", 1, kMaxInt32, &out->sampling.max_tokens);
  // The newer name wins.
  if (fields.Int("max_completion_tokens", 1, kMaxInt32, &out->sampling.max_tokens))
    out->has_max_tokens = true;
  ParseSampling(fields, limits, *out);
  ParseChatLogprobs(fields, *out);
  ParseDelivery(fields, *out);
  return fields.error();
}

ApiError ParseTokenizeRequest(std::string_view body, TokenizeRequest* out) {
  Json object;
  if (ApiError error = ParseBody(body, &object); error.status != 0) return error;
  FieldReader fields(object);
  fields.String("model", &out->model);
  out->chat = fields.Has("messages");
  if (out->chat) {
    ParseChatInput(fields, &out->chat_input);
    out->add_special_tokens = false;  // the template writes them
  } else if (!fields.String("prompt", &out->prompt)) {
    fields.FailWith("prompt", "prompt and messages are missing, expected one of them");
  }
  fields.Bool("add_special_tokens", &out->add_special_tokens);
  fields.Bool("return_token_strs", &out->return_token_strs);
  return fields.error();
}

ApiError ParseDetokenizeRequest(std::string_view body, const ModelLimits& limits,
                                DetokenizeRequest* out) {
  Json object;
  if (ApiError error = ParseBody(body, &object); error.status != 0) return error;
  FieldReader fields(object);
  fields.String("model", &out->model);
  if (!fields.IntList("tokens", 0, limits.vocab_size - 1, &out->tokens)) {
    fields.FailWith("tokens", "tokens is missing, expected an array of token ids");
  }
  return fields.error();
}

}  // namespace firesteel
