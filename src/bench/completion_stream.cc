#include "bench/completion_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/utf8.h"

namespace firesteel {
namespace {

constexpr size_t kHeadBytes = 4096;
constexpr size_t kMessageBytes = 300;
constexpr size_t kMaxEventBytes = size_t{64} << 20;

// `object[key]` when it is a string, else "".
std::string StringAt(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::optional<int32_t> CountAt(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
  const uint64_t n = it->get<uint64_t>();
  if (n > INT32_MAX) return std::nullopt;
  return static_cast<int32_t>(n);
}

std::string OneLine(std::string text) {
  text = ReplaceInvalidUtf8(text);
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > kMessageBytes) text = text.substr(0, kMessageBytes) + "…";
  return ReplaceInvalidUtf8(text);
}

void ReadUsage(const Json& usage, RequestRecord* record) {
  if (!usage.is_object()) return;
  if (const auto n = CountAt(usage, "prompt_tokens")) record->prompt_tokens = n;
  if (const auto n = CountAt(usage, "completion_tokens")) record->completion_tokens = n;
  if (const auto details = usage.find("prompt_tokens_details"); details != usage.end()) {
    if (const auto n = CountAt(*details, "cached_tokens")) record->cached_tokens = n;
  }
}

// Ids of this event's new tokens: nullopt when the choice has none or they are not a list of ids.
std::optional<std::vector<int32_t>> TokenIdsAt(const Json& choice) {
  const auto it = choice.find("token_ids");
  if (it == choice.end() || !it->is_array()) return std::nullopt;
  std::vector<int32_t> ids;
  for (const Json& id : *it) {
    if (!id.is_number_integer()) return std::nullopt;
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// Text of any channel: the completion's, or the chat message's content, reasoning or refusal.
std::string ChoiceText(const Json& choice) {
  std::string text = StringAt(choice, "text");
  if (const auto delta = choice.find("delta"); delta != choice.end()) {
    for (const char* channel : {"content", "reasoning_content", "reasoning", "refusal"}) {
      if (text.empty()) text = StringAt(*delta, channel);
    }
  }
  return text;
}

}  // namespace

std::string ErrorMessage(std::string_view body) {
  const auto parsed = ParseJson(body, "body");
  if (parsed.ok() && parsed->is_object()) {
    const auto error = parsed->find("error");
    if (error != parsed->end() && error->is_string()) return OneLine(error->get<std::string>());
    const std::string inner = error != parsed->end() ? StringAt(*error, "message") : "";
    if (!inner.empty()) return OneLine(inner);
    const std::string outer = StringAt(*parsed, "message");
    if (!outer.empty()) return OneLine(outer);
  }
  return OneLine(std::string(body));
}

void CompletionStream::Fail(std::string message) {
  if (record_->error.empty()) record_->error = std::move(message);
}

void CompletionStream::OnBytes(std::string_view bytes, int64_t now_ns) {
  head_.append(bytes.substr(0, kHeadBytes - std::min(kHeadBytes, head_.size())));
  if (!record_->error.empty() || done_event_) return;
  bytes_since_event_ += bytes.size();
  parser_.Push(bytes, [&](std::string_view data) {
    bytes_since_event_ = 0;
    OnEvent(data, now_ns);
  });
  if (bytes_since_event_ > kMaxEventBytes) {
    Fail(fmt::format("stream event: more than {} bytes without an end", kMaxEventBytes));
    parser_ = SseParser();
  }
}

void CompletionStream::OnEvent(std::string_view data, int64_t now_ns) {
  if (done_event_) return;
  if (data == "[DONE]") {
    done_event_ = true;
    return;
  }
  const auto event = ParseJson(data, "stream event");
  if (!event.ok()) return Fail(OneLine(event.status().message()));
  if (!event->is_object()) return Fail("stream event: is not a JSON object");
  if (event->contains("error") && !(*event)["error"].is_null())
    return Fail("error in the stream: " + ErrorMessage(data));
  if (const auto usage = event->find("usage"); usage != event->end()) ReadUsage(*usage, record_);

  const auto choices = event->find("choices");
  if (choices == event->end() || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  if (!choice.is_object()) return Fail("stream event: choices[0] is not a JSON object");
  const std::string text = ChoiceText(choice);
  record_->text += text;
  if (std::string reason = StringAt(choice, "finish_reason"); !reason.empty()) {
    record_->finish_reason = std::move(reason);
  }
  int32_t tokens = text.empty() ? 0 : 1;
  if (const auto ids = TokenIdsAt(choice)) {
    if (!record_->token_ids) record_->token_ids.emplace();
    record_->token_ids->insert(record_->token_ids->end(), ids->begin(), ids->end());
    tokens = static_cast<int32_t>(ids->size());
  }
  if (tokens == 0) return;
  if (record_->bursts.empty() || record_->bursts.back().time_ns != now_ns) {
    record_->bursts.push_back({.time_ns = now_ns});
  }
  record_->bursts.back().tokens += tokens;
}

void CompletionStream::OnDone(int status, const std::string& transport_error, int64_t now_ns) {
  record_->done_ns = now_ns;
  record_->http_status = status;
  if (!transport_error.empty()) return Fail(OneLine(transport_error));
  if (status != 200) return Fail(fmt::format("HTTP {}: {}", status, ErrorMessage(head_)));
  if (!done_event_ && record_->finish_reason.empty()) {
    return Fail(head_.empty() ? "the response is empty"
                              : "the stream ended without finish_reason and [DONE]");
  }
  if (record_->bursts.empty()) Fail("the stream ended without a token");
}

}  // namespace firesteel
