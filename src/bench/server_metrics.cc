#include "bench/server_metrics.h"

#include <fmt/format.h>

#include <charconv>

#include "bench/prometheus_text.h"

namespace firesteel {
namespace {

constexpr std::string_view kPrefix = "vllm:spec_decode_";
constexpr size_t kMaxPositions = 1024;

// Adds a sample to the counters; false when it is none of theirs.
bool AddSample(const PrometheusSample& sample, SpecCounters* counters) {
  if (!sample.name.starts_with(kPrefix)) return false;
  std::string_view name = sample.name.substr(kPrefix.size());
  if (name.ends_with("_total")) name.remove_suffix(6);
  if (name == "num_drafts") {
    counters->drafts += sample.value;
  } else if (name == "num_draft_tokens") {
    counters->draft_tokens += sample.value;
  } else if (name == "num_accepted_tokens") {
    counters->accepted_tokens += sample.value;
  } else if (name == "num_accepted_tokens_per_pos") {
    const std::string_view label = sample.Label("position");
    size_t position = 0;
    if (std::from_chars(label.data(), label.data() + label.size(), position).ec != std::errc())
      return false;
    if (position >= kMaxPositions) return false;
    if (counters->accepted_per_position.size() <= position)
      counters->accepted_per_position.resize(position + 1);
    counters->accepted_per_position[position] += sample.value;
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
  ForEachSample(text,
                [&](const PrometheusSample& sample) { found |= AddSample(sample, &counters); });
  if (!found) return std::nullopt;
  return counters;
}

}  // namespace firesteel
