// The response half of one request: the state that any thread may touch, behind one lock. Knows
// HTTP's framing, not sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "net/http_server.h"

namespace firesteel {

// Status line and headers; adds Date, Server and Connection. `framing` is the Content-Length or
// Transfer-Encoding line.
std::string HttpHead(int status, const HttpHeaders& headers, const std::string& framing,
                     bool close);
// A whole response with options.error_body, after which the connection is closed.
std::string HttpErrorResponse(const HttpServerOptions& options, int status,
                              const std::string& message);
const char* HttpReason(int status);

// How the connection of an exchange is told that there is something to do. Calls come under the
// exchange's lock and from any thread, and only until Detach.
class ExchangeOwner {
 public:
  virtual void PostFlush() = 0;
  virtual void PostClose() = 0;

 protected:
  ~ExchangeOwner() = default;
};

class Exchange {
 public:
  struct Request {
    bool head = false;       // the method is HEAD: headers only
    bool chunked = true;     // false for an HTTP/1.0 client: a stream ends with the connection
    bool keep_alive = true;  // the client's wish
  };

  // `stopping` and `owner` are looked at until Detach.
  Exchange(std::shared_ptr<const HttpServerOptions> options, const std::atomic<bool>* stopping,
           ExchangeOwner* owner, Request request)
      : options_(std::move(options)), stopping_(stopping), owner_(owner), request_(request) {}

  // Thread-safe: see ResponseWriter.
  void Respond(int status, HttpHeaders headers, std::string body);
  void Start(int status, HttpHeaders headers);
  void Write(std::string_view bytes);
  void End();
  void OnDisconnect(std::function<void()> callback);
  void Abandon();  // nobody is left who could end it

  // Io thread only.
  bool Take(std::string* bytes);  // swaps out what waits (`*bytes` is empty before); true when
                                  // nothing will follow
  void Sent(size_t num_bytes);
  bool Ended();
  bool CloseAfter();  // REQUIRES: Ended
  void Detach();      // the response was handed over
  void Disconnect();  // the client is gone: runs the callback unless Ended

 private:
  enum class State { kWaiting, kStreaming, kEnded };

  void AppendHead(int status, const HttpHeaders& headers, const std::string& framing, bool close);
  void RespondLocked(int status, const HttpHeaders& headers, const std::string& body);
  void FlushLocked();

  const std::shared_ptr<const HttpServerOptions> options_;
  const std::atomic<bool>* const stopping_;
  std::mutex mutex_;
  ExchangeOwner* owner_;  // null when over
  const Request request_;
  State state_ = State::kWaiting;
  bool gone_ = false;
  bool close_after_ = false;
  bool has_body_ = true;
  bool flush_posted_ = false;
  bool overflowed_ = false;
  std::string out_;
  int64_t unsent_bytes_ = 0;  // in out_ and in the connection's hands
  std::function<void()> on_disconnect_;
};

}  // namespace firesteel
