#include "bench/server_metrics.h"

#include <fmt/format.h>

#include <charconv>

namespace firesteel {
namespace {

constexpr std::string_view kPrefix = "vllm:spec_decode_";
constexpr size_t kMaxPositions = 1024;

// The value of `name="…"` among the labels, "" when absent.
std::string_view LabelValue(std::string_view labels, std::string_view name) {
  const std::string key = std::string(name) + "=\"";
  const size_t begin = labels.find(key);
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = labels.substr(begin + key.size());
  return rest.substr(0, rest.find('"'));
}

// Adds one sample line to the counters; false when it is none of theirs.
bool AddSample(std::string_view line, SpecCounters* counters) {
  if (!line.starts_with(kPrefix)) return false;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos) return false;
  std::string_view name = line.substr(kPrefix.size(), name_end - kPrefix.size());
  if (name.ends_with("_total")) name.remove_suffix(6);
  std::string_view labels;
  std::string_view rest = line.substr(name_end);
  if (rest.front() == '{') {
    const size_t close = rest.rfind('}');
    if (close == std::string_view::npos) return false;
    labels = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  double value = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec != std::errc())
    return false;

  if (name == "num_drafts") {
    counters->drafts += value;
  } else if (name == "num_draft_tokens") {
    counters->draft_tokens += value;
  } else if (name == "num_accepted_tokens") {
    counters->accepted_tokens += value;
  } else if (name == "num_accepted_tokens_per_pos") {
    const std::string_view label = LabelValue(labels, "position");
    size_t position = 0;
    if (std::from_chars(label.data(), label.data() + label.size(), position).ec != std::errc())
      return false;
    if (position >= kMaxPositions) return false;
    if (counters->accepted_per_position.size() <= position)
      counters->accepted_per_position.resize(position + 1);
    counters->accepted_per_position[position] += value;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<SpecCounters> SpecCounters::Difference(const SpecCounters& before,
                                              const SpecCounters& after) {
  SpecCounters d;
  d.drafts = after.drafts - before.drafts;
  d.draft_tokens = after.draft_tokens - before.draft_tokens;
  d.accepted_tokens = after.accepted_tokens - before.accepted_tokens;
  d.accepted_per_position = after.accepted_per_position;
  for (size_t i = 0; i < before.accepted_per_position.size() && i < d.accepted_per_position.size();
       ++i) {
    d.accepted_per_position[i] -= before.accepted_per_position[i];
  }
  if (d.drafts < 0 || d.draft_tokens < 0 || d.accepted_tokens < 0) {
    return Internal(fmt::format(
        "the server's counter of drafts went from {} to {}: it was restarted during the run",
        before.drafts, after.drafts));
  }
  return d;
}

std::optional<double> SpecCounters::AcceptanceLength() const {
  if (drafts <= 0) return std::nullopt;
  return 1 + accepted_tokens / drafts;
}

std::optional<double> SpecCounters::AcceptanceRate() const {
  if (draft_tokens <= 0) return std::nullopt;
  return accepted_tokens / draft_tokens;
}

std::vector<double> SpecCounters::AcceptancePerPosition() const {
  std::vector<double> rates;
  if (drafts <= 0) return rates;
  for (const double accepted : accepted_per_position) rates.push_back(accepted / drafts);
  return rates;
}

std::optional<SpecCounters> ParseSpecCounters(std::string_view text) {
  SpecCounters counters;
  bool found = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    found |= AddSample(line, &counters);
  }
  if (!found) return std::nullopt;
  return counters;
}

}  // namespace firesteel
