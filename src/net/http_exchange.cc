#include <fmt/format.h>
#include <strings.h>

#include <ctime>
#include <iterator>
#include <utility>

#include "net/http_exchange_internal.h"

namespace firesteel {
namespace {

std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  // Not strftime's %a and %b, which follow the locale.
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[parts.tm_wday], parts.tm_mday,
                     kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

bool AsksToClose(const HttpHeaders& headers) {
  for (const auto& [name, value] : headers) {
    if (strcasecmp(name.c_str(), "connection") == 0 && strcasecmp(value.c_str(), "close") == 0)
      return true;
  }
  return false;
}

std::string ContentLength(size_t size) { return fmt::format("Content-Length: {}\r\n", size); }

}  // namespace

const char* HttpReason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

std::string HttpHead(int status, const HttpHeaders& headers, const std::string& framing,
                     bool close) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nServer: firesteel\r\n", status,
                                 HttpReason(status), HttpDate());
  for (const auto& [name, value] : headers) {
    if (strcasecmp(name.c_str(), "connection") == 0) continue;
    head.append(name).append(": ").append(value).append("\r\n");
  }
  head.append(framing);
  // Said both ways: an HTTP/1.0 client takes silence for "close".
  head.append(close ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n");
  return head;
}

std::string HttpErrorResponse(const HttpServerOptions& options, int status,
                              const std::string& message) {
  const std::string body =
      options.error_body ? options.error_body(status, message) : message + "\n";
  return HttpHead(status, {{"Content-Type", options.error_content_type}},
                  ContentLength(body.size()),
                  /*close=*/true) +
         body;
}

void Exchange::AppendHead(int status, const HttpHeaders& headers, const std::string& framing,
                          bool close) {
  close_after_ = close || !request_.keep_alive || AsksToClose(headers) || stopping_->load();
  has_body_ = !request_.head && status != 204 && status != 304;
  out_.append(HttpHead(status, headers, framing, close_after_));
}

void Exchange::FlushLocked() {
  if (flush_posted_) return;
  flush_posted_ = true;
  owner_->PostFlush();
}

void Exchange::RespondLocked(int status, const HttpHeaders& headers, const std::string& body) {
  AppendHead(status, headers, status == 204 ? "" : ContentLength(body.size()), /*close=*/false);
  if (has_body_) out_.append(body);
  state_ = State::kEnded;
  unsent_bytes_ += static_cast<int64_t>(out_.size());
  FlushLocked();
}

void Exchange::Respond(int status, HttpHeaders headers, std::string body) {
  std::function<void()> released;  // destroyed after the lock: it may own the caller
  const std::lock_guard lock(mutex_);
  if (owner_ == nullptr || state_ != State::kWaiting) return;
  RespondLocked(status, headers, body);
  released = std::move(on_disconnect_);
  on_disconnect_ = nullptr;
}

void Exchange::Start(int status, HttpHeaders headers) {
  const std::lock_guard lock(mutex_);
  if (owner_ == nullptr || state_ != State::kWaiting) return;
  AppendHead(status, headers, request_.chunked ? "Transfer-Encoding: chunked\r\n" : "",
             !request_.chunked);
  state_ = State::kStreaming;
  unsent_bytes_ += static_cast<int64_t>(out_.size());
  FlushLocked();
}

void Exchange::Write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (owner_ == nullptr || state_ != State::kStreaming || !has_body_ || bytes.empty()) return;
  if (overflowed_) return;
  if (unsent_bytes_ > options_->max_buffered_bytes) {
    overflowed_ = true;
    owner_->PostClose();
    return;
  }
  const size_t before = out_.size();
  if (request_.chunked) {
    fmt::format_to(std::back_inserter(out_), "{:x}\r\n", bytes.size());
    out_.append(bytes).append("\r\n");
  } else {
    out_.append(bytes);
  }
  unsent_bytes_ += static_cast<int64_t>(out_.size() - before);
  FlushLocked();
}

void Exchange::End() {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  if (owner_ == nullptr || state_ != State::kStreaming) return;
  if (request_.chunked && has_body_) {
    out_.append("0\r\n\r\n");
    unsent_bytes_ += 5;
  }
  state_ = State::kEnded;
  FlushLocked();
  released = std::move(on_disconnect_);
  on_disconnect_ = nullptr;
}

void Exchange::OnDisconnect(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (owner_ != nullptr && state_ != State::kEnded) on_disconnect_.swap(callback);
      return;
    }
  }
  callback();
}

void Exchange::Abandon() {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  if (owner_ == nullptr || state_ == State::kEnded) return;
  released = std::move(on_disconnect_);
  on_disconnect_ = nullptr;
  if (state_ == State::kStreaming) {
    owner_->PostClose();
    return;
  }
  const std::string message = "the request was dropped without an answer";
  RespondLocked(500, {{"Content-Type", options_->error_content_type}},
                options_->error_body ? options_->error_body(500, message) : message + "\n");
}

bool Exchange::Take(std::string* bytes) {
  const std::lock_guard lock(mutex_);
  flush_posted_ = false;
  bytes->swap(out_);
  return state_ == State::kEnded;
}

void Exchange::Sent(size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  unsent_bytes_ -= static_cast<int64_t>(num_bytes);
}

bool Exchange::Ended() {
  const std::lock_guard lock(mutex_);
  return state_ == State::kEnded;
}

bool Exchange::CloseAfter() {
  const std::lock_guard lock(mutex_);
  return close_after_;
}

void Exchange::Detach() {
  const std::lock_guard lock(mutex_);
  owner_ = nullptr;
}

void Exchange::Disconnect() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    owner_ = nullptr;
    if (state_ == State::kEnded) return;
    gone_ = true;
    callback = std::move(on_disconnect_);
    on_disconnect_ = nullptr;
  }
  if (callback) callback();
}

}  // namespace firesteel
