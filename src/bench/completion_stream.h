// Reads the body of one streamed completion (/v1/completions or /v1/chat/completions) into a
// RequestRecord.
//
// One for each request; not thread-safe. Nothing a server sends can do worse than fail the request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bench/request_record.h"
#include "net/sse.h"

namespace firesteel {

class CompletionStream {
 public:
  explicit CompletionStream(RequestRecord* record)
      : record_(record) {}  // `record` must outlive this object

  // What comes after a fault is ignored, so that no server can fill the memory.
  void OnBytes(std::string_view bytes, int64_t now_ns);
  // Fills done_ns, http_status and error. `transport_error` is not empty when no complete response
  // came.
  void OnDone(int status, const std::string& transport_error, int64_t now_ns);

 private:
  void OnEvent(std::string_view data, int64_t now_ns);
  void Fail(std::string message);

  RequestRecord* record_;
  SseParser parser_;
  std::string head_;  // the start of the body, for the message of an answer that is no stream
  size_t bytes_since_event_ = 0;
  bool done_event_ = false;
};

// The message of an OpenAI error body ({"error": {"message": …}}), else the body itself, shortened
// to one line.
std::string ErrorMessage(std::string_view body);

}  // namespace firesteel
