// Reads the body of one streamed generation into a RequestRecord: /v1/completions,
// /v1/chat/completions, and SGLang's /generate, told apart by what the events hold.
//
// One for each request; not thread-safe. Nothing a server sends can do worse than fail the request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bursts.h"
#include "bench/request_record.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace firesteel {

class CompletionStream {
 public:
  explicit CompletionStream(RequestRecord* record);  // `record` must outlive this object
  ~CompletionStream();

  // What comes after a fault is ignored, so that no server can fill the memory.
  void OnBytes(std::string_view bytes, int64_t now_ns);
  // What the transport knows; before OnDone, may be left out.
  void OnInfo(const HttpCallInfo& info);
  // Fills done_ns, http_status, error, failure and the bursts. `transport_error` is not empty when
  // no complete response came.
  void OnDone(int status, const std::string& transport_error, int64_t now_ns);
  // Instead of OnDone: the client gives up.
  void GiveUp(Failure failure, std::string message, int64_t now_ns);

  // For live figures and idle timeouts.
  int64_t last_token_ns() const { return candidates_.empty() ? 0 : candidates_.back().time_ns; }
  int64_t events() const { return events_; }
  int32_t live_tokens() const { return live_tokens_; }

 private:
  struct Parser;  // simdjson's, which stays inside

  void OnEvent(std::string_view data, int64_t now_ns);
  void OnWholeBody();
  void Fail(Failure failure, std::string message);
  BurstCandidate& CandidateAt(int64_t now_ns);
  bool ClassifyTransport(int status, const std::string& transport_error);

  RequestRecord* record_;
  std::unique_ptr<Parser> parser_;
  SseParser sse_;
  HttpCallInfo info_;
  std::vector<BurstCandidate> candidates_;
  std::string head_;  // the start of the body, for the message of an answer that is no stream
  size_t body_bytes_ = 0;
  size_t bytes_since_event_ = 0;
  int64_t events_ = 0;
  int64_t done_event_ns_ = 0;
  int32_t live_tokens_ = 0;
  bool done_event_ = false;
  bool delta_text_ = false;  // /generate with text that does not repeat what came before
};

// The message of an OpenAI error body ({"error": {"message": …}}), else the body itself, shortened
// to one line.
std::string ErrorMessage(std::string_view body);

}  // namespace firesteel
