// The lines that `firesteel serve` writes to stdout when it is ready: written there, read by the
// grid runner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firesteel {

struct ServerBanner {
  std::string model = {};  // as served
  std::string url = {};    // "http://127.0.0.1:8000"
  std::string spec_method = "none";
  int32_t spec_tokens = 0;
  int64_t target_bytes = 0;   // read by one target step
  int64_t ballast_bytes = 0;  // of these, ballast
  int64_t draft_bytes = 0;    // read by one draft pass; 0 without one
};

// "target step reads 302.1 MB (ballast: 301.9 MB of it), draft pass reads 2.1 MB". Without ballast
// or drafter, less.
std::string FormatCost(const ServerBanner& banner);

// Three lines: cost, speculation, "serving MODEL on URL".
std::string FormatBanner(const ServerBanner& banner);

// nullopt until the text holds the whole of it; other lines may stand around it. Byte counts come
// back as exact as printed.
std::optional<ServerBanner> ParseBanner(std::string_view text);

}  // namespace firesteel
