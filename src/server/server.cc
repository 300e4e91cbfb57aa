#include "server/server.h"

#include <semaphore.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/http_server.h"
#include "server/errors.h"
#include "server/routes.h"
#include "server/stats_log.h"

namespace firesteel {
namespace {

// For the last bytes of responses that have ended: clients that read get them, others do not hold
// us up.
constexpr int64_t kFlushMs = 2000;
constexpr int64_t kFlushNowMs = 200;
constexpr int64_t kLogIntervalMs = 10'000;

timespec MonotonicIn(int64_t ms) {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  const int64_t ns = at.tv_nsec + (ms % 1000) * 1'000'000;
  at.tv_sec += ms / 1000 + ns / 1'000'000'000;
  at.tv_nsec = ns % 1'000'000'000;
  return at;
}

enum StopLevel : int { kServe, kDrain, kNow };

}  // namespace

// Members are destroyed from the bottom: the engine first, whose sinks post to `http`, which calls
// `routes`.
struct ApiServer::Impl {
  explicit Impl(const ServerOptions& options)
      : options(options), routes(options, Clock::Real(), [this] {
          idle = true;
          sem_post(&wake);
        }) {
    sem_init(&wake, 0, 0);
  }
  ~Impl() {
    if (http != nullptr) http->Stop(0);
    engine.reset();
    sem_destroy(&wake);
  }

  void RaiseStopLevel(StopLevel level) {
    int seen = stop_level.load();
    while (seen < level && !stop_level.compare_exchange_weak(seen, level)) {
    }
    sem_post(&wake);
  }

  const ServerOptions options;
  sem_t
      wake;  // posted after a change of the two below: sem_post is all that a signal handler may do
  std::atomic<int> stop_level = kServe;
  std::atomic<bool> idle = false;  // draining, and nothing is left
  Routes routes;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<Engine> engine;
  std::atomic<Engine*> engine_set = nullptr;
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::Listen(const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  HttpServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.max_body_bytes = options.max_body_bytes;
  http.header_timeout_ms = options.header_timeout_ms;
  http.stream_idle_timeout_ms = options.stream_idle_timeout_ms;
  http.max_connections = options.max_connections;
  http.error_body = [](int status, const std::string& message) {
    return ErrorBody({.status = status, .message = message, .param = "", .code = ""});
  };
  http.error_content_type = "application/json";
  FS_ASSIGN(impl->http, HttpServer::Listen(
                            http, [routes = &impl->routes](HttpRequest request,
                                                           std::shared_ptr<ResponseWriter> writer) {
                              routes->Dispatch(std::move(request), std::move(writer));
                            }));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

void ApiServer::SetEngine(std::unique_ptr<Engine> engine) {
  FS_CHECK(engine != nullptr && impl_->engine == nullptr, "SetEngine is called once");
  impl_->engine = std::move(engine);
  impl_->routes.SetEngine(impl_->engine.get(), impl_->http.get());
  impl_->engine_set = impl_->engine.get();
}

int32_t ApiServer::Port() const { return impl_->http->Port(); }

void ApiServer::Run() {
  Impl& impl = *impl_;
  StatsLog log;
  while (impl.stop_level == kServe) {
    const timespec next = MonotonicIn(kLogIntervalMs);
    if (!impl.options.log_stats) {
      sem_wait(&impl.wake);
    } else if (sem_clockwait(&impl.wake, CLOCK_MONOTONIC, &next) != 0 && errno == ETIMEDOUT) {
      const Engine* engine = impl.engine_set;
      if (engine == nullptr) continue;
      for (const std::string& line : log.Lines(engine->Stats(), kLogIntervalMs * 1e-3)) {
        FS_LOG_INFO("{}", line);
      }
    }
  }

  // On the io thread, so that no request slips in between the check and the wait.
  impl.http->Post([&impl] {
    FS_LOG_INFO("server: shutting down, {} requests in progress", impl.routes.NumActive());
    impl.routes.StartDrain();
  });
  const timespec deadline = MonotonicIn(impl.options.drain_timeout_ms);
  while (impl.stop_level == kDrain && !impl.idle) {
    if (sem_clockwait(&impl.wake, CLOCK_MONOTONIC, &deadline) != 0 && errno == ETIMEDOUT) break;
  }
  // Cancels what is left; each client is told.
  if (Engine* engine = impl.engine_set) engine->Drain(0);
  impl.http->Stop(impl.stop_level == kNow ? kFlushNowMs : kFlushMs);
}

void ApiServer::Stop() { impl_->RaiseStopLevel(kDrain); }
void ApiServer::StopNow() { impl_->RaiseStopLevel(kNow); }

}  // namespace firesteel
