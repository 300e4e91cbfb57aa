#include "bench/completion_stream.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "bench/stream_event_internal.h"

namespace firesteel {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kHeadBytes = size_t{1} << 20;
constexpr size_t kMaxEventBytes = size_t{64} << 20;

Failure ClassOfStatus(int status) {
  if (status == 429) return Failure::kHttp429;
  if (status >= 500) return Failure::kHttp5xx;
  return status >= 400 ? Failure::kHttp4xx : Failure::kProtocol;
}

}  // namespace

struct CompletionStream::Parser {
  dom::parser json;
};

CompletionStream::CompletionStream(RequestRecord* record)
    : record_(record), parser_(std::make_unique<Parser>()) {}
CompletionStream::~CompletionStream() = default;

void CompletionStream::Fail(Failure failure, std::string message) {
  if (!record_->error.empty()) return;
  record_->failure = failure;
  record_->error = std::move(message);
}

BurstCandidate& CompletionStream::CandidateAt(int64_t now_ns) {
  if (candidates_.empty() || candidates_.back().time_ns != now_ns) {
    candidates_.push_back({.time_ns = now_ns});
  }
  return candidates_.back();
}

void CompletionStream::OnBytes(std::string_view bytes, int64_t now_ns) {
  body_bytes_ += bytes.size();
  // The rest of a stream is not kept: only an answer that is no stream has to be read as a whole.
  if (events_ == 0) {
    head_.append(bytes.substr(0, kHeadBytes - std::min(kHeadBytes, head_.size())));
  }
  if (!record_->error.empty() || done_event_) return;
  bytes_since_event_ += bytes.size();
  sse_.Push(bytes, [&](std::string_view data) {
    bytes_since_event_ = 0;
    OnEvent(data, now_ns);
  });
  if (bytes_since_event_ > kMaxEventBytes) {
    Fail(Failure::kProtocol,
         fmt::format("stream event: more than {} bytes without an end", kMaxEventBytes));
    sse_ = SseParser();
  }
}

void CompletionStream::OnEvent(std::string_view data, int64_t now_ns) {
  if (done_event_ || !record_->error.empty()) return;
  ++events_;
  if (data == "[DONE]") {
    done_event_ = true;
    done_event_ns_ = now_ns;
    return;
  }
  dom::element root;
  if (const auto error = parser_->json.parse(data.data(), data.size()).get(root)) {
    return Fail(Failure::kProtocol,
                OneLine(fmt::format("stream event: is not valid JSON: {}: {}",
                                    simdjson::error_message(error), data.substr(0, 80))));
  }
  dom::object event;
  if (root.get(event) != simdjson::SUCCESS) {
    return Fail(Failure::kProtocol, "stream event: is not a JSON object");
  }
  if (HoldsError(event) || sse_.event_type() == "error") {
    return Fail(Failure::kInStreamError, "error in the stream: " + ErrorMessage(data));
  }
  const auto usage = ObjectAt(event, "usage");
  if (usage) ReadUsage(*usage, record_);
  if (const auto meta = ObjectAt(event, "meta_info")) {
    BurstCandidate& burst = CandidateAt(now_ns);
    ++burst.events;
    const int32_t before = record_->completion_tokens.value_or(0);
    AddGenerate(event, *meta, now_ns, &delta_text_, record_, &burst);
    live_tokens_ += record_->completion_tokens.value_or(before) - before;
    return;
  }

  const auto choices = ArrayAt(event, "choices");
  if (!choices || choices->size() == 0) return;
  if (!record_->event_ns) record_->event_ns = now_ns;
  BurstCandidate& burst = CandidateAt(now_ns);
  ++burst.events;
  const int32_t ids_before = burst.ids.value_or(0);
  const int32_t texts_before = burst.text_events;
  size_t at = 0;
  for (const dom::element choice : *choices) {
    if (!AddChoice(choice, now_ns, record_, &burst)) {
      return Fail(Failure::kProtocol,
                  fmt::format("stream event: choices[{}] is not a JSON object", at));
    }
    ++at;
  }
  if (usage && record_->completion_tokens) burst.total = record_->completion_tokens;
  live_tokens_ += burst.ids ? *burst.ids - ids_before : burst.text_events - texts_before;
}

