// The routes that SGLang's benchmark asks for: /generate, /flush_cache, /server_info.
#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"
#include "firesteel/version.h"
#include "server/field_reader.h"
#include "server/routes.h"
#include "server/sglang_json.h"

namespace firesteel {
namespace {

constexpr int64_t kDefaultNewTokens = 128;

// Names of sampling_params and those of a completion's body.
constexpr std::pair<const char*, const char*> kSamplingNames[] = {
    {"max_new_tokens", "max_tokens"},
    {"min_new_tokens", "min_tokens"},
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"top_k", "top_k"},
    {"min_p", "min_p"},
    {"frequency_penalty", "frequency_penalty"},
    {"presence_penalty", "presence_penalty"},
    {"repetition_penalty", "repetition_penalty"},
    {"stop", "stop"},
    {"stop_token_ids", "stop_token_ids"},
    {"ignore_eos", "ignore_eos"},
    {"skip_special_tokens", "skip_special_tokens"},
    {"sampling_seed", "seed"},
};

// Would change the answer, and are not here.
constexpr const char* kRefused[] = {"lora_path", "image_data", "input_embeds", "session_params",
                                    "custom_logit_processor"};
constexpr const char* kRefusedSampling[] = {"json_schema", "regex", "ebnf", "structural_tag"};

// An error about a completion's field, in SGLang's words.
ApiError Renamed(ApiError error) {
  for (const auto& [theirs, ours] : kSamplingNames) {
    if (error.param != ours) continue;
    const std::string name = std::string("sampling_params.") + theirs;
    if (error.message.starts_with(ours)) {
      error.message.replace(0, std::string_view(ours).size(), name);
    }
    error.param = name;
    return error;
  }
  if (error.param == "prompt" && error.message.starts_with("prompt")) {
    error.message.replace(0, 6, "text");
    error.param = "text";
  }
  return error;
}

Json FinishReasonJson(const ChoiceOutput& last, const UsageTotals& usage) {
  if (!last.finish) return nullptr;
  Json reason{{"type", FinishName(*last.finish)}};
  if (*last.finish == FinishReason::kLength) {
    reason["length"] = usage.completion_tokens;
  } else if (!last.stop_reason.empty()) {
    reason["matched"] = last.stop_reason;
  }
  return reason;
}

}  // namespace

ApiError ParseGenerateRequest(std::string_view body, const ModelLimits& limits,
                              GenerationRequest* out) {
  Json object;
  if (ApiError error = ParseBody(body, &object); error.status != 0) return error;
  FieldReader fields(object);
  Json completion = Json::object();
  const Json* text = fields.Find("text");
  const Json* ids = fields.Find("input_ids");
  if ((text == nullptr) == (ids == nullptr)) {
    fields.FailWith("text", "expected one of text and input_ids");
  } else if (text != nullptr && !text->is_string()) {
    fields.Fail("text", *text, "a string: batches are not supported");
  } else if (ids != nullptr && (!ids->is_array() || ids->empty() || ids->front().is_array())) {
    fields.Fail("input_ids", *ids, "a list of token ids");
  } else {
    completion["prompt"] = text != nullptr ? *text : *ids;
  }
  for (const char* name : kRefused) {
    if (fields.Has(name)) fields.FailWith(name, fmt::format("{} is not supported", name));
  }
  bool logprobs = false;
  fields.Bool("return_logprob", &logprobs);
  if (logprobs) fields.FailWith("return_logprob", "return_logprob is not supported");
  bool stream = false;
  fields.Bool("stream", &stream);
  completion["stream"] = stream;
  completion["max_tokens"] = kDefaultNewTokens;
  if (const Json* sampling = fields.Object("sampling_params")) {
    FieldReader inner(*sampling, "sampling_params.");
    for (const auto& [theirs, ours] : kSamplingNames) {
      if (const Json* value = inner.Find(theirs)) completion[ours] = *value;
    }
    for (const char* name : kRefusedSampling) {
      if (inner.Has(name)) inner.FailWith(name, fmt::format("{} is not supported", name));
    }
    int64_t n = 1;
    inner.Int("n", 1, 1, &n);
    if (!inner.ok()) return inner.error();
  }
  if (!fields.ok()) return fields.error();
  if (ApiError error = ParseCompletionRequest(DumpJson(completion), limits, out);
      error.status != 0) {
    return Renamed(std::move(error));
  }
  out->sglang = true;
  out->continuous_usage = true;
  return {};
}

std::string GenerateAnswer(const std::string& id, std::string_view text,
                           const std::vector<int32_t>* ids, const ChoiceOutput& last,
                           const UsageTotals& usage) {
  Json json;
  json["text"] = ReplaceInvalidUtf8(text);
  if (ids != nullptr) json["output_ids"] = *ids;
  json["meta_info"] = Json{{"id", id},
                           {"finish_reason", FinishReasonJson(last, usage)},
                           {"prompt_tokens", usage.prompt_tokens},
                           {"completion_tokens", usage.completion_tokens},
                           {"cached_tokens", usage.cached_tokens}};
  return DumpJson(json);
}

void Routes::SglangGenerate(const HttpRequest& request, std::shared_ptr<ResponseWriter> writer) {
  const int64_t arrival_ns = clock_.NowNs();
  GenerationRequest parsed;
  if (const ApiError error = ParseGenerateRequest(request.body, Limits(), &parsed);
      error.status != 0) {
    SendError(*writer, error);
    return;
  }
  Generate(request, std::move(parsed), arrival_ns, std::move(writer));
}

void Routes::SglangFlushCache(const HttpRequest&, std::shared_ptr<ResponseWriter> writer) {
  const HttpHeaders text = {{"Content-Type", "text/plain; charset=utf-8"}};
  if (context_.engine->ResetPrefixCache()) {
    writer->Respond(200, text, "Cache flushed.\n");
  } else {
    writer->Respond(400, text, "The cache was not flushed: requests are running.\n");
  }
}

void Routes::SglangServerInfo(const HttpRequest&, std::shared_ptr<ResponseWriter> writer) {
  const ModelSummary& model = context_.engine->Summary();
  const EngineStats stats = context_.engine->Stats();
  Json state = Json::object();
  // Over all that was served, as SGLang has it.
  if (stats.spec_rounds > 0) {
    state["avg_spec_accept_length"] =
        1 + static_cast<double>(stats.spec_accepted) / static_cast<double>(stats.spec_rounds);
  }
  const Json info{{"model_path", model.name},
                  {"served_model_name", model_names_.front()},
                  {"context_length", model.max_model_len},
                  {"speculative_algorithm",
                   model.spec_method == "none" ? Json(nullptr) : Json(model.spec_method)},
                  {"speculative_num_steps",
                   model.spec_method == "none" ? Json(nullptr) : Json(model.spec_tokens)},
                  {"version", kVersion},
                  {"internal_states", Json::array({state})}};
  writer->Respond(200, {{"Content-Type", "application/json"}}, DumpJson(info));
}

}  // namespace firesteel
