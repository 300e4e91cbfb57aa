#include "server/openai_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/utf8.h"
#include "server/sglang_json.h"

namespace firesteel {
namespace {

// What JSON has no word for; vLLM's choice.
constexpr double kLowestLogprob = -9999.0;

double Finite(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kLowestLogprob;
}

void AppendJsonString(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\r':
        out->append("\\r");
        break;
      case '\t':
        out->append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out->append("\\u00");
          out->push_back(kHex[(c >> 4) & 15]);
          out->push_back(kHex[c & 15]);
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

void AppendIds(const std::vector<int32_t>& ids, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out->push_back(',');
    fmt::format_to(std::back_inserter(*out), "{}", ids[i]);
  }
  out->push_back(']');
}

int32_t CodePoints(std::string_view text) {
  return static_cast<int32_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

const char* FinishName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

Json UsageJson(const UsageTotals& usage) {
  return Json{{"prompt_tokens", usage.prompt_tokens},
              {"completion_tokens", usage.completion_tokens},
              {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
              {"prompt_tokens_details", Json{{"cached_tokens", usage.cached_tokens}}}};
}

Json SpeculationMetrics(const SpeculationUsage& usage, int32_t spec_tokens) {
  // accepted_per_position[i] counts the rounds that accepted more than i.
  Json histogram = Json::array();
  int64_t at_least = usage.rounds;
  for (const int64_t more : usage.accepted_per_position) {
    histogram.push_back(at_least - more);
    at_least = more;
  }
  histogram.push_back(at_least);
  const auto ratio = [](int64_t a, int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  return Json{{"mean_acceptance_length",
               usage.rounds == 0 ? 1.0 : 1.0 + ratio(usage.accepted, usage.rounds)},
              {"draft_acceptance_rate", ratio(usage.accepted, usage.verified)},
              {"acceptance_histogram", std::move(histogram)},
              {"num_spec_steps", usage.rounds},
              {"num_accepted_draft_tokens", usage.accepted},
              {"num_draft_tokens", usage.verified},
              {"num_produced_draft_tokens", usage.drafted},
              {"num_spec_tokens", spec_tokens}};
}

ResponseFormat::ResponseFormat(const GenerationRequest& request, std::string id, int64_t created,
                               const std::string& model, const Tokenizer& tokenizer)
    : chat_(request.chat),
      sglang_(request.sglang),
      usage_at_end_(request.include_usage),
      with_logprobs_(request.sampling.logprobs >= 0),
      with_token_ids_(request.return_token_ids),
      tokens_as_ids_(request.tokens_as_ids),
      stop_strings_(request.sampling.stop),
      id_(std::move(id)),
      created_(created),
      model_(model),
      tokenizer_(tokenizer) {
  chunk_head_ = DumpJson(Envelope(chat_ ? "chat.completion.chunk" : "text_completion"));
  chunk_head_.back() = ',';  // the closing brace
  chunk_head_.append("\"choices\":[");
}

Json ResponseFormat::Envelope(const char* object) const {
  return Json{{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

Json ResponseFormat::StopReason(const std::string& reason) const {
  if (reason.empty()) return nullptr;
  const bool digits =
      std::all_of(reason.begin(), reason.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || reason.size() > 9 ||
      std::find(stop_strings_.begin(), stop_strings_.end(), reason) != stop_strings_.end()) {
    return reason;
  }
  return std::stoi(reason);
}

std::string ResponseFormat::TokenName(int32_t token) const {
  if (tokens_as_ids_) return fmt::format("token_id:{}", token);
  const std::string& bytes = tokenizer_.TokenBytes(token);
  if (chat_) return ReplaceInvalidUtf8(bytes);
  if (IsValidUtf8(bytes)) return bytes;
  // As OpenAI writes them where they are keys: U+FFFD would make different tokens one.
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

int32_t ResponseFormat::TextLength(const std::vector<TokenLogprob>& logprobs) const {
  int32_t length = 0;
  for (const TokenLogprob& entry : logprobs) length += CodePoints(TokenName(entry.token));
  return length;
}

Json ResponseFormat::ChatEntry(int32_t token, float logprob) const {
  Json bytes = Json::array();
  for (const char c : tokenizer_.TokenBytes(token)) bytes.push_back(static_cast<unsigned char>(c));
  return Json{
      {"token", TokenName(token)}, {"logprob", Finite(logprob)}, {"bytes", std::move(bytes)}};
}

Json ResponseFormat::ChatLogprobs(const std::vector<TokenLogprob>& logprobs) const {
  Json content = Json::array();
  for (const TokenLogprob& chosen : logprobs) {
    Json entry = ChatEntry(chosen.token, chosen.logprob);
    Json top = Json::array();
    for (const auto& [token, logprob] : chosen.top) top.push_back(ChatEntry(token, logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return Json{{"content", std::move(content)}};
}

Json ResponseFormat::CompletionLogprobs(const ChoiceOutput& choice) const {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(),
       offsets = Json::array();
  int32_t offset = choice.text_offset;
  for (const TokenLogprob& chosen : choice.logprobs) {
    const std::string name = TokenName(chosen.token);
    Json top = Json::object();
    for (const auto& [token, logprob] : chosen.top) top[TokenName(token)] = Finite(logprob);
    top[name] = Finite(chosen.logprob);  // also when it is not among the most likely
    tokens.push_back(name);
    values.push_back(Finite(chosen.logprob));
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += CodePoints(name);
  }
  return Json{{"tokens", std::move(tokens)},
              {"token_logprobs", std::move(values)},
              {"top_logprobs", std::move(tops)},
              {"text_offset", std::move(offsets)}};
}

Json ResponseFormat::Logprobs(const ChoiceOutput& choice) const {
  if (!with_logprobs_) return nullptr;
  return chat_ ? ChatLogprobs(choice.logprobs) : CompletionLogprobs(choice);
}

std::string ResponseFormat::Chunk(const ChoiceOutput& delta, bool first,
                                  const UsageTotals* usage) const {
  if (sglang_ && usage != nullptr) {
    return GenerateAnswer(id_, delta.text_so_far, nullptr, delta, *usage);
  }
  std::string out;
  out.reserve(chunk_head_.size() + delta.text.size() + 160);
  out.append(chunk_head_);
  fmt::format_to(std::back_inserter(out), "{{\"index\":{},", delta.index);
  if (chat_) {
    out.append(first ? "\"delta\":{\"role\":\"assistant\",\"content\":"
                     : "\"delta\":{\"content\":");
  } else {
    out.append("\"text\":");
  }
  if (IsValidUtf8(delta.text)) {
    AppendJsonString(delta.text, &out);
  } else {
    AppendJsonString(ReplaceInvalidUtf8(delta.text), &out);
  }
  out.append(chat_ ? "},\"logprobs\":" : ",\"logprobs\":");
  out.append(with_logprobs_ ? DumpJson(Logprobs(delta)) : "null");
  if (delta.finish) {
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\",\"stop_reason\":{}",
                   FinishName(*delta.finish), DumpJson(StopReason(delta.stop_reason)));
  } else {
    out.append(",\"finish_reason\":null");
  }
  if (with_token_ids_) {
    out.append(",\"token_ids\":");
    AppendIds(delta.tokens, &out);
    if (first && !chat_ && delta.prompt_ids != nullptr) {
      out.append(",\"prompt_token_ids\":");
      AppendIds(*delta.prompt_ids, &out);
    }
  }
  out.append("}]");
  if (with_token_ids_ && first && chat_ && delta.prompt_ids != nullptr) {
    out.append(",\"prompt_token_ids\":");
    AppendIds(*delta.prompt_ids, &out);
  }
  if (usage != nullptr) {
    out.append(",\"usage\":").append(DumpJson(UsageJson(*usage)));
  } else if (usage_at_end_) {
    out.append(",\"usage\":null");
  }
  out.push_back('}');
  return out;
}

std::string ResponseFormat::LastChunk(const UsageTotals* usage, const Json* metrics) const {
  std::string out = chunk_head_ + "]";
  if (usage != nullptr) out.append(",\"usage\":").append(DumpJson(UsageJson(*usage)));
  if (metrics != nullptr) out.append(",\"metrics\":").append(DumpJson(*metrics));
  return out + "}";
}

std::string ResponseFormat::Whole(const std::vector<ChoiceOutput>& choices,
                                  const UsageTotals& usage, const Json* metrics) const {
  if (sglang_) {
    const ChoiceOutput& only = choices.front();
    return GenerateAnswer(id_, only.text, &only.tokens, only, usage);
  }
  Json body = Envelope(chat_ ? "chat.completion" : "text_completion");
  Json list = Json::array();
  for (const ChoiceOutput& choice : choices) {
    Json entry{{"index", choice.index}};
    if (chat_) {
      entry["message"] = Json{{"role", "assistant"}, {"content", choice.text}};
    } else {
      entry["text"] = choice.text;
    }
    entry["logprobs"] = Logprobs(choice);
    entry["finish_reason"] = choice.finish ? Json(FinishName(*choice.finish)) : Json(nullptr);
    entry["stop_reason"] = StopReason(choice.stop_reason);
    if (with_token_ids_) {
      entry["token_ids"] = choice.tokens;
      if (!chat_ && choice.prompt_ids != nullptr) entry["prompt_token_ids"] = *choice.prompt_ids;
    }
    list.push_back(std::move(entry));
  }
  body["choices"] = std::move(list);
  body["usage"] = UsageJson(usage);
  if (with_token_ids_ && chat_ && !choices.empty() && choices.front().prompt_ids != nullptr) {
    body["prompt_token_ids"] = *choices.front().prompt_ids;
  }
  if (metrics != nullptr) body["metrics"] = *metrics;
  return DumpJson(body);
}

}  // namespace firesteel
