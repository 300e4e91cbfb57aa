// Logging to stderr through spdlog: FS_LOG_INFO("loaded {} tensors", n). Thread-safe.
#pragma once

#include <fmt/format.h>

#include <string>

namespace firesteel {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void SetLogLevel(LogLevel level);
void LogMessage(LogLevel level, const std::string& message);

}  // namespace firesteel

#define FS_LOG_INFO(...) \
  ::firesteel::LogMessage(::firesteel::LogLevel::kInfo, ::fmt::format(__VA_ARGS__))
#define FS_LOG_WARNING(...) \
  ::firesteel::LogMessage(::firesteel::LogLevel::kWarning, ::fmt::format(__VA_ARGS__))
#define FS_LOG_ERROR(...) \
  ::firesteel::LogMessage(::firesteel::LogLevel::kError, ::fmt::format(__VA_ARGS__))
