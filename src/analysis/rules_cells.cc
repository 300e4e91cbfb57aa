// Within one cell.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/rules_internal.h"

namespace firesteel {

bool Rules::HasFewRequests(const CellRuns& cell) const {
  const RunWork& work = cells_.First(cell).work;
  const std::optional<int64_t> n = work.prompts ? work.prompts : work.completed;
  return n && static_cast<double>(*n) < limits_.p99_min_requests;
}

void Rules::Tail(const CellRuns& cell) {
  const auto mean = cells_.Value(cell, Metric::kMeanE2e);
  const auto p99 = cells_.Value(cell, Metric::kP99E2e);
  if (!mean || !p99 || *mean <= 0) return;
  const auto known = cells_.LengthSpread(cell);
  const double expected = known.value_or(limits_.length_spread);
  const double ratio = *p99 / *mean;
  if (ratio < limits_.tail_moderate * expected) return;
  const bool heavy = ratio >= limits_.tail_heavy * expected;
  // Of few requests the P99 is the slowest one, whatever made it slow.
  const bool few = HasFewRequests(cell);
  Hit& hit = Add("TAIL", cell, heavy && !few ? Severity::kSevere : Severity::kWarning,
                 few     ? Confidence::kLow
                 : known ? Confidence::kHigh
                         : Confidence::kMedium);
  hit.grade = heavy ? "heavy" : "moderate";
  hit.Number("ratio", ratio, 2, "×").Number("expected_from_lengths", expected, 2, "×");
  hit.Number("p99_e2e", *p99, 2, "ms").Number("mean_e2e", *mean, 2, "ms");
  hit.arguments = {Fixed(ratio), Fixed(expected), Fixed(ratio / expected, 1), Fixed(*p99),
                   Fixed(*mean)};
  hit.alternatives = {"why.stalls", "why.queueing"};
}

void Rules::Jitter(const CellRuns& cell) {
  const auto mean = cells_.Value(cell, Metric::kMeanTtft);
  const auto p99 = cells_.Value(cell, Metric::kP99Ttft);
  if (!mean || !p99 || *mean <= 0) return;
  const double ratio = *p99 / *mean;
  if (ratio < limits_.jitter_ratio) return;
  const bool severe = ratio >= limits_.jitter_severe_ratio;
  const bool few = HasFewRequests(cell);
  Hit& hit = Add("TTFT_JITTER", cell, severe && !few ? Severity::kSevere : Severity::kWarning,
                 few ? Confidence::kLow : Confidence::kMedium);
  hit.grade = severe ? "severe" : "jitter";
  hit.Number("ratio", ratio, 2, "×").Number("p99_ttft", *p99, 2, "ms");
  hit.Number("mean_ttft", *mean, 2, "ms");
  if (const auto p50 = cells_.Value(cell, Metric::kMedianTtft))
    hit.Number("median_ttft", *p50, 2, "ms");
  if (const auto p95 = cells_.Value(cell, Metric::kP95Ttft)) hit.Number("p95_ttft", *p95, 2, "ms");
  hit.arguments = {Fixed(ratio), Fixed(*p99), Fixed(*mean)};
  hit.alternatives = {"why.compile", "why.prefill", "why.queueing"};
}

void Rules::ChunkedItl(const CellRuns& cell) {
  const auto itl = cells_.Value(cell, Metric::kMeanItl);
  const auto tpot = cells_.Value(cell, Metric::kMeanTpot);
  if (!itl || !tpot || *tpot <= 0 || *itl / *tpot <= limits_.chunked_itl_ratio) return;
  Hit& hit = Add("CHUNKED_ITL", cell, Severity::kNote, Confidence::kHigh);
  hit.grade = "note";
  hit.Number("itl_over_tpot", *itl / *tpot, 2, "×");
  if (const auto tokens = cells_.Value(cell, Metric::kAcceptLength))
    hit.Number("accept_length", *tokens, 2, "tok");
  hit.arguments = {Fixed(*itl / *tpot), Fixed(*itl), Fixed(*tpot)};
}

void Rules::FewRequests(const CellRuns& cell) {
  const Run& run = cells_.First(cell);
  const std::optional<int64_t> n = run.work.prompts ? run.work.prompts : run.work.completed;
  const bool has_p99 = cells_.Value(cell, Metric::kP99E2e) ||
                       cells_.Value(cell, Metric::kP99Ttft) || cells_.Value(cell, Metric::kP99Tpot);
  if (!n || !has_p99 || static_cast<double>(*n) >= limits_.p99_min_requests) return;
  Hit& hit = Add("P99_UNRESOLVED", cell, Severity::kNote, Confidence::kHigh);
  hit.grade = "note";
  hit.Number("num_prompts", static_cast<double>(*n), 0);
  // Linear interpolation between order statistics: how much of the P99 is the slowest request.
  const double h = static_cast<double>(*n - 1) * 0.99;
  const double weight = *n > 1 ? h - std::floor(h) : 1;
  hit.Number("weight_of_maximum", weight, 2);
  hit.arguments = {std::to_string(*n), Fixed(weight)};
}

// A range that somebody states for all rows ("P99 is 2 to 4 times the mean") is checked here by
// listing what lies outside of 2 … 4, and by what lengths alone explain.
void Rules::TailsOutside(const std::string& campaign) {
  constexpr double kLow = 2, kHigh = 4;
  std::vector<std::string> above;
  std::vector<double> ratios, spreads;
  std::vector<int32_t> sources;
  for (const CellRuns& cell : cells_.cells()) {
    const auto mean = cells_.Value(cell, Metric::kMeanE2e);
    const auto p99 = cells_.Value(cell, Metric::kP99E2e);
    if (cell.campaign != campaign || !mean || !p99 || *mean <= 0) continue;
    ratios.push_back(*p99 / *mean);
    if (const auto spread = cells_.LengthSpread(cell)) spreads.push_back(*spread);
    if (ratios.back() <= kHigh) continue;
    above.push_back(fmt::format("{} {:.1f}", CellName(cell), ratios.back()));
    sources.insert(sources.end(), cell.runs.begin(), cell.runs.end());
  }
  if (above.empty() || ratios.size() < 3) return;
  Hit& hit = AddForCampaign("TAIL_RANGE", campaign, Severity::kNote, Confidence::kHigh);
  hit.grade = "note";
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  hit.Number("min_ratio", *low, 2, "×").Number("max_ratio", *high, 2, "×");
  hit.Text("above_4", fmt::format("{}", fmt::join(above, ", ")));
  std::string explained = Fixed(limits_.length_spread);
  if (!spreads.empty()) {
    const auto [s_low, s_high] = std::minmax_element(spreads.begin(), spreads.end());
    explained = fmt::format("{:.2f} … {:.2f}", *s_low, *s_high);
  }
  hit.Text("expected_from_lengths", explained);
  hit.arguments = {Fixed(*low), Fixed(*high), fmt::format("{}", fmt::join(above, ", ")), explained,
                   Fixed(kLow, 0)};
  hit.sources = sources;
}

}  // namespace firesteel
