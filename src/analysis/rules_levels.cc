// Along the levels of one configuration in one scenario.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

double Elasticity(double y0, double y1, int32_t c0, int32_t c1) {
  return std::log(y1 / y0) / std::log(static_cast<double>(c1) / c0);
}

void AddSources(const CellRuns& cell, Hit* hit) {
  hit->sources.insert(hit->sources.end(), cell.runs.begin(), cell.runs.end());
}

}  // namespace

// What the figures say about the first tokens: how much of the latency they are, how many stalls
// explain them, how fast decoding was meanwhile, what the same method did elsewhere.
void Rules::ColdStartEvidence(const CellRuns& cell, Hit* hit) {
  const auto ttft = cells_.Value(cell, Metric::kMeanTtft);
  const auto p99 = cells_.Value(cell, Metric::kP99Ttft);
  const auto e2e = cells_.Value(cell, Metric::kMeanE2e);
  const CellWork work = cells_.WorkOf(cell);
  if (p99) hit->Number("p99_over_mean_ttft", *p99 / *ttft, 2);
  if (p99 && work.work.prompts) {
    const double stalls = static_cast<double>(*work.work.prompts) * *ttft / *p99;
    hit->Number("stalls_that_explain_ttft", stalls, 1);
    hit->Number("num_prompts", static_cast<double>(*work.work.prompts), 0);
  }
  if (e2e && work.lengths)
    hit->Number("decode_ms_per_token", (*e2e - *ttft) / (work.lengths->MeanOutput() - 1), 2, "ms");
  if (work.assumed) hit->Text("work_basis", "@work.assumed");
  double low = 0, high = 0;
  for (const CellRuns& other : cells_.cells()) {
    const auto value = cells_.Value(other, Metric::kMeanTtft);
    if (other.campaign == cell.campaign || other.concurrency != cell.concurrency || !value)
      continue;
    if (cells_.ConfigurationOf(other).method != cells_.ConfigurationOf(cell).method) continue;
    if (other.configuration != cell.configuration) continue;
    low = low == 0 ? *value : std::min(low, *value);
    high = std::max(high, *value);
  }
  if (high > 0) {
    hit->Text("ttft_elsewhere", fmt::format("{:.2f} … {:.2f} ms", low, high));
  }
  const bool has_baseline = analysis_.baselines.contains(cell.campaign);
  if (!has_baseline) hit->Text("baseline", "@no_baseline");
}

void Rules::ColdStart(const LevelSeries& series) {
  for (size_t i = 0; i + 1 < series.levels.size(); ++i) {
    const CellRuns& cell = *series.levels[i];
    const CellRuns& next = *series.levels[i + 1];
    const auto ttft = cells_.Value(cell, Metric::kMeanTtft);
    const auto later = cells_.Value(next, Metric::kMeanTtft);
    if (!ttft || !later || *later <= 0 || *ttft < limits_.inversion_ratio * *later) continue;
    const auto e2e = cells_.Value(cell, Metric::kMeanE2e);
    const auto p99 = cells_.Value(cell, Metric::kP99Ttft);
    const double share = e2e && *e2e > 0 ? *ttft / *e2e : 0;
    const bool cold = i == 0 && (share >= limits_.cold_ttft_share ||
                                 (p99 && *p99 / *ttft >= limits_.jitter_ratio));
    Hit& hit = Add(cold ? "COLD_START" : "TTFT_INVERSION", cell, Severity::kWarning,
                   cold ? Confidence::kHigh : Confidence::kMedium);
    hit.grade = "warn";
    hit.Number("ttft", *ttft, 2, "ms").Number("next_level", next.concurrency, 0);
    hit.Number("ttft_next", *later, 2, "ms").Number("ratio", *ttft / *later, 2, "×");
    if (share > 0) hit.Number("ttft_share", share, 3);
    hit.arguments = {Fixed(*ttft), std::to_string(next.concurrency), Fixed(*later),
                     Fixed(*ttft / *later), Fixed(100 * share, 0)};
    hit.alternatives = {cold ? "why.compile" : "why.cached", "why.order"};
    AddSources(next, &hit);
    ColdStartEvidence(cell, &hit);
  }
}

