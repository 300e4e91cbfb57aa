#include "bench/bursts.h"

#include <algorithm>
#include <numeric>

namespace firesteel {
namespace {

// Tokens of each candidate, or nothing where a candidate with text lacks the source.
using Counts = std::optional<std::vector<int32_t>>;

Counts ByList(const std::vector<BurstCandidate>& candidates,
              std::optional<int32_t> BurstCandidate::*source) {
  std::vector<int32_t> counts;
  bool any = false;
  for (const BurstCandidate& c : candidates) {
    if (!(c.*source) && c.text_events > 0) return std::nullopt;
    counts.push_back((c.*source).value_or(0));
    any |= counts.back() > 0;
  }
  if (!any) return std::nullopt;
  return counts;
}

// By differences of the running count. A server that tells the total only at the end has it in one
// candidate, which then cannot be told apart from a burst of everything: so all with text need it.
Counts ByTotal(const std::vector<BurstCandidate>& candidates) {
  std::vector<int32_t> counts;
  int32_t last = 0;
  for (const BurstCandidate& c : candidates) {
    if (!c.total && c.text_events > 0) return std::nullopt;
    const int32_t total = std::max(last, c.total.value_or(last));
    counts.push_back(total - last);
    last = total;
  }
  if (last == 0) return std::nullopt;
  return counts;
}

}  // namespace

void ResolveBursts(const std::vector<BurstCandidate>& candidates, RequestRecord* record) {
  record->burst_basis = BurstBasis::kTokenIds;
  Counts counts = ByList(candidates, &BurstCandidate::ids);
  if (!counts) {
    record->burst_basis = BurstBasis::kUsage;
    counts = ByTotal(candidates);
  }
  if (!counts) {
    record->burst_basis = BurstBasis::kLogprobs;
    counts = ByList(candidates, &BurstCandidate::logprobs);
  }
  if (!counts) {
    record->burst_basis = BurstBasis::kChunk;
    counts.emplace();
    for (const BurstCandidate& c : candidates) counts->push_back(c.text_events);
  }
  record->chunks.clear();
  for (const BurstCandidate& c : candidates) {
    record->chunks.push_back(
        {.time_ns = c.time_ns, .events = c.events, .text_events = c.text_events});
  }
  record->bursts.clear();
  int32_t pending_bytes = 0;  // of reads without a new token
  int32_t pending_events = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    pending_bytes += candidates[i].text_bytes;
    pending_events += candidates[i].events;
    if ((*counts)[i] == 0) continue;
    record->bursts.push_back({.time_ns = candidates[i].time_ns,
                              .tokens = (*counts)[i],
                              .events = pending_events,
                              .text_bytes = pending_bytes});
    pending_bytes = pending_events = 0;
  }
  if (!record->bursts.empty()) record->bursts.back().text_bytes += pending_bytes;
}

std::vector<int32_t> ShareOut(int32_t total, const std::vector<int32_t>& weights) {
  const auto parts = static_cast<int32_t>(weights.size());
  const int64_t sum = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  const int32_t rest = total - parts;  // beyond the one that everybody has
  std::vector<int32_t> shares(weights.size(), 1);
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int32_t given = 0;
  const auto exact = [&](size_t i) { return int64_t{rest} * weights[i]; };  // times `sum`
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto whole = static_cast<int32_t>(exact(i) / sum);
    shares[i] += whole;
    given += whole;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return exact(a) % sum > exact(b) % sum; });
  for (size_t i = 0; given < rest; ++i, ++given) ++shares[order[i]];
  return shares;
}

void RefineBursts(const CountTokens& count, RequestRecord* record) {
  if (record->burst_basis != BurstBasis::kChunk || record->bursts.empty()) return;
  const std::optional<int32_t> total =
      record->completion_tokens ? record->completion_tokens : record->retokenized_tokens;
  if (!total || *total < static_cast<int32_t>(record->bursts.size())) return;
  std::vector<int32_t> weights;
  size_t at = 0;
  for (const Burst& burst : record->bursts) {
    const auto bytes = static_cast<size_t>(burst.text_bytes);
    const std::string_view text =
        std::string_view(record->text).substr(std::min(at, record->text.size()), bytes);
    at += bytes;
    weights.push_back(count ? count(text) : static_cast<int32_t>(bytes));
  }
  if (std::accumulate(weights.begin(), weights.end(), int64_t{0}) <= 0) return;
  const std::vector<int32_t> shares = ShareOut(*total, weights);
  for (size_t i = 0; i < shares.size(); ++i) record->bursts[i].tokens = shares[i];
  record->burst_basis = count ? BurstBasis::kTokenizer : BurstBasis::kBytes;
}

}  // namespace firesteel
