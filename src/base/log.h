// Logging to stderr through spdlog: FS_LOG_INFO("loaded {} tensors", n). Thread-safe.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

namespace firesteel {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

std::optional<LogLevel> LogLevelFromName(
    std::string_view name);  // "debug", "info", "warning", "error"
// Messages below it are dropped; kInfo at first.
void SetLogLevel(LogLevel level);
void LogMessage(LogLevel level, const std::string& message);

}  // namespace firesteel

#define FS_LOG_INFO(...) \
  ::firesteel::LogMessage(::firesteel::LogLevel::kInfo, ::fmt::format(__VA_ARGS__))
#define FS_LOG_WARNING(...) \
  ::firesteel::LogMessage(::firesteel::LogLevel::kWarning, ::fmt::format(__VA_ARGS__))
#define FS_LOG_ERROR(...) \
  ::firesteel::LogMessage(::firesteel::LogLevel::kError, ::fmt::format(__VA_ARGS__))
