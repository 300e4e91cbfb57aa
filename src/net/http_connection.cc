#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "net/http_connection_internal.h"

namespace firesteel {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// A client may send its next request early; beyond this we stop reading until the response is done.
constexpr size_t kMaxPipelinedBytes = 64 << 10;
constexpr size_t kReadBytes = 4096;
// The parser wants the header of a chunk, and all trailers, in one piece. They may be as long as
// the request's header, and what else is read in between must fit too.
constexpr size_t kMinBufferBytes = 2 * kMaxPipelinedBytes;
// After an error the client may still be sending. Closing at once would make the kernel answer with
// a reset, and the error would be lost; so what comes is thrown away for this long.
constexpr int64_t kLingerMs = 2000;

// The writer that a handler holds: the last reference to go answers for all.
class Writer final : public ResponseWriter {
 public:
  explicit Writer(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Writer() override { exchange_->Abandon(); }
  void Respond(int status, HttpHeaders headers, std::string body) override {
    exchange_->Respond(status, std::move(headers), std::move(body));
  }
  void Start(int status, HttpHeaders headers) override {
    exchange_->Start(status, std::move(headers));
  }
  void Write(std::string_view bytes) override { exchange_->Write(bytes); }
  void End() override { exchange_->End(); }
  void OnDisconnect(std::function<void()> callback) override {
    exchange_->OnDisconnect(std::move(callback));
  }

 private:
  std::shared_ptr<Exchange> exchange_;
};

std::string LowerCase(boost::beast::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// "http://host/path", as a proxy asks, is "/path".
std::string WithoutOrigin(std::string path) {
  const size_t scheme = path.find("://");
  if (path.empty() || path.front() == '/' || scheme == std::string::npos) return path;
  const size_t slash = path.find('/', scheme + 3);
  return slash == std::string::npos ? "/" : path.substr(slash);
}

struct Refusal {
  int status = 0;
  std::string message;
};

Refusal CheckHeader(const http::request_parser<http::string_body>& parser) {
  const auto& header = parser.get();
  switch (header.method()) {
    case http::verb::get:
    case http::verb::head:
    case http::verb::post:
    case http::verb::put:
    case http::verb::delete_:
    case http::verb::patch:
    case http::verb::options:
      break;
    default:
      return {405, "method " + std::string(header.method_string()) + " is not known here"};
  }
  if (header.version() >= 11 && header.count(http::field::host) != 1) {
    return {400, "an HTTP/1.1 request needs exactly one Host header, found " +
                     std::to_string(header.count(http::field::host))};
  }
  if (header.count(http::field::transfer_encoding) != 0 && !parser.chunked()) {
    return {501, "Transfer-Encoding is '" + std::string(header[http::field::transfer_encoding]) +
                     "', expected chunked"};
  }
  const std::string encoding = LowerCase(header[http::field::content_encoding]);
  if (!encoding.empty() && encoding != "identity") {
    return {415, "Content-Encoding is '" + encoding + "', expected none"};
  }
  const std::string expect = LowerCase(header[http::field::expect]);
  if (!expect.empty() && expect != "100-continue") {
    return {417, "Expect is '" + expect + "', expected 100-continue"};
  }
  return {};
}

}  // namespace

struct Connection::Parsed {
  http::request_parser<http::string_body> parser;
};

Connection::Connection(ConnectionContext* context, asio::ip::tcp::socket socket)
    : context_(context),
      options_(*context->options),
      socket_(std::move(socket)),
      deadline_(context->io),
      write_limit_(context->io),
      resume_(context->io, asio::steady_timer::time_point::max()) {
  buffer_.max_size(std::max(kMinBufferBytes, static_cast<size_t>(2 * options_.max_header_bytes)));
  error_code ec;
  socket_.set_option(asio::ip::tcp::no_delay(true), ec);
  socket_.non_blocking(true, ec);
  const auto endpoint = socket_.remote_endpoint(ec);
  if (!ec) {
    peer_ = (endpoint.address().is_v6() ? "[" + endpoint.address().to_string() + "]"
                                        : endpoint.address().to_string()) +
            ":" + std::to_string(endpoint.port());
  }
  context_->connections.insert(this);
}

Connection::~Connection() {
  context_->connections.erase(this);
  if (context_->stopping && context_->connections.empty()) context_->on_last_closed();
}

void Connection::ArmDeadline(int64_t timeout_ms) {
  timed_out_ = false;
  const uint64_t number = ++deadline_number_;
  deadline_.expires_after(std::chrono::milliseconds(timeout_ms));
  deadline_.async_wait([self = shared_from_this(), number](error_code ec) {
    // The number, because an expired timer whose handler is queued can no longer be cancelled.
    if (ec || number != self->deadline_number_ || self->closed_) return;
    self->timed_out_ = true;
    self->socket_.cancel(ec);
  });
}

void Connection::DisarmDeadline() {
  ++deadline_number_;
  deadline_.cancel();
}

void Connection::WakeReader() {
  resume_.cancel();
  error_code ec;
  socket_.cancel(ec);
}

void Connection::Close() {
  if (closed_) return;
  closed_ = true;
  DisarmDeadline();
  write_limit_.cancel();
  resume_.cancel();
  error_code ec;
  socket_.close(ec);
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->Disconnect();
}

void Connection::CloseIfIdle() {
  if (idle_) Close();
}

void Connection::PostFlush() {
  asio::post(context_->io, [self = shared_from_this()] { self->Flush(); });
}

void Connection::PostClose() {
  asio::post(context_->io, [self = shared_from_this()] { self->Close(); });
}

asio::awaitable<void> Connection::Serve() {
  while (!closed_ && keep_alive_) {
    if (buffer_.size() == 0) {
      const bool came = co_await WaitForRequest();
      if (!came) break;
    }
    const bool more = co_await ServeOne();
    if (!more) break;
  }
  Close();
}

asio::awaitable<bool> Connection::WaitForRequest() {
  if (context_->stopping) co_return false;
  ArmDeadline(served_one_ ? options_.keep_alive_timeout_ms : options_.header_timeout_ms);
  idle_ = true;
  error_code ec;
  const size_t size = co_await socket_.async_read_some(
      buffer_.prepare(kReadBytes), asio::redirect_error(asio::use_awaitable, ec));
  idle_ = false;
  DisarmDeadline();
  buffer_.commit(size);
  co_return !ec && !closed_;
}

// True when another request may follow.
asio::awaitable<bool> Connection::ServeOne() {
  Parsed parsed;
  parsed.parser.header_limit(static_cast<uint32_t>(options_.max_header_bytes));
  parsed.parser.body_limit(static_cast<uint64_t>(options_.max_body_bytes));
  error_code ec;
  ArmDeadline(options_.header_timeout_ms);
  co_await http::async_read_header(socket_, buffer_, parsed.parser,
                                   asio::redirect_error(asio::use_awaitable, ec));
  if (ec) {
    co_await RefuseError(ec, /*in_body=*/false);
    co_return false;
  }
  Refusal refusal = CheckHeader(parsed.parser);
  if (refusal.status != 0) {
    co_await Refuse(refusal.status, std::move(refusal.message));
    co_return false;
  }
  if (!parsed.parser.is_done()) {
    const bool complete = co_await ReadBody(&parsed);
    if (!complete) co_return false;
  }
  DisarmDeadline();
  if (closed_) co_return false;
  Handle(&parsed);
  Flush();
  co_await WaitForResponse();
  served_one_ = true;
  co_return !closed_ && keep_alive_;
}

asio::awaitable<bool> Connection::ReadBody(Parsed* parsed) {
  error_code ec;
  ArmDeadline(options_.body_timeout_ms);
  if (!parsed->parser.get()[http::field::expect].empty() && buffer_.size() == 0) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(socket_, asio::buffer(kContinue),
                               asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return false;
  }
  co_await http::async_read(socket_, buffer_, parsed->parser,
                            asio::redirect_error(asio::use_awaitable, ec));
  if (ec) {
    co_await RefuseError(ec, /*in_body=*/true);
    co_return false;
  }
  co_return true;
}

void Connection::Handle(Parsed* parsed) {
  auto& message = parsed->parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  const size_t question = request.target.find('?');
  request.path = WithoutOrigin(request.target.substr(0, question));
  if (question != std::string::npos) request.query = request.target.substr(question + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(LowerCase(field.name_string()), std::string(field.value()));
  }
  request.body = std::move(message.body());
  request.peer = peer_;
  exchange_ =
      std::make_shared<Exchange>(context_->options, &context_->stopping, this,
                                 Exchange::Request{.head = message.method() == http::verb::head,
                                                   .chunked = message.version() >= 11,
                                                   .keep_alive = message.keep_alive()});
  try {
    context_->handler(std::move(request), std::make_shared<Writer>(exchange_));
  } catch (const std::exception& e) {
    FS_LOG_ERROR("http: the handler of a request from {} threw: {}", peer_, e.what());
  }
}

// Reads on while the response is made, which is how we learn that the client is gone.
asio::awaitable<void> Connection::WaitForResponse() {
  bool half_closed = false;
  while (!closed_ && exchange_ != nullptr) {
    error_code ec;
    if (half_closed || buffer_.size() >= kMaxPipelinedBytes) {
      co_await resume_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
      continue;
    }
    const size_t size = co_await socket_.async_read_some(
        buffer_.prepare(kReadBytes), asio::redirect_error(asio::use_awaitable, ec));
    buffer_.commit(size);
    if (!ec || ec == asio::error::operation_aborted) continue;
    if (ec == asio::error::eof && exchange_ != nullptr && exchange_->Ended()) {
      half_closed = true;  // it may still read what we have for it
      keep_alive_ = false;
    } else {
      Close();
    }
  }
}

void Connection::Flush() {
  while (!closed_ && !blocked_ && exchange_ != nullptr) {
    if (sent_ == sending_.size()) {
      sending_.clear();
      sent_ = 0;
      const bool last = exchange_->Take(&sending_);
      if (sending_.empty()) {
        if (!last) return;
        if (exchange_->CloseAfter()) keep_alive_ = false;
        exchange_->Detach();
        exchange_ = nullptr;
        WakeReader();
        return;
      }
    }
    error_code ec;
    const size_t size =
        socket_.write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_), ec);
    sent_ += size;
    exchange_->Sent(size);
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
      WaitUntilWritable();
    } else if (ec) {
      Close();
    }
  }
}

