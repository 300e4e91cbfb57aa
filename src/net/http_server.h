// An HTTP/1.1 (and 1.0) server for few routes and many long streams. Boost.Beast stays inside.
//
// One io thread parses requests and writes responses; handlers run on it and must not block.
// Responses may come from any thread and never wait for the client: what it has not read yet waits
// in a bounded buffer.
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

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // GET, HEAD, POST, PUT, DELETE, PATCH or OPTIONS; others were answered 405
  std::string target;   // as sent
  std::string path;     // target without the query, not percent-decoded
  std::string query;    // behind the '?', "" without
  HttpHeaders headers;  // names in lower case, in the order sent
  std::string body;
  std::string peer;  // "127.0.0.1:51234"

  // The first header of this name (given in lower case), "" without.
  std::string_view Header(std::string_view name) const;
};

// One response. Thread-safe. Either Respond, or Start, any number of Write, and End; what comes
// after the end, or after the client went away, is ignored. Dropping the last reference before the
// end answers 500, or breaks off a started stream. May outlive the server.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void Respond(int status, HttpHeaders headers, std::string body) = 0;

  virtual void Start(int status, HttpHeaders headers) = 0;
  virtual void Write(std::string_view bytes) = 0;
  virtual void End() = 0;

  // `callback` runs on the io thread, at most once, and only when the client is gone before the
  // response was handed over: it closed the connection (or its half of it), stopped reading, or the
  // server stops. At once when that has happened already.
  virtual void OnDisconnect(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<ResponseWriter>)>;

// Past a limit the client gets the status named beside it, or is closed where no answer is due.
struct HttpServerOptions {
  std::string host = "127.0.0.1";       // an address or a name
  int32_t port = 0;                     // 0: any free one
  int32_t max_connections = 4096;       // 503
  int64_t max_header_bytes = 32 << 10;  // 431
  int64_t max_body_bytes = 16 << 20;    // 413
  int64_t header_timeout_ms = 10'000;  // 408; from connecting or the first byte to the header's end
  int64_t body_timeout_ms = 120'000;   // 408; from there to the body's end
  int64_t keep_alive_timeout_ms = 75'000;  // between two requests
  // A client that reads nothing while there is something to read, and how much may wait for it.
  int64_t stream_idle_timeout_ms = 300'000;
  int64_t max_buffered_bytes = 16 << 20;
  // The body of the errors that the server finds itself (null: the message), and its type.
  std::function<std::string(int status, const std::string& message)> error_body = nullptr;
  std::string error_content_type = "text/plain; charset=utf-8";
};

class HttpServer {
 public:
  // Binds and listens, and serves from then on. kUnavailable names host, port and the system's
  // reason. Raises the soft limit of open files where max_connections needs it, and ignores
  // SIGPIPE.
  static Result<std::unique_ptr<HttpServer>> Listen(const HttpServerOptions& options,
                                                    HttpHandler handler);
  ~HttpServer();  // Stop(0)

  int32_t Port() const;

  // Runs `task` on the io thread; thread-safe; after Stop it is never run.
  void Post(std::function<void()> task);

  // Takes no new connections, closes idle ones, lets responses in progress end for `grace_ms`, then
  // closes the rest. Returns when the io thread has ended. Not from the io thread.
  void Stop(int64_t grace_ms);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace firesteel
