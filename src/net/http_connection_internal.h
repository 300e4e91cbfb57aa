// One connection: reads requests one after the other, writes what the exchange of each holds. Io
// thread only, but for the two Post functions.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "net/http_exchange_internal.h"

namespace firesteel {

class Connection;

// What all connections of a server share.
struct ConnectionContext {
  std::shared_ptr<const HttpServerOptions> options;
  HttpHandler handler;
  std::atomic<bool> stopping = false;  // written on the io thread
  std::unordered_set<Connection*> connections;
  std::function<void()> on_last_closed;  // once stopping
  boost::asio::io_context io{1};         // last: what is still queued may hold connections
};

class Connection final : public ExchangeOwner, public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionContext* context, boost::asio::ip::tcp::socket socket);
  ~Connection();

  // Until the client leaves, an error, or Close. The caller keeps the object alive meanwhile.
  boost::asio::awaitable<void> Serve();
  boost::asio::awaitable<void> Refuse(int status, std::string message);

  void Close();        // now; an exchange in progress hears Disconnect
  void CloseIfIdle();  // unless a request was begun

  void PostFlush() override;  // thread-safe, under the lock of the exchange
  void PostClose() override;

 private:
  struct Parsed;

  boost::asio::awaitable<bool> WaitForRequest();
  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<bool> ReadBody(Parsed* parsed);
  boost::asio::awaitable<void> WaitForResponse();
  boost::asio::awaitable<void> RefuseError(boost::system::error_code ec, bool in_body);
  void Handle(Parsed* parsed);
  void Flush();
  void WaitUntilWritable();
  void WakeReader();
  void ArmDeadline(int64_t timeout_ms);
  void DisarmDeadline();

  ConnectionContext* const context_;
  const HttpServerOptions& options_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;       // received, not yet parsed
  boost::asio::steady_timer deadline_;     // of what Serve reads
  boost::asio::steady_timer write_limit_;  // of a client that does not read
  boost::asio::steady_timer
      resume_;  // never expires; cancelled to wake Serve while it reads nothing
  std::string peer_;
  std::shared_ptr<Exchange> exchange_;  // of the request being answered
  std::string sending_;
  size_t sent_ = 0;  // of sending_
  uint64_t deadline_number_ = 0;
  bool timed_out_ = false;
  bool idle_ = false;
  bool blocked_ = false;  // the kernel takes no more for now
  bool served_one_ = false;
  bool keep_alive_ = true;
  bool closed_ = false;
};

}  // namespace firesteel