void Rules::TpotGrowth(const LevelSeries& series) {
  for (size_t i = 0; i + 1 < series.levels.size(); ++i) {
    const CellRuns& from = *series.levels[i];
    const CellRuns& to = *series.levels[i + 1];
    const auto a = cells_.Value(from, Metric::kMeanTpot);
    const auto b = cells_.Value(to, Metric::kMeanTpot);
    if (!a || !b || *a <= 0 || *b <= 0) continue;
    const double elasticity = Elasticity(*a, *b, from.concurrency, to.concurrency);
    if (elasticity < limits_.tpot_elasticity) continue;
    Hit& hit = Add("TPOT_GROWTH", to, Severity::kWarning, Confidence::kMedium);
    hit.grade = "warn";
    hit.Number("from_level", from.concurrency, 0).Number("elasticity", elasticity, 3);
    hit.Number("tpot_from", *a, 2, "ms").Number("tpot", *b, 2, "ms");
    hit.Number("change_pct", 100 * (*b / *a - 1), 1, "%");
    hit.arguments = {std::to_string(from.concurrency), Fixed(*a), Fixed(*b), Percent(*b / *a - 1),
                     Fixed(elasticity)};
    hit.alternatives = {"why.work_differs", "why.verify_cost"};
    AddSources(from, &hit);
  }
}

void Rules::Throughput(const LevelSeries& series) {
  const auto metric = cells_.CommonThroughput(series.levels);
  if (!metric) return;
  for (size_t i = 0; i + 1 < series.levels.size(); ++i) {
    const CellRuns& from = *series.levels[i];
    const CellRuns& to = *series.levels[i + 1];
    const double a = *cells_.Value(from, *metric), b = *cells_.Value(to, *metric);
    if (a <= 0 || b <= 0) continue;
    const double change = b / a - 1;
    if (change <= -limits_.dip_drop) {
      Cliff(series, i, *metric, change);
      continue;
    }
    const double elasticity = Elasticity(a, b, from.concurrency, to.concurrency);
    const bool superlinear = elasticity > limits_.superlinear_elasticity;
    if (!superlinear && elasticity >= limits_.saturation_elasticity) continue;
    Hit& hit = Add(superlinear ? "SUPERLINEAR" : "SATURATION", to,
                   superlinear ? Severity::kWarning : Severity::kNote, Confidence::kMedium);
    hit.grade = superlinear ? "warn" : "note";
    hit.Number("from_level", from.concurrency, 0).Number("elasticity", elasticity, 3);
    hit.Number("change_pct", 100 * change, 1, "%");
    hit.arguments = {std::to_string(from.concurrency),
                     fmt::format("@metric.{}", Info(*metric).name), Percent(change),
                     Fixed(static_cast<double>(to.concurrency) / from.concurrency, 1),
                     Fixed(elasticity)};
    if (superlinear) hit.alternatives = {"why.cached", "why.compile", "why.work_differs"};
    AddSources(from, &hit);
  }
}

