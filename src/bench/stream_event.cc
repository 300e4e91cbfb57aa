#include "bench/stream_event_internal.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "bench/completion_stream.h"

namespace firesteel {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMessageBytes = 300;

// `object[key]` when it is a string, else "".
std::string_view TextAt(const dom::object& object, const char* key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS ? text : std::string_view();
}

std::optional<int32_t> CountAt(const dom::object& object, const char* key) {
  uint64_t n = 0;
  if (object[key].get(n) != simdjson::SUCCESS || n > INT32_MAX) return std::nullopt;
  return static_cast<int32_t>(n);
}

// Ids of new tokens: nullopt when there are none or they are not a list of ids.
std::optional<std::vector<int32_t>> TokenIdsAt(const dom::object& object, const char* key) {
  const auto list = ArrayAt(object, key);
  if (!list) return std::nullopt;
  std::vector<int32_t> ids;
  for (const dom::element element : *list) {
    int64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS || id < INT32_MIN || id > INT32_MAX)
      return std::nullopt;
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// Entries of a completion's logprobs.tokens or a chat's logprobs.content.
std::optional<int32_t> LogprobsAt(const dom::object& choice) {
  const auto logprobs = ObjectAt(choice, "logprobs");
  if (!logprobs) return std::nullopt;
  for (const char* key : {"content", "tokens"}) {
    if (const auto list = ArrayAt(*logprobs, key)) return static_cast<int32_t>(list->size());
  }
  return std::nullopt;
}

// What a choice adds: text of all channels, and whether any of it is visible content.
struct ChoiceText {
  std::string text;
  bool visible = false;
};

ChoiceText TextOf(const dom::object& choice) {
  ChoiceText out;
  out.text = TextAt(choice, "text");
  out.visible = !out.text.empty();
  auto delta = ObjectAt(choice, "delta");
  if (!delta) delta = ObjectAt(choice, "message");  // of an answer that is not streamed
  if (!delta) return out;
  // The same under two names in some servers: never both.
  std::string_view reasoning = TextAt(*delta, "reasoning_content");
  if (reasoning.empty()) reasoning = TextAt(*delta, "reasoning");
  const std::string_view content = TextAt(*delta, "content");
  out.text.append(reasoning).append(content).append(TextAt(*delta, "refusal"));
  out.visible |= !content.empty();
  if (const auto calls = ArrayAt(*delta, "tool_calls")) {
    for (const dom::element element : *calls) {
      dom::object call;
      if (element.get(call) != simdjson::SUCCESS) continue;
      if (const auto function = ObjectAt(call, "function")) {
        out.text.append(TextAt(*function, "name")).append(TextAt(*function, "arguments"));
      }
    }
  }
  return out;
}

void AddIds(std::vector<int32_t> ids, RequestRecord* record, BurstCandidate* burst) {
  if (!record->token_ids) record->token_ids.emplace();
  record->token_ids->insert(record->token_ids->end(), ids.begin(), ids.end());
  burst->ids = burst->ids.value_or(0) + static_cast<int32_t>(ids.size());
}

// SGLang names a finish reason by an object {"type": "length"}, older versions by a string.
std::string FinishReasonAt(const dom::object& meta) {
  if (const auto reason = ObjectAt(meta, "finish_reason")) {
    return std::string(TextAt(*reason, "type"));
  }
  return std::string(TextAt(meta, "finish_reason"));
}

void ReadGenerateSpeculation(const dom::object& meta, RequestRecord* record) {
  const auto steps = CountAt(meta, "spec_verify_ct");
  if (!steps || *steps == 0) return;
  RequestSpeculation& spec = record->speculation.emplace();
  spec.drafts = *steps;
  if (const auto n = CountAt(meta, "spec_draft_token_num")) spec.draft_tokens = *n;
  if (const auto n = CountAt(meta, "spec_accept_token_num")) spec.accepted_tokens = *n;
}

}  // namespace

std::optional<dom::object> ObjectAt(const dom::object& object, const char* key) {
  dom::object found;
  if (object[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

std::optional<dom::array> ArrayAt(const dom::object& object, const char* key) {
  dom::array found;
  if (object[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

std::string ErrorMessage(std::string_view body) {
  const auto parsed = ParseJson(body, "body");
  if (parsed.ok() && parsed->is_object()) {
    const auto text_at = [](const Json& object, const char* key) {
      const auto it = object.is_object() ? object.find(key) : object.end();
      return object.is_object() && it != object.end() && it->is_string() ? it->get<std::string>()
                                                                         : std::string();
    };
    const auto error = parsed->find("error");
    if (error != parsed->end() && error->is_string()) return OneLine(error->get<std::string>());
    const std::string inner = error != parsed->end() ? text_at(*error, "message") : "";
    if (!inner.empty()) return OneLine(inner);
    const std::string outer = text_at(*parsed, "message");
    if (!outer.empty()) return OneLine(outer);
  }
  return OneLine(std::string(body));
}

std::string OneLine(std::string text) {
  text = ReplaceInvalidUtf8(text);
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > kMessageBytes) text = text.substr(0, kMessageBytes) + "…";
  return ReplaceInvalidUtf8(text);
}

bool HoldsError(const dom::object& event) {
  dom::element error;
  if (event["error"].get(error) == simdjson::SUCCESS && !error.is_null()) {
    bool flag = true;
    return error.get(flag) != simdjson::SUCCESS || flag;
  }
  return TextAt(event, "object") == "error";
}

void ReadUsage(const dom::object& usage, RequestRecord* record) {
  if (const auto n = CountAt(usage, "prompt_tokens")) record->prompt_tokens = n;
  if (const auto n = CountAt(usage, "completion_tokens")) record->completion_tokens = n;
  if (const auto details = ObjectAt(usage, "prompt_tokens_details")) {
    if (const auto n = CountAt(*details, "cached_tokens")) record->cached_tokens = n;
  }
  if (const auto details = ObjectAt(usage, "completion_tokens_details")) {
    if (const auto n = CountAt(*details, "reasoning_tokens")) record->reasoning_tokens = n;
  }
}

bool AddChoice(const dom::element& element, int64_t now_ns, RequestRecord* record,
               BurstCandidate* burst) {
  dom::object choice;
  if (element.get(choice) != simdjson::SUCCESS) return false;
  const ChoiceText text = TextOf(choice);
  record->text += text.text;
  burst->text_bytes += static_cast<int32_t>(text.text.size());
  burst->text_events += !text.text.empty();
  if (text.visible && !record->content_ns) record->content_ns = now_ns;
  if (const std::string_view reason = TextAt(choice, "finish_reason"); !reason.empty()) {
    record->finish_reason = reason;
  }
  if (auto ids = TokenIdsAt(choice, "token_ids")) AddIds(*std::move(ids), record, burst);
  if (const auto n = LogprobsAt(choice)) burst->logprobs = burst->logprobs.value_or(0) + *n;
  return true;
}

void AddGenerate(const dom::object& event, const dom::object& meta, int64_t now_ns, bool* delta,
                 RequestRecord* record, BurstCandidate* burst) {
  const int32_t before = record->completion_tokens.value_or(0);
  if (const auto n = CountAt(meta, "completion_tokens")) record->completion_tokens = n;
  if (const auto n = CountAt(meta, "prompt_tokens")) record->prompt_tokens = n;
  if (const auto n = CountAt(meta, "cached_tokens")) record->cached_tokens = n;
  if (std::string reason = FinishReasonAt(meta); !reason.empty()) {
    record->finish_reason = std::move(reason);
  }
  ReadGenerateSpeculation(meta, record);
  burst->total = record->completion_tokens;
  const bool grew = record->completion_tokens.value_or(0) > before;

  const std::string_view text = TextAt(event, "text");
  if (!*delta && grew && !text.empty() && !text.starts_with(record->text)) *delta = true;
  const size_t old_size = *delta ? 0 : record->text.size();
  if (text.size() > old_size) {
    const std::string_view added = text.substr(old_size);
    record->text += added;
    burst->text_bytes += static_cast<int32_t>(added.size());
    ++burst->text_events;
    if (!record->content_ns) record->content_ns = now_ns;
    if (!record->event_ns) record->event_ns = now_ns;
  }
  // Cumulative like the text, unless shorter than what is there.
  if (auto ids = TokenIdsAt(event, "output_ids")) {
    const size_t have = record->token_ids ? record->token_ids->size() : 0;
    const bool cumulative =
        !*delta && have > 0 && ids->size() > have &&
        std::equal(record->token_ids->begin(), record->token_ids->end(), ids->begin());
    if (cumulative) ids->erase(ids->begin(), ids->begin() + static_cast<std::ptrdiff_t>(have));
    if (!record->event_ns) record->event_ns = now_ns;
    AddIds(*std::move(ids), record, burst);
  }
}

}  // namespace firesteel
