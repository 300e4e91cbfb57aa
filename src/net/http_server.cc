#include "net/http_server.h"

#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "net/http_connection_internal.h"

namespace firesteel {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
// Above max_connections this many are told so; the rest are closed without a word.
constexpr size_t kMaxRefusedConnections = 256;
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);

void RaiseOpenFilesLimit(int32_t max_connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(max_connections) + kMaxRefusedConnections + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Ends a connection's coroutine and keeps the connection alive until then.
auto KeepAlive(std::shared_ptr<Connection> connection) {
  return [connection = std::move(connection)](std::exception_ptr error) {
    connection->Close();
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      FS_LOG_ERROR("http: a connection ended with an exception: {}", e.what());
    }
  };
}

}  // namespace

struct HttpServer::Impl {
  ConnectionContext context;
  tcp::acceptor acceptor{context.io};
  asio::steady_timer accept_retry{context.io};
  asio::steady_timer grace{context.io};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.io.get_executor()};
  int32_t port = 0;
  std::mutex join_mutex;
  std::thread thread;

  Status Bind();
  asio::awaitable<void> Accept();
  void StopOnIoThread(int64_t grace_ms);
  void CloseAll();
};

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

Status HttpServer::Impl::Bind() {
  const HttpServerOptions& options = *context.options;
  const std::string where =
      "http: cannot listen on " + options.host + ":" + std::to_string(options.port);
  if (options.port < 0 || options.port > 65535) {
    return InvalidArgument(where + ": port is " + std::to_string(options.port) +
                           ", expected 0 to 65535");
  }
  error_code ec;
  tcp::resolver resolver(context.io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec) return Unavailable(where + ": " + ec.message());
  // IPv4 first: "localhost" names both, and clients that try only one try that.
  std::vector<tcp::endpoint> endpoints;
  for (const bool v4 : {true, false}) {
    for (const auto& entry : found) {
      if (entry.endpoint().address().is_v4() == v4) endpoints.push_back(entry.endpoint());
    }
  }
  for (const tcp::endpoint& endpoint : endpoints) {
    acceptor.close(ec);
    acceptor.open(endpoint.protocol(), ec);
    if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) acceptor.bind(endpoint, ec);
    if (!ec) acceptor.listen(kBacklog, ec);
    if (!ec) {
      port = acceptor.local_endpoint(ec).port();
      return {};
    }
  }
  return Unavailable(where + ": " + ec.message());
}

asio::awaitable<void> HttpServer::Impl::Accept() {
  bool failing = false;
  while (acceptor.is_open()) {
    error_code ec;
    tcp::socket socket(context.io);
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, ec));
    if (ec == asio::error::operation_aborted || !acceptor.is_open()) co_return;
    if (ec) {
      // Out of descriptors, most likely: the connection stays in the backlog, and others will end.
      if (!failing) FS_LOG_WARNING("http: cannot accept a connection: {}", ec.message());
      failing = true;
      accept_retry.expires_after(kAcceptRetry);
      co_await accept_retry.async_wait(asio::redirect_error(asio::use_awaitable, ec));
      continue;
    }
    failing = false;
    const size_t limit = static_cast<size_t>(context.options->max_connections);
    if (context.connections.size() >= limit + kMaxRefusedConnections) continue;
    const bool full = context.connections.size() >= limit;
    auto connection = std::make_shared<Connection>(&context, std::move(socket));
    if (full) {
      asio::co_spawn(
          context.io,
          connection->Refuse(503, "all " + std::to_string(limit) + " connections are in use"),
          KeepAlive(connection));
    } else {
      asio::co_spawn(context.io, connection->Serve(), KeepAlive(connection));
    }
  }
}

void HttpServer::Impl::CloseAll() {
  // Held, because the last handler of a closed connection may end it while we walk.
  std::vector<std::shared_ptr<Connection>> all;
  for (Connection* connection : context.connections) all.push_back(connection->shared_from_this());
  for (const auto& connection : all) connection->Close();
}

void HttpServer::Impl::StopOnIoThread(int64_t grace_ms) {
  error_code ec;
  context.on_last_closed = [this] { grace.cancel(); };
  context.stopping = true;
  acceptor.close(ec);
  accept_retry.cancel();
  work.reset();
  if (grace_ms <= 0) {
    CloseAll();
    return;
  }
  std::vector<std::shared_ptr<Connection>> all;
  for (Connection* connection : context.connections) all.push_back(connection->shared_from_this());
  for (const auto& connection : all) connection->CloseIfIdle();
  if (all.empty()) return;
  grace.expires_after(std::chrono::milliseconds(grace_ms));
  grace.async_wait([this](error_code ec) {
    if (!ec) CloseAll();
  });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { Stop(0); }

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpServerOptions& options,
                                                       HttpHandler handler) {
  RaiseOpenFilesLimit(options.max_connections);
  std::signal(SIGPIPE, SIG_IGN);
  auto impl = std::make_unique<Impl>();
  impl->context.options = std::make_shared<const HttpServerOptions>(options);
  impl->context.handler = std::move(handler);
  FS_TRY(impl->Bind());
  asio::co_spawn(impl->context.io, impl->Accept(), [](std::exception_ptr error) {
    if (error) FS_LOG_ERROR("http: accepting connections ended with an exception");
  });
  Impl* const raw = impl.get();
  impl->thread = std::thread([raw] { raw->context.io.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int32_t HttpServer::Port() const { return impl_->port; }

void HttpServer::Post(std::function<void()> task) {
  asio::post(impl_->context.io, std::move(task));
}

void HttpServer::Stop(int64_t grace_ms) {
  asio::post(impl_->context.io, [impl = impl_.get(), grace_ms] { impl->StopOnIoThread(grace_ms); });
  const std::lock_guard lock(impl_->join_mutex);
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace firesteel
