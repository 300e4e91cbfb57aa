#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

namespace firesteel {
namespace {

// Never destroyed: a thread may log while the process ends.
spdlog::logger& Logger() {
  static spdlog::logger& logger = [&]() -> spdlog::logger& {
    auto sink =
        std::make_shared<spdlog::sinks::stderr_color_sink_mt>(spdlog::color_mode::automatic);
    auto* made = new spdlog::logger("firesteel", std::move(sink));
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    made->flush_on(spdlog::level::warn);
    return *made;
  }();
  return logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

std::optional<LogLevel> LogLevelFromName(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return std::nullopt;
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

void LogMessage(LogLevel level, const std::string& message) {
  // As a string, not a format: the message may hold braces.
  Logger().log(ToSpdlog(level), spdlog::string_view_t(message));
}

}  // namespace firesteel
