// Our own invariants. A failed check ends the process with the message: nothing a client or a file
// says may reach one.
#pragma once

#include <fmt/format.h>

#include <string>

namespace firesteel {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

}  // namespace firesteel

// FS_CHECK(condition) or FS_CHECK(condition, "format {}", args…)
#define FS_CHECK(condition, ...)                                                               \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::firesteel::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define FS_DCHECK(condition, ...) \
  do {                            \
  } while (false && (condition))
#else
#define FS_DCHECK(condition, ...) FS_CHECK(condition, ##__VA_ARGS__)
#endif
