// An HTTP/1.1 client for load generation: many requests at once on one thread, bodies delivered
// piece by piece.
//
// libcurl's multi interface stays inside. One thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

// Where a call broke that got no complete response.
enum class HttpFault {
  kNone,
  kConnect,  // no connection: address, refusal
  kTls,
  kConnectTimeout,
  kTotalTimeout,
  kClosed,    // the peer went away, before the response or in it
  kProtocol,  // what came is not HTTP
  kOther,
};

// What the transport knows about one call.
struct HttpCallInfo {
  HttpFault fault = HttpFault::kNone;
  // Duration of connect and TLS; 0: the connection was open; nullopt: none was made.
  std::optional<int64_t> connect_ns;
  std::optional<int64_t> head_ns;  // status line and headers complete
  std::string content_type;
  // Times the request was sent again, because a connection from the pool was closed before a byte
  // of the response came. At most one.
  int32_t reconnects = 0;
};

struct HttpCall {
  std::string method = "GET";
  std::string url = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  int64_t timeout_ms = 600'000;  // 0: none
  int64_t connect_timeout_ms = 30'000;
  bool new_connection = false;  // for this call alone, closed behind it
  // Bytes of the body as they arrive, with the monotonic time of their arrival (clock.h): one time
  // for all that one read brought, in however many pieces. May be null.
  std::function<void(std::string_view bytes, int64_t now_ns)> on_data = nullptr;
  // Exactly once, from Poll or from the destructor. `status` 0 and `error` set when no complete
  // response came.
  std::function<void(int status, const std::string& error, int64_t now_ns)> on_done = nullptr;
  // Just before on_done. May be null.
  std::function<void(const HttpCallInfo& info)> on_info = nullptr;
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();  // ends what is in flight: on_done with status 0; Start does nothing from there on

  using CallId = uint64_t;
  CallId Start(HttpCall call);
  // Drops a call without a word to its callbacks; one that has ended is ignored. Not from
  // callbacks.
  void Cancel(CallId id);
  int InFlight() const;
  // Handles what is ready, waiting at most `timeout_ms`. Callbacks run inside and may call Start.
  void Poll(int timeout_ms);
  // The same, waiting until `deadline_ns` of clock.h, to the microsecond.
  void PollUntil(int64_t deadline_ns);

  // In a callback: since when at the earliest what is handled now may have been there. Now minus
  // this bounds what this thread added to a time. Wakeups that came late are not in it.
  int64_t ReadableSinceNs() const;
  // Time spent waiting, in all.
  int64_t WaitedNs() const;

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
