#include "bench/request_record.h"

namespace firesteel {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

int32_t RequestRecord::OutputTokens() const {
  if (completion_tokens) return *completion_tokens;
  if (token_ids) return static_cast<int32_t>(token_ids->size());
  int32_t tokens = 0;
  for (const Burst& burst : bursts) tokens += burst.tokens;
  return tokens;
}

const char* RequestRecord::OutputCountBasis() const {
  return completion_tokens ? "usage" : token_ids ? "token_ids" : "chunks";
}

std::optional<double> RequestRecord::Ttft() const {
  if (bursts.empty()) return std::nullopt;
  return Seconds(bursts.front().time_ns - send_ns);
}

std::optional<double> RequestRecord::E2e() const {
  if (bursts.empty()) return std::nullopt;
  return Seconds(bursts.back().time_ns - send_ns);
}

std::optional<double> RequestRecord::Tpot() const {
  const int32_t tokens = OutputTokens();
  if (bursts.empty() || tokens < 2) return std::nullopt;
  return Seconds(bursts.back().time_ns - bursts.front().time_ns) / (tokens - 1);
}

void RequestRecord::AppendItl(std::vector<double>* samples) const {
  for (size_t i = 1; i < bursts.size(); ++i) {
    const double gap = Seconds(bursts[i].time_ns - bursts[i - 1].time_ns);
    for (int32_t k = 0; k < bursts[i].tokens; ++k) samples->push_back(gap / bursts[i].tokens);
  }
}

}  // namespace firesteel
