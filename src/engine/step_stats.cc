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

Status CheckDrafts(const EngineStats& stats) {
  const int64_t invalidated =
      stats.spec_invalidated_eos + stats.spec_invalidated_limit + stats.spec_invalidated_malformed;
  if (stats.spec_drafted == invalidated + stats.spec_trimmed + stats.spec_verified) return {};
  return Internal(fmt::format(
      "drafted {} is not invalidated {} (eos) + {} (limit) + {} (malformed) + trimmed {} + "
      "verified {}",
      stats.spec_drafted, stats.spec_invalidated_eos, stats.spec_invalidated_limit,
      stats.spec_invalidated_malformed, stats.spec_trimmed, stats.spec_verified));
}

// `rounds` and `rows`: what the rounds by length come to, anchors included in the rows.
Status CheckRounds(const EngineStats& stats, int64_t rounds, int64_t rows) {
  const auto& by_length = stats.spec_rounds_per_length;
  const int64_t without_draft = by_length.empty() ? 0 : by_length[0];
  // What a failed pass should have verified belongs to no round.
  if (rounds != stats.spec_rounds + without_draft || rows - rounds > stats.spec_verified) {
    return Internal(
        fmt::format("rounds by length sum to {} with {} drafted rows, expected {} + {} "
                    "with at most {}",
                    rounds, rows - rounds, stats.spec_rounds, without_draft, stats.spec_verified));
  }
  const int64_t budgets = NumObserved(stats.spec_budget_rows);
  const auto granted = static_cast<int64_t>(stats.spec_budget_rows.sum);
  const auto verify_rows = static_cast<int64_t>(stats.spec_verify_rows.sum);
  if (budgets != rounds || granted < rows || verify_rows != rows) {
    return Internal(fmt::format("{} rounds of {} rows, but {} budgets of {} rows and passes of {}",
                                rounds, rows, budgets, granted, verify_rows));
  }
  return {};
}

}  // namespace

void Record(double value, StatHistogram* histogram) {
  const auto bucket = std::ranges::lower_bound(histogram->bounds, value);
  ++histogram->counts[static_cast<size_t>(bucket - histogram->bounds.begin())];
  histogram->sum += value;
}

int64_t NumObserved(const StatHistogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), int64_t{0});
}

void CountDrafts(const DraftCounts& counts, EngineStats* stats) {
  stats->spec_drafted += counts.drafted;
  stats->spec_invalidated_eos += counts.invalidated_eos;
  stats->spec_invalidated_limit += counts.invalidated_limit;
  stats->spec_invalidated_malformed += counts.invalidated_malformed;
  stats->spec_trimmed += counts.trimmed;
  stats->spec_verified += counts.verified;
}

DraftRound DraftRound::OfChain(int32_t verified, int32_t accepted) {
  return {verified, verified, std::min(verified, accepted + 1), accepted};
}

void CountRound(const DraftRound& round, int32_t committed, EngineStats* stats) {
  if (round.verified > 0) ++stats->spec_rounds;
  Grow(static_cast<size_t>(round.verified) + 1, &stats->spec_rounds_per_length);
  ++stats->spec_rounds_per_length[static_cast<size_t>(round.verified)];
  stats->spec_accepted += round.accepted;
  stats->spec_cut_by_stop += round.accepted + 1 - committed;
  stats->generation_tokens += committed;
  Grow(static_cast<size_t>(round.depth), &stats->spec_reached_per_position);
  Grow(static_cast<size_t>(round.depth), &stats->spec_accepted_per_position);
  for (int32_t k = 0; k < round.reached; ++k) {
    ++stats->spec_reached_per_position[static_cast<size_t>(k)];
    if (k < round.accepted) ++stats->spec_accepted_per_position[static_cast<size_t>(k)];
  }
}

void CountRound(const DraftRound& round, SpeculationUsage* usage) {
  if (round.verified == 0) return;
  ++usage->rounds;
  usage->verified += round.verified;
  usage->accepted += round.accepted;
  Grow(static_cast<size_t>(round.depth), &usage->accepted_per_position);
  for (int32_t k = 0; k < round.accepted; ++k) {
    ++usage->accepted_per_position[static_cast<size_t>(k)];
  }
}

Status CheckCounters(const EngineStats& stats) {
  FS_TRY(CheckDrafts(stats));
  int64_t rounds = 0;
  int64_t rows = 0;
  for (size_t k = 0; k < stats.spec_rounds_per_length.size(); ++k) {
    rounds += stats.spec_rounds_per_length[k];
    rows += stats.spec_rounds_per_length[k] * static_cast<int64_t>(k + 1);
  }
  FS_TRY(CheckRounds(stats, rounds, rows));
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
  if (stats.generation_tokens != rounds + stats.spec_accepted - stats.spec_cut_by_stop) {
    return Internal(fmt::format("{} tokens came out of {} rounds, {} accepted, {} cut",
                                stats.generation_tokens, rounds, stats.spec_accepted,
                                stats.spec_cut_by_stop));
  }
  return {};
}

void TakeCalibration(const AcceptanceModel& model, EngineStats* stats) {
  const std::vector<CalibrationStats>& positions = model.calibration();
  stats->spec_calibration_ece.resize(positions.size());
  double squares = 0, count = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    stats->spec_calibration_ece[i] = positions[i].Ece();
    squares += positions[i].squares;
    count += positions[i].Count();
  }
  stats->spec_calibration_brier = count > 0 ? squares / count : 0;
}

}  // namespace firesteel