void Connection::WaitUntilWritable() {
  blocked_ = true;
  write_limit_.expires_after(std::chrono::milliseconds(options_.stream_idle_timeout_ms));
  write_limit_.async_wait([self = shared_from_this()](error_code ec) {
    if (!ec && self->blocked_) self->Close();
  });
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](error_code ec) {
    self->blocked_ = false;
    self->write_limit_.cancel();
    if (!ec) self->Flush();
  });
}

asio::awaitable<void> Connection::RefuseError(error_code ec, bool in_body) {
  const char* part = in_body ? "body" : "header";
  if (ec == asio::error::operation_aborted && timed_out_) {
    const int64_t limit_ms = in_body ? options_.body_timeout_ms : options_.header_timeout_ms;
    co_await Refuse(408, std::string("the request's ") + part + " was not complete after " +
                             std::to_string(limit_ms) + " ms");
  } else if (ec == http::error::header_limit) {
    co_await Refuse(431, "the request's header is longer than " +
                             std::to_string(options_.max_header_bytes) + " bytes");
  } else if (ec == http::error::body_limit) {
    co_await Refuse(413, "the request's body is longer than " +
                             std::to_string(options_.max_body_bytes) + " bytes");
  } else if (ec == http::error::buffer_overflow) {
    co_await Refuse(400, std::string("the request's ") + part +
                             " holds a chunk header or trailers of more than " +
                             std::to_string(buffer_.max_size()) + " bytes");
  } else if (ec == http::error::bad_version) {
    co_await Refuse(505, "the request line does not end in HTTP/1.1 or HTTP/1.0");
  } else if (ec.category() == http::make_error_code(http::error::bad_method).category() &&
             ec != http::error::end_of_stream && ec != http::error::partial_message) {
    co_await Refuse(400, std::string("the request's ") + part + " is malformed: " + ec.message());
  }
}

asio::awaitable<void> Connection::Refuse(int status, std::string message) {
  const std::string response = HttpErrorResponse(options_, status, message);
  error_code ec;
  ArmDeadline(kLingerMs);
  co_await asio::async_write(socket_, asio::buffer(response),
                             asio::redirect_error(asio::use_awaitable, ec));
  if (!ec) socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  while (!ec && !closed_) {
    buffer_.clear();
    co_await socket_.async_read_some(buffer_.prepare(kMaxPipelinedBytes),
                                     asio::redirect_error(asio::use_awaitable, ec));
  }
  Close();
}

}  // namespace firesteel
