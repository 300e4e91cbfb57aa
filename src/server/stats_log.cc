#include "server/stats_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace firesteel {
namespace {

double Percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string Speculation(const EngineStats& now, const EngineStats& last, double seconds) {
  const int64_t rounds = now.spec_rounds - last.spec_rounds;
  const int64_t accepted = now.spec_accepted - last.spec_accepted;
  const int64_t verified = now.spec_verified - last.spec_verified;
  if (rounds == 0) return "";
  std::vector<std::string> positions;
  const auto& per_position = now.spec_accepted_per_position;
  for (size_t k = 0; k < per_position.size(); ++k) {
    const auto& before = last.spec_accepted_per_position;
    const int64_t at = per_position[k] - (k < before.size() ? before[k] : 0);
    positions.push_back(fmt::format("{:.3f}", Percent(at, rounds) / 100));
  }
  // Mean length counts the target's own token; positions are over all rounds, and the two agree:
  // 1 + their sum is the length.
  return fmt::format(
      "SpecDecoding metrics: Mean acceptance length: {:.2f}, Accepted throughput: {:.2f} tokens/s, "
      "Drafted throughput: {:.2f} tokens/s, Accepted: {} tokens, Drafted: {} tokens, Per-position "
      "acceptance rate: {}, Avg Draft acceptance rate: {:.1f}%",
      1 + static_cast<double>(accepted) / static_cast<double>(rounds),
      static_cast<double>(accepted) / seconds, static_cast<double>(verified) / seconds, accepted,
      verified, fmt::join(positions, ", "), Percent(accepted, verified));
}

}  // namespace

std::vector<std::string> StatsLog::Lines(const EngineStats& now, double seconds) {
  const EngineStats last = std::exchange(last_, now);
  const int64_t steps = now.steps - last.steps;
  if (seconds <= 0 || (steps == 0 && now.running == 0 && now.waiting == 0)) return {};
  const int64_t prompt = now.prompt_tokens - last.prompt_tokens;
  std::vector<std::string> lines{fmt::format(
      "Engine 000: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} "
      "tokens/s, Running: {} reqs, Waiting: {} reqs, KV cache usage: {:.1f}%, Prefix cache hit "
      "rate: {:.1f}%",
      static_cast<double>(prompt) / seconds,
      static_cast<double>(now.generation_tokens - last.generation_tokens) / seconds, now.running,
      now.waiting, Percent(now.kv_blocks_used, now.kv_blocks_total),
      Percent(now.cached_tokens - last.cached_tokens, prompt))};
  std::string speculation = Speculation(now, last, seconds);
  if (!speculation.empty()) lines.push_back(std::move(speculation));
  return lines;
}

}  // namespace firesteel
