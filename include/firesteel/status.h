// Errors as values. A Status is a code and one sentence: what, where, expected, found.
//
// Immutable; copies are cheap when ok.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace firesteel {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // what the caller asked for can never work: HTTP 400, exit 2
  kNotFound,           // a file, model or route that is not there: HTTP 404
  kDataCorrupt,        // a file contradicts itself or its config
  kUnsupported,        // well formed, but a kind that this build does not know
  kResourceExhausted,  // may work later: queue full, no blocks: HTTP 429
  kUnavailable,        // starting, draining, peer gone: HTTP 503
  kCancelled,
  kInternal,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
inline Status DataCorrupt(std::string m) { return {StatusCode::kDataCorrupt, std::move(m)}; }
inline Status Unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }
inline Status ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
inline Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
inline Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
inline Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::in_place_index<1>, std::move(value)) {}         // NOLINT: implicit
  Result(Status status) : value_(std::in_place_index<0>, std::move(status)) {}  // NOLINT: implicit

  bool ok() const { return value_.index() == 1; }
  Status status() const { return ok() ? Status() : std::get<0>(value_); }

  // REQUIRES: ok().
  T& operator*() & { return std::get<1>(value_); }
  const T& operator*() const& { return std::get<1>(value_); }
  T&& operator*() && { return std::get<1>(std::move(value_)); }
  T* operator->() { return &std::get<1>(value_); }
  const T* operator->() const { return &std::get<1>(value_); }

 private:
  std::variant<Status, T> value_;
};

// FS_TRY(expr): returns the Status of `expr` from the enclosing function unless it is ok.
#define FS_TRY(expr)                                                                  \
  do {                                                                                \
    if (::firesteel::Status fs_status_ = (expr); !fs_status_.ok()) return fs_status_; \
  } while (false)

// FS_ASSIGN(lhs, expr): `lhs` is a declaration or an lvalue; `expr` a Result.
#define FS_ASSIGN(lhs, expr) FS_ASSIGN_IMPL_(FS_CONCAT_(fs_result_, __LINE__), lhs, expr)
#define FS_ASSIGN_IMPL_(result, lhs, expr)  \
  auto result = (expr);                     \
  if (!result.ok()) return result.status(); \
  lhs = *std::move(result)
#define FS_CONCAT_(a, b) FS_CONCAT_INNER_(a, b)
#define FS_CONCAT_INNER_(a, b) a##b

}  // namespace firesteel