void CompletionStream::OnInfo(const HttpCallInfo& info) {
  info_ = info;
  record_->connect_ns = info.connect_ns;
  record_->head_ns = info.head_ns;
  record_->reconnects = info.reconnects;
}

// An answer that is one JSON object, though a stream was asked for.
void CompletionStream::OnWholeBody() {
  dom::element root;
  dom::object object;
  if (parser_->json.parse(head_.data(), head_.size()).get(root) != simdjson::SUCCESS ||
      root.get(object) != simdjson::SUCCESS) {
    return Fail(Failure::kProtocol,
                "the answer is neither a stream nor a JSON object: " + OneLine(head_));
  }
  if (HoldsError(object)) {
    return Fail(Failure::kInStreamError, "error in the body: " + ErrorMessage(head_));
  }
  record_->not_streamed = true;
  if (const auto usage = ObjectAt(object, "usage")) ReadUsage(*usage, record_);
  BurstCandidate scratch;
  if (const auto meta = ObjectAt(object, "meta_info")) {
    AddGenerate(object, *meta, 0, &delta_text_, record_, &scratch);
  } else if (const auto choices = ArrayAt(object, "choices")) {
    for (const dom::element choice : *choices) AddChoice(choice, 0, record_, &scratch);
  }
  record_->content_ns.reset();
  record_->event_ns.reset();
  if (record_->text.empty() && record_->OutputTokens() == 0) {
    Fail(Failure::kEmpty, "the answer holds no token");
  }
}

// True when the transport or the status has failed the request.
bool CompletionStream::ClassifyTransport(int status, const std::string& transport_error) {
  if (!transport_error.empty()) {
    Failure failure = Failure::kTruncated;
    switch (info_.fault) {
      case HttpFault::kConnect:
        failure = Failure::kConnect;
        break;
      case HttpFault::kTls:
        failure = Failure::kTls;
        break;
      case HttpFault::kConnectTimeout:
        failure = Failure::kTimeoutConnect;
        break;
      case HttpFault::kTotalTimeout:
        failure = Failure::kTimeoutTotal;
        break;
      case HttpFault::kProtocol:
        failure = Failure::kProtocol;
        break;
      default:
        break;
    }
    Fail(failure, OneLine(transport_error));
    return true;
  }
  if (status == 200) return false;
  Fail(ClassOfStatus(status), fmt::format("HTTP {}: {}", status, ErrorMessage(head_)));
  return true;
}

void CompletionStream::OnDone(int status, const std::string& transport_error, int64_t now_ns) {
  record_->http_status = status;
  if (transport_error.empty() && status != 200) record_->error.clear();  // the status says it
  if (record_->error.empty() && !done_event_ && transport_error.empty() && status == 200) {
    // A half event of a stream that was cut is no protocol fault: what is missing is the end.
    const RequestRecord before = *record_;
    const bool pending = sse_.Finish([&](std::string_view data) { OnEvent(data, now_ns); });
    if (pending && record_->failure == Failure::kProtocol) {
      *record_ = before;
      Fail(Failure::kTruncated, "the stream ended within an event");
    }
    record_->unterminated_event = pending;
  }
  record_->done_ns = done_event_ ? done_event_ns_ : now_ns;
  ResolveBursts(candidates_, record_);
  // A count of 0 beside text is a server that does not count.
  if (record_->completion_tokens == 0 && !record_->bursts.empty()) {
    record_->completion_tokens.reset();
  }
  if (!record_->error.empty() || ClassifyTransport(status, transport_error)) return;
  if (events_ == 0 && body_bytes_ > 0 && head_.find_first_not_of(" \t\r\n") != std::string::npos &&
      head_[head_.find_first_not_of(" \t\r\n")] == '{') {
    return OnWholeBody();
  }
  if (body_bytes_ == 0) return Fail(Failure::kTruncated, "the response is empty");
  if (!done_event_ && record_->finish_reason.empty()) {
    return Fail(Failure::kTruncated, "the stream ended without finish_reason and [DONE]");
  }
  if (record_->bursts.empty()) Fail(Failure::kEmpty, "the stream ended without a token");
}

void CompletionStream::GiveUp(Failure failure, std::string message, int64_t now_ns) {
  record_->done_ns = now_ns;
  ResolveBursts(candidates_, record_);
  Fail(failure, std::move(message));
}

}  // namespace firesteel
