#include "bench/server_banner.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace firesteel {
namespace {

constexpr double kBytesPerMb = 1e6;
constexpr std::string_view kTarget = "target step reads ";
constexpr std::string_view kBallast = "(ballast: ";
constexpr std::string_view kDraft = "draft pass reads ";
constexpr std::string_view kSpeculation = "speculation: ";
constexpr std::string_view kServing = "serving ";

std::string Megabytes(int64_t bytes) {
  return fmt::format("{:.3f} MB", static_cast<double>(bytes) / kBytesPerMb);
}

// The number of bytes behind the first `label` of the line; 0 when there is none.
int64_t BytesAfter(std::string_view line, std::string_view label) {
  const size_t at = line.find(label);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = line.substr(at + label.size());
  double mb = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), mb).ec != std::errc()) return 0;
  return std::llround(mb * kBytesPerMb);
}

}  // namespace

std::string FormatCost(const ServerBanner& banner) {
  std::string line = fmt::format("{}{}", kTarget, Megabytes(banner.target_bytes));
  if (banner.ballast_bytes > 0)
    line += fmt::format(" {}{} of it)", kBallast, Megabytes(banner.ballast_bytes));
  if (banner.draft_bytes > 0) line += fmt::format(", {}{}", kDraft, Megabytes(banner.draft_bytes));
  return line;
}

std::string FormatBanner(const ServerBanner& banner) {
  return fmt::format("{}\n{}{}, {} tokens\n{}{} on {}\n", FormatCost(banner), kSpeculation,
                     banner.spec_method, banner.spec_tokens, kServing, banner.model, banner.url);
}

std::optional<ServerBanner> ParseBanner(std::string_view text) {
  ServerBanner banner;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // still being written
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.starts_with(kTarget)) {
      banner.target_bytes = BytesAfter(line, kTarget);
      banner.ballast_bytes = BytesAfter(line, kBallast);
      banner.draft_bytes = BytesAfter(line, kDraft);
    } else if (line.starts_with(kSpeculation)) {
      const size_t comma = line.find(", ");
      if (comma == std::string_view::npos) continue;
      banner.spec_method = line.substr(kSpeculation.size(), comma - kSpeculation.size());
      const std::string_view tokens = line.substr(comma + 2);
      std::from_chars(tokens.data(), tokens.data() + tokens.size(), banner.spec_tokens);
    } else if (line.starts_with(kServing)) {
      const size_t on = line.rfind(" on http");
      if (on == std::string_view::npos || on < kServing.size()) continue;
      banner.model = line.substr(kServing.size(), on - kServing.size());
      banner.url = line.substr(on + 4);
      return banner;
    }
  }
  return std::nullopt;
}

}  // namespace firesteel