void Rules::Cliff(const LevelSeries& series, size_t at, Metric metric, double change) {
  const CellRuns& from = *series.levels[at];
  const CellRuns& to = *series.levels[at + 1];
  const auto ratio = cells_.Compare(to, from, metric);
  if (ratio && ratio->from_repeats && !ratio->significant()) return;
  const double before = *cells_.Value(from, metric);
  const CellRuns* recovered = nullptr;
  for (size_t i = at + 2; i < series.levels.size() && recovered == nullptr; ++i) {
    if (*cells_.Value(*series.levels[i], metric) >= limits_.recovery_share * before)
      recovered = series.levels[i];
  }
  const bool cliff = change <= -limits_.cliff_drop;
  Hit& hit = Add("CLIFF", to, cliff ? Severity::kSevere : Severity::kWarning, Confidence::kMedium);
  hit.grade = cliff ? "cliff" : "dip";
  hit.variant = recovered != nullptr ? "recovered" : "";
  hit.Number("from_level", from.concurrency, 0).Number("change_pct", 100 * change, 2, "%");
  hit.Number("throughput_before", before, 2, "tok/s");
  hit.Number("throughput", *cells_.Value(to, metric), 2, "tok/s");
  hit.arguments = {std::to_string(from.concurrency), fmt::format("@metric.{}", Info(metric).name),
                   Percent(change), "", ""};
  if (recovered != nullptr) {
    const double after = *cells_.Value(*recovered, metric);
    hit.Number("recovered_at", recovered->concurrency, 0);
    hit.Number("recovered_ratio", after / before, 4);
    hit.arguments[3] = std::to_string(recovered->concurrency);
    hit.arguments[4] = Fixed(100 * after / before, 1);
    AddSources(*recovered, &hit);
  }
  // Confounders before causes: was it the same work?
  const CellWork w0 = cells_.WorkOf(from), w1 = cells_.WorkOf(to);
  if (w0.work.prompts && w1.work.prompts && *w0.work.prompts != *w1.work.prompts) {
    hit.Text("prompts_change", fmt::format("{} → {}", *w0.work.prompts, *w1.work.prompts));
    if (*w1.work.prompts > *w0.work.prompts) {
      hit.Number(
          "new_prompts_pct",
          100 * (1 - static_cast<double>(*w0.work.prompts) / static_cast<double>(*w1.work.prompts)),
          0, "%");
    }
    if (w0.assumed || w1.assumed) hit.Text("work_basis", "@work.assumed");
    hit.confidence = Confidence::kLow;
  }
  if (w0.lengths && w1.lengths) {
    hit.Text("output_change",
             fmt::format("{:.1f} → {:.1f}", w0.lengths->MeanOutput(), w1.lengths->MeanOutput()));
  }
  const auto ttft0 = cells_.Value(from, Metric::kMeanTtft);
  const auto ttft1 = cells_.Value(to, Metric::kMeanTtft);
  if (ttft0 && ttft1 && *ttft0 > 0) hit.Number("ttft_growth", *ttft1 / *ttft0, 2, "×");
  // The counters that would name the cause, where the server gave them.
  const Run& run = cells_.First(to);
  if (run.preemptions) hit.Number("preemptions", *run.preemptions, 0);
  if (run.kv_usage_max) hit.Number("kv_usage_pct", 100 * *run.kv_usage_max, 1, "%");
  hit.alternatives = {"why.new_prompts", "why.prefill"};
  const bool room = run.preemptions == 0.0 && run.kv_usage_max.value_or(1) < 0.95;
  if (!room) hit.alternatives.push_back("why.kv_capacity");
  AddSources(from, &hit);
}

// Where throughput times speed per user is largest: beyond it the next level buys little.
void Rules::Knee(const LevelSeries& series) {
  if (series.levels.size() < 3) return;
  const auto metric = cells_.CommonThroughput(series.levels);
  if (!metric) return;
  size_t knee = 0;
  double best = 0;
  for (size_t i = 0; i < series.levels.size(); ++i) {
    const auto tpot = cells_.Value(*series.levels[i], Metric::kMeanTpot);
    if (!tpot || *tpot <= 0) return;
    const double score = *cells_.Value(*series.levels[i], *metric) / *tpot;
    if (score > best) knee = i;
    best = std::max(best, score);
  }
  const CellRuns& cell = *series.levels[knee];
  const bool last = knee + 1 == series.levels.size();
  Hit& hit = Add("KNEE", cell, Severity::kNote, Confidence::kMedium);
  hit.grade = "note";
  hit.variant = last ? "beyond" : "";
  const double throughput = *cells_.Value(cell, *metric);
  const double tpot = *cells_.Value(cell, Metric::kMeanTpot);
  hit.Number("throughput", throughput, 2, "tok/s").Number("tpot", tpot, 2, "ms");
  hit.arguments = {fmt::format("@metric.{}", Info(*metric).name), Fixed(throughput), Fixed(tpot)};
  if (last) return;
  const CellRuns& next = *series.levels[knee + 1];
  const double more = *cells_.Value(next, *metric) / throughput - 1;
  const double slower = *cells_.Value(next, Metric::kMeanTpot) / tpot - 1;
  hit.Number("next_level", next.concurrency, 0);
  hit.Number("next_throughput_pct", 100 * more, 1, "%");
  hit.Number("next_tpot_pct", 100 * slower, 1, "%");
  hit.arguments.insert(hit.arguments.end(),
                       {std::to_string(next.concurrency), Percent(more), Percent(slower)});
  AddSources(next, &hit);
}

}  // namespace firesteel
