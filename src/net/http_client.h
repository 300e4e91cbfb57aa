// An HTTP/1.1 client for load generation: many requests at once on one thread, bodies delivered
// piece by piece.
//
// libcurl's multi interface stays inside. One thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

struct HttpCall {
  std::string method = "GET";
  std::string url = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  int64_t timeout_ms = 600'000;
  // Bytes of the body as they arrive, with the monotonic time of their arrival (clock.h). May be
  // null.
  std::function<void(std::string_view bytes, int64_t now_ns)> on_data = nullptr;
  // Exactly once, from Poll or from the destructor. `status` 0 and `error` set when no complete
  // response came.
  std::function<void(int status, const std::string& error, int64_t now_ns)> on_done = nullptr;
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();  // ends what is in flight: on_done with status 0; Start does nothing from there on

  void Start(HttpCall call);
  int InFlight() const;
  // Handles what is ready, waiting at most `timeout_ms`. Callbacks run inside and may call Start.
  void Poll(int timeout_ms);

  // Convenience: one call, waiting for it. The whole body; kUnavailable when no response came.
  struct Response {
    int status = 0;
    std::string body;
  };
  static Result<Response> Fetch(HttpCall call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace firesteel
