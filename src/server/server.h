// The OpenAI-compatible server over one engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "firesteel/engine.h"
#include "firesteel/status.h"

namespace firesteel {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int32_t port = 8000;                               // 0: any free one, reported by Port()
  std::vector<std::string> served_model_names = {};  // the first in responses; empty: the engine's
  std::string api_key = {};                          // empty: none asked
  std::string chat_template = {};                    // Jinja source; empty: the checkpoint's
  int64_t max_body_bytes = 16 << 20;
  int64_t header_timeout_ms = 10'000;
  int64_t stream_idle_timeout_ms = 300'000;  // a client that stops reading
  int32_t max_connections = 4096;
  int64_t drain_timeout_ms = 30'000;
  bool log_stats = true;  // every ten seconds in which anything ran
};

class ApiServer {
 public:
  // Binds and listens at once, answering 503 on /health (and every API route) until SetEngine: a
  // load balancer sees a server that is starting, not one that is absent. kUnavailable names host,
  // port and the system's reason.
  static Result<std::unique_ptr<ApiServer>> Listen(const ServerOptions& options);
  ~ApiServer();

  void SetEngine(std::unique_ptr<Engine> engine);  // thread-safe, once
  int32_t Port() const;

  // Serves until Stop, then drains: refuses new work, finishes accepted requests (up to
  // drain_timeout_ms), closes.
  void Run();
  void Stop();     // thread-safe and async-signal-safe: starts the drain
  void StopNow();  // the same, without waiting for requests

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace firesteel
