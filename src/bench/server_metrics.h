// Speculation counters from a server's /metrics, under vLLM's names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

struct SpecCounters {
  double drafts = 0;  // rounds in which at least one draft token was verified
  double draft_tokens = 0;
  double accepted_tokens = 0;
  std::vector<double> accepted_per_position = {};

  // What happened between two readings. kInternal when a counter fell: the server was restarted in
  // between.
  static Result<SpecCounters> Difference(const SpecCounters& before, const SpecCounters& after);

  // 1 + accepted / drafts; accepted / draft tokens; per position accepted / drafts. nullopt (or
  // empty) without drafts.
  std::optional<double> AcceptanceLength() const;
  std::optional<double> AcceptanceRate() const;
  std::vector<double> AcceptancePerPosition() const;
};

// Sums over all label sets. nullopt when the text has no such counters: the server does not
// speculate or does not say.
std::optional<SpecCounters> ParseSpecCounters(std::string_view prometheus_text);

}  // namespace firesteel
