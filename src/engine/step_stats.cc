#include "engine/step_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace firesteel {
namespace {

void Grow(size_t size, std::vector<int64_t>* counts) {
  if (counts->size() < size) counts->resize(size, 0);
}

}  // namespace

void CountRound(int32_t verified, int32_t accepted, int32_t committed, EngineStats* stats) {
  ++(verified > 0 ? stats->spec_rounds : stats->spec_rounds_without_draft);
  stats->spec_accepted += accepted;
  stats->spec_cut_by_stop += accepted + 1 - committed;
  stats->generation_tokens += committed;
  Grow(static_cast<size_t>(verified), &stats->spec_reached_per_position);
  Grow(static_cast<size_t>(verified), &stats->spec_accepted_per_position);
  for (int32_t k = 0; k < verified && k <= accepted; ++k) {
    ++stats->spec_reached_per_position[static_cast<size_t>(k)];
    if (k < accepted) ++stats->spec_accepted_per_position[static_cast<size_t>(k)];
  }
}

void CountRound(int32_t verified, int32_t accepted, SpeculationUsage* usage) {
  if (verified == 0) return;
  ++usage->rounds;
  usage->verified += verified;
  usage->accepted += accepted;
  Grow(static_cast<size_t>(verified), &usage->accepted_per_position);
  for (int32_t k = 0; k < accepted; ++k) ++usage->accepted_per_position[static_cast<size_t>(k)];
}

Status CheckCounters(const EngineStats& stats) {
  if (stats.spec_drafted != stats.spec_invalidated + stats.spec_trimmed + stats.spec_verified) {
    return Internal(fmt::format("drafted {} is not invalidated {} + trimmed {} + verified {}",
                                stats.spec_drafted, stats.spec_invalidated, stats.spec_trimmed,
                                stats.spec_verified));
  }
  const auto& reached = stats.spec_reached_per_position;
  const auto& accepted = stats.spec_accepted_per_position;
  for (size_t k = 0; k < reached.size(); ++k) {
    const int64_t before = k == 0 ? stats.spec_rounds : accepted[k - 1];
    if (accepted[k] > reached[k] || reached[k] > before) {
      return Internal(fmt::format("position {}: accepted {}, reached {}, accepted before it {}", k,
                                  accepted[k], reached[k], before));
    }
  }
  const int64_t accepted_sum = std::accumulate(accepted.begin(), accepted.end(), int64_t{0});
  const int64_t reached_sum = std::accumulate(reached.begin(), reached.end(), int64_t{0});
  if (accepted_sum != stats.spec_accepted || reached_sum > stats.spec_verified) {
    return Internal(fmt::format("positions sum to accepted {} of {}, reached {} of verified {}",
                                accepted_sum, stats.spec_accepted, reached_sum,
                                stats.spec_verified));
  }
  const int64_t rounds = stats.spec_rounds + stats.spec_rounds_without_draft;
  if (stats.generation_tokens != rounds + stats.spec_accepted - stats.spec_cut_by_stop) {
    return Internal(fmt::format("{} tokens came out of {} rounds, {} accepted, {} cut",
                                stats.generation_tokens, rounds, stats.spec_accepted,
                                stats.spec_cut_by_stop));
  }
  return {};
}

}  // namespace firesteel
