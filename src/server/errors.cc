#include "server/errors.h"

#include <utility>

#include "base/json.h"
#include "base/utf8.h"

namespace firesteel {
namespace {

const char* ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

// A message quotes what the client sent, which may be megabytes.
constexpr size_t kMaxMessageBytes = 2000;

std::string Shorten(const std::string& message) {
  if (message.size() <= kMaxMessageBytes) return message;
  std::string head = message.substr(0, kMaxMessageBytes);
  head.resize(head.size() - IncompleteUtf8Tail(head));
  return head + "…";
}

Json StringOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

ApiError ErrorFromStatus(const Status& status, std::string param) {
  ApiError error{.status = 500, .message = status.message(), .param = std::move(param), .code = ""};
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      error.status = 400;
      break;
    case StatusCode::kNotFound:
      error.status = 404;
      break;
    case StatusCode::kResourceExhausted:
      error.status = 429;
      error.code = "rate_limit_exceeded";
      break;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      error.status = 503;
      break;
    case StatusCode::kOk:
    case StatusCode::kDataCorrupt:
    case StatusCode::kInternal:
      break;
  }
  return error;
}

std::string ErrorBody(const ApiError& error) {
  return DumpJson(Json{{"error", Json{{"message", Shorten(error.message)},
                                      {"type", ErrorType(error.status)},
                                      {"param", StringOrNull(error.param)},
                                      {"code", StringOrNull(error.code)}}}});
}

void SendError(ResponseWriter& writer, const ApiError& error, HttpHeaders headers) {
  headers.emplace_back("Content-Type", "application/json");
  if (error.status == 429) headers.emplace_back("Retry-After", "1");
  if (error.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  writer.Respond(error.status, std::move(headers), ErrorBody(error));
}

}  // namespace firesteel
