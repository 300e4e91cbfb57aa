// Configurations against each other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/rules_internal.h"

namespace firesteel {

// Differences that the noise could have made get no winner, and a line that says so.
void Rules::Winners(const Comparison& comparison) {
  std::vector<std::string> ties, refused;
  std::vector<int32_t> tie_runs, refused_runs;
  bool single = false;
  for (const WinnerCell& cell : comparison.cells) {
    const bool tie = cell.verdict == Verdict::kTie;
    if (!tie && cell.verdict != Verdict::kUnequal) continue;
    const std::string text =
        fmt::format("{}: {} / {} {}", CellName(*cell.best), cell.best->configuration,
                    cell.runner_up->configuration,
                    tie ? Percent(cell.ratio.ratio - 1) : Percent(cell.work_difference) + " tok");
    (tie ? ties : refused).push_back(text);
    single |= tie && !cell.ratio.from_repeats;
    for (const CellRuns* side : {cell.best, cell.runner_up}) {
      std::vector<int32_t>& runs = tie ? tie_runs : refused_runs;
      runs.insert(runs.end(), side->runs.begin(), side->runs.end());
    }
  }
  if (!ties.empty()) {
    Hit& hit =
        AddForCampaign("INSIGNIFICANT", comparison.campaign, Severity::kNote, Confidence::kHigh);
    hit.grade = "note";
    hit.variant = single ? "single" : "";
    hit.Number("cells", static_cast<double>(ties.size()), 0);
    hit.Text("ties", fmt::format("{}", fmt::join(ties, "; ")));
    hit.arguments = {std::to_string(ties.size()), fmt::format("{}", fmt::join(ties, "; "))};
    hit.sources = tie_runs;
  }
  if (!refused.empty()) {
    Hit& hit =
        AddForCampaign("NOT_RANKED", comparison.campaign, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.Number("cells", static_cast<double>(refused.size()), 0);
    hit.Text("unequal", fmt::format("{}", fmt::join(refused, "; ")));
    hit.arguments = {std::to_string(refused.size()), fmt::format("{}", fmt::join(refused, "; ")),
                     Fixed(100 * limits_.refuse_work, 0)};
    hit.sources = refused_runs;
  }
}

// One side brought several settings and shows the best of them at every point.
void Rules::BestOfSettings(const Comparison& comparison) {
  std::map<std::string, std::map<std::string, int>> points;  // side -> configuration -> cells
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != comparison.campaign) continue;
    ++points[comparison.side_of.at(cell.configuration)][cell.configuration];
  }
  for (const auto& [side, settings] : points) {
    if (settings.size() < 2 || comparison.sides.size() < 2) continue;
    std::vector<std::string> counts, others;
    for (const auto& [name, count] : settings) counts.push_back(fmt::format("{}: {}", name, count));
    for (const auto& [other, theirs] : points) {
      if (other != side) others.push_back(fmt::format("{}: {}", other, theirs.size()));
    }
    Hit& hit =
        AddForCampaign("BEST_OF", comparison.campaign, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.configuration = side;
    hit.Number("settings", static_cast<double>(settings.size()), 0);
    hit.Text("points", fmt::format("{}", fmt::join(counts, ", ")));
    hit.Text("settings_of_others", fmt::format("{}", fmt::join(others, ", ")));
    hit.arguments = {side, std::to_string(settings.size()),
                     fmt::format("{}", fmt::join(counts, ", ")),
                     fmt::format("{}", fmt::join(others, ", "))};
    for (const CellRuns& cell : cells_.cells()) {
      if (cell.campaign == comparison.campaign && settings.contains(cell.configuration))
        hit.sources.insert(hit.sources.end(), cell.runs.begin(), cell.runs.end());
    }
  }
}

// Points where the side that loses on throughput is better on a latency.
void Rules::LoserBetter(const Comparison& comparison) {
  if (comparison.sides.size() != 2) return;
  for (const Metric metric : {Metric::kMeanE2e, Metric::kMeanTtft, Metric::kMeanTpot,
                              Metric::kP99E2e, Metric::kP99Ttft, Metric::kP99Tpot}) {
    std::vector<std::string> parts;
    std::vector<int32_t> sources;
    std::string loser;
    int compared = 0;
    for (const WinnerCell& cell : comparison.cells) {
      if (cell.runner_up == nullptr) continue;
      const auto best = cells_.Value(*cell.best, metric);
      const auto other = cells_.Value(*cell.runner_up, metric);
      if (!best || !other || *best <= 0) continue;
      ++compared;
      if (*other >= *best) continue;
      loser = comparison.side_of.at(cell.runner_up->configuration);
      parts.push_back(fmt::format("{} {:.3f}", CellName(*cell.best), *other / *best));
      for (const CellRuns* side : {cell.best, cell.runner_up})
        sources.insert(sources.end(), side->runs.begin(), side->runs.end());
    }
    if (parts.empty()) continue;
    Hit& hit =
        AddForCampaign("LOSER_BETTER", comparison.campaign, Severity::kNote, Confidence::kHigh);
    hit.grade = "note";
    hit.configuration = loser;
    hit.Number("points", static_cast<double>(parts.size()), 0);
    hit.Number("compared", compared, 0);
    hit.Text("metric", fmt::format("@metric.{}", Info(metric).name));
    hit.Text("ratios", fmt::format("{}", fmt::join(parts, ", ")));
    hit.arguments = {loser, fmt::format("@metric.{}", Info(metric).name),
                     std::to_string(parts.size()), std::to_string(compared),
                     fmt::format("{}", fmt::join(parts, ", "))};
    hit.sources = sources;
  }
}

// A speedup at a level at which the baseline no longer scales measures the baseline's limit too.
void Rules::BaselineSaturated(const std::string& campaign) {
  const auto baseline = analysis_.baselines.find(campaign);
  if (baseline == analysis_.baselines.end()) return;
  for (const LevelSeries& series : cells_.Series(campaign)) {
    if (series.configuration != baseline->second || series.levels.size() < 2) continue;
    for (size_t i = 0; i + 1 < series.levels.size(); ++i) {
      const CellRuns& from = *series.levels[i];
      const CellRuns& to = *series.levels[i + 1];
      const auto metric = cells_.CommonThroughput({&from, &to});
      const auto a = cells_.Value(from, Metric::kRequestThroughput);
      const auto b = cells_.Value(to, Metric::kRequestThroughput);
      if (!metric) continue;
      const double t0 = *cells_.Value(from, *metric), t1 = *cells_.Value(to, *metric);
      const double step = static_cast<double>(to.concurrency) / from.concurrency;
      if (t0 <= 0 || t1 <= 0 || std::log(t1 / t0) / std::log(step) >= limits_.saturation_elasticity)
        continue;
      Hit& hit = Add("BASELINE_SATURATED", to, Severity::kWarning, Confidence::kMedium);
      hit.grade = "warn";
      hit.Number("from_level", from.concurrency, 0).Number("load_factor", step, 1, "×");
      hit.Number("change_pct", 100 * (t1 / t0 - 1), 1, "%");
      const double requests = a && b && *a > 0 ? *b / *a : t1 / t0;
      if (a && b) {
        hit.Number("request_rate_from", *a, 2, "req/s").Number("request_rate", *b, 2, "req/s");
        hit.Number("request_change_pct", 100 * (requests - 1), 1, "%");
      }
      hit.arguments = {std::to_string(from.concurrency), Fixed(step, 1), Percent(requests - 1, 0)};
      hit.sources.insert(hit.sources.end(), from.runs.begin(), from.runs.end());
    }
  }
}

// Is the other side itself in order? Headline ratios against a side that is not say little.
void Rules::BaselineHealth(const Comparison& comparison) {
  constexpr int32_t kLowLoad = 8;
  for (const std::string& side : comparison.sides) {
    std::vector<std::string> reasons;
    std::vector<int32_t> sources;
    double growth = 0, noise = 0;
    std::vector<std::string> drops;
    for (const Hit& hit : analysis_.hits) {
      if (hit.campaign != comparison.campaign) continue;
      const auto own = comparison.side_of.find(hit.configuration);
      if (own == comparison.side_of.end() || own->second != side) continue;
      if (hit.rule == "TPOT_GROWTH" && hit.concurrency < kLowLoad) {
        growth = std::max(growth, *hit.Find("tpot")->value / *hit.Find("tpot_from")->value);
        sources.insert(sources.end(), hit.sources.begin(), hit.sources.end());
      }
      if (hit.rule == "REPLICATE_NOISE") {
        noise = std::max(noise, *hit.Find("difference_pct")->value);
        sources.insert(sources.end(), hit.sources.begin(), hit.sources.end());
      }
    }
    for (const CellRuns& cell : cells_.cells()) {
      if (cell.campaign != comparison.campaign || comparison.side_of.at(cell.configuration) != side)
        continue;
      const Configuration& ours = cells_.ConfigurationOf(cell);
      for (const CellRuns& other : cells_.cells()) {
        const Configuration& theirs = cells_.ConfigurationOf(other);
        if (other.campaign == cell.campaign || other.concurrency != cell.concurrency ||
            theirs.engine != ours.engine || theirs.method != ours.method ||
            theirs.spec_tokens != ours.spec_tokens)
          continue;
        const auto now = cells_.Value(cell, Metric::kOutputThroughput);
        const auto then = cells_.Value(other, Metric::kOutputThroughput);
        if (!now || !then || *now >= (1 - limits_.health_drop) * *then) continue;
        drops.push_back(
            fmt::format("{} {:.2f} / {} {:.2f}", CellName(cell), *now, CellName(other), *then));
        sources.insert(sources.end(), cell.runs.begin(), cell.runs.end());
        sources.insert(sources.end(), other.runs.begin(), other.runs.end());
      }
    }
    // One sign alone has other explanations.
    const int signs = (growth > 0) + (noise > 0) + !drops.empty();
    if (signs < 2 || comparison.sides.size() < 2) continue;
    Hit& hit = AddForCampaign("BASELINE_HEALTH", comparison.campaign, Severity::kSevere,
                              Confidence::kMedium);
    hit.grade = "severe";
    hit.configuration = side;
    if (growth > 0) hit.Number("tpot_growth_at_low_load", growth, 2, "×");
    if (noise > 0) hit.Number("replicate_difference_pct", noise, 2, "%");
    if (!drops.empty()) hit.Text("below_earlier_result", fmt::format("{}", fmt::join(drops, "; ")));
    hit.arguments = {side, growth > 0 ? Fixed(growth) : "–", noise > 0 ? Fixed(noise, 1) : "–",
                     drops.empty() ? "–" : fmt::format("{}", fmt::join(drops, "; "))};
    hit.sources = sources;
  }
}

// The only rule that may say that drafting costs more than it brings.
void Rules::SpecLoss(const std::string& campaign) {
  const auto baseline = analysis_.baselines.find(campaign);
  if (baseline == analysis_.baselines.end()) {
    bool speculates = false;
    for (const CellRuns& cell : cells_.cells()) {
      speculates |= cell.campaign == campaign && cells_.ConfigurationOf(cell).spec_tokens &&
                    !cells_.ConfigurationOf(cell).IsBaseline();
    }
    if (!speculates) return;
    Hit& hit = AddForCampaign("NO_BASELINE", campaign, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.arguments = {campaign};
    // What a baseline said elsewhere about the same method at the lowest load.
    double low = 0, high = 0;
    int32_t level = 0;
    for (const auto& [other, name] : analysis_.baselines) {
      for (const CellRuns& cell : cells_.cells()) {
        if (cell.campaign != other || cells_.ConfigurationOf(cell).IsBaseline()) continue;
        const CellRuns* base = cells_.Find(other, cell.scenario, name, cell.concurrency);
        if (base == nullptr) continue;
        if (cell.concurrency != cells_.Levels(other, cell.scenario).front()) continue;
        const auto a = cells_.Value(cell, Metric::kRequestThroughput);
        const auto b = cells_.Value(*base, Metric::kRequestThroughput);
        if (!a || !b || *b <= 0 ||
            cells_.ConfigurationOf(cell).engine != cells_.ConfigurationOf(*base).engine)
          continue;
        level = cell.concurrency;
        low = low == 0 ? *a / *b : std::min(low, *a / *b);
        high = std::max(high, *a / *b);
        hit.sources.insert(hit.sources.end(), cell.runs.begin(), cell.runs.end());
      }
    }
    if (high > 0) {
      hit.variant = "elsewhere";
      hit.Text("speedup_elsewhere", fmt::format("{:.2f} … {:.2f} × (c={})", low, high, level));
      hit.arguments = {campaign, fmt::format("{:.2f} … {:.2f}", low, high), std::to_string(level)};
    }
    return;
  }
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign || cell.configuration == baseline->second) continue;
    const Configuration& configuration = cells_.ConfigurationOf(cell);
    const CellRuns* base = cells_.Find(campaign, cell.scenario, baseline->second, cell.concurrency);
    if (base == nullptr || configuration.IsBaseline() || !cells_.Valid(cell)) continue;
    const auto ratio = cells_.Compare(cell, *base, Metric::kOutputThroughput);
    if (!ratio || ratio->high >= 1 || ratio->ratio > 1 - limits_.min_effect) continue;
    Hit& hit = Add("SPEC_LOSS", cell, Severity::kWarning,
                   ratio->from_repeats ? Confidence::kHigh : Confidence::kMedium);
    hit.grade = "warn";
    hit.Number("speedup", ratio->ratio, 3, "×");
    hit.Text("interval", fmt::format("{:.3f} … {:.3f}", ratio->low, ratio->high));
    hit.arguments = {Fixed(ratio->ratio, 3), baseline->second,
                     fmt::format("{:.3f} … {:.3f}", ratio->low, ratio->high)};
    hit.sources.insert(hit.sources.end(), base->runs.begin(), base->runs.end());
  }
}

}  // namespace firesteel
