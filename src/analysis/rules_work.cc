// What the requests were: work that differs cannot be compared as if it were equal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

struct Range {
  double low = 0;
  double high = 0;
  int count = 0;

  void Add(double value) {
    low = count == 0 ? value : std::min(low, value);
    high = count == 0 ? value : std::max(high, value);
    ++count;
  }
  std::string Text(int decimals) const {
    return fmt::format("{:.{}f} … {:.{}f}", low, decimals, high, decimals);
  }
};

}  // namespace

double RoundingAllowance(const CellTable& cells, const CellRuns& a, const CellRuns& b,
                         Metric metric) {
  constexpr double kHalfDigit = 0.005;
  double allowance = 0;
  for (const CellRuns* cell : {&a, &b}) {
    const auto value = cells.Value(*cell, metric);
    if (!value || *value <= 0) return 0;
    const double hundredths = *value * 100;
    if (std::abs(hundredths - std::round(hundredths)) < 1e-6) allowance += kHalfDigit / *value;
  }
  return allowance;
}

void Rules::UnequalWork(const std::string& campaign) {
  const auto baseline = analysis_.baselines.find(campaign);
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      const std::vector<const CellRuns*> here = cells_.CellsOf(campaign, scenario, level);
      const CellRuns* reference = here.front();
      if (baseline != analysis_.baselines.end()) {
        reference = cells_.Find(campaign, scenario, baseline->second, level);
      }
      if (reference == nullptr) continue;
      const auto theirs = cells_.OutputPerRequest(*reference);
      for (const CellRuns* cell : here) {
        const auto ours = cells_.OutputPerRequest(*cell);
        if (cell == reference || !ours || !theirs || *theirs <= 0) continue;
        const double difference = *ours / *theirs - 1;
        const bool totals = cells_.First(*cell).work.MeanOutput().has_value();
        const double allowance =
            totals ? 0 : RoundingAllowance(cells_, *cell, *reference, Metric::kRequestThroughput);
        if (std::abs(difference) <= std::max(limits_.unequal_work, allowance)) continue;
        Hit& hit = Add("UNEQUAL_WORKLOAD", *cell, Severity::kWarning, Confidence::kHigh);
        hit.grade = "warn";
        hit.variant = std::abs(difference) > limits_.refuse_work ? "refused" : "";
        hit.Number("out_per_request", *ours, 2, "tok");
        hit.Number("baseline_out_per_request", *theirs, 2, "tok");
        hit.Number("difference_pct", 100 * difference, 2, "%");
        hit.arguments = {Fixed(*ours, 1), reference->configuration, Fixed(*theirs, 1),
                         Percent(difference)};
        hit.sources.insert(hit.sources.end(), reference->runs.begin(), reference->runs.end());
      }
    }
  }
}

void Rules::UnequalCounts(const std::string& campaign) {
  std::map<int64_t, std::set<std::string>> by_count;
  std::vector<int32_t> sources;
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      std::map<int64_t, std::set<std::string>> here;
      for (const CellRuns* cell : cells_.CellsOf(campaign, scenario, level)) {
        const RunWork& work = cells_.First(*cell).work;
        const auto n = work.prompts ? work.prompts : work.completed;
        if (n) here[*n].insert(cell->configuration);
      }
      if (here.size() < 2) continue;
      const double low = static_cast<double>(here.begin()->first);
      const double high = static_cast<double>(here.rbegin()->first);
      if (low <= 0 || high / low - 1 <= limits_.unequal_count) continue;
      for (const auto& [n, names] : here) by_count[n].insert(names.begin(), names.end());
      for (const CellRuns* cell : cells_.CellsOf(campaign, scenario, level))
        sources.insert(sources.end(), cell->runs.begin(), cell->runs.end());
    }
  }
  if (by_count.empty()) return;
  Hit& hit = AddForCampaign("UNEQUAL_COUNT", campaign, Severity::kWarning, Confidence::kHigh);
  hit.grade = "warn";
  std::vector<std::string> parts;
  for (const auto& [n, names] : by_count)
    parts.push_back(fmt::format("{}: {}", n, fmt::join(names, ", ")));
  hit.Text("counts", fmt::format("{}", fmt::join(parts, "; ")));
  hit.arguments = {fmt::format("{}", fmt::join(parts, "; "))};
  hit.sources = sources;
}

// "input 1000" is a bound: uniform lengths from 1 average half of it.
void Rules::LengthBounds(const std::string& campaign) {
  std::vector<std::string> parts;
  std::vector<int32_t> sources;
  std::set<std::string> seen;
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign) continue;
    const CellWork work = cells_.WorkOf(cell);
    if (!work.lengths || work.work.range_ratio.value_or(0) >= 1) continue;
    const std::string key = fmt::format("{} {} {}", *work.work.max_input, *work.work.max_output,
                                        work.lengths->input.size());
    if (!seen.insert(key).second) continue;
    parts.push_back(fmt::format("{}: {} / {} → {:.1f} / {:.1f}", CellName(cell),
                                *work.work.max_input, *work.work.max_output,
                                work.lengths->MeanInput(), work.lengths->MeanOutput()));
    sources.insert(sources.end(), cell.runs.begin(), cell.runs.end());
  }
  if (parts.empty()) return;
  Hit& hit = AddForCampaign("LENGTH_BOUND", campaign, Severity::kNote, Confidence::kHigh);
  hit.grade = "note";
  hit.Text("bound_and_mean", fmt::format("{}", fmt::join(parts, "; ")));
  hit.arguments = {fmt::format("{}", fmt::join(parts, "; "))};
  hit.sources = sources;
}

void Rules::LevelsDiffer(const std::string& campaign) {
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    Range input, output;
    std::vector<std::string> parts;
    std::vector<int32_t> sources;
    bool assumed = false;
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      const CellRuns& cell = *cells_.CellsOf(campaign, scenario, level).front();
      const CellWork work = cells_.WorkOf(cell);
      if (!work.lengths) continue;
      assumed |= work.assumed;
      input.Add(work.lengths->MeanInput());
      output.Add(work.lengths->MeanOutput());
      parts.push_back(fmt::format("c={}: N={}, {:.1f} / {:.1f}", level, work.lengths->input.size(),
                                  work.lengths->MeanInput(), work.lengths->MeanOutput()));
      sources.insert(sources.end(), cell.runs.begin(), cell.runs.end());
    }
    if (input.count < 2) continue;
    const bool differ = input.high > (1 + limits_.levels_work) * input.low ||
                        output.high > (1 + limits_.levels_work) * output.low;
    if (!differ) continue;
    Hit& hit = AddForCampaign("LEVELS_DIFFER", campaign, Severity::kWarning,
                              assumed ? Confidence::kMedium : Confidence::kHigh);
    hit.grade = "warn";
    hit.scenario = scenario;
    hit.Text("mean_input", input.Text(1)).Text("mean_output", output.Text(1));
    hit.Text("per_level", fmt::format("{}", fmt::join(parts, "; ")));
    if (assumed) hit.Text("work_basis", "@work.assumed");
    hit.arguments = {input.Text(1), output.Text(1)};
    hit.sources = sources;
  }
}

// Scenarios that draw the same prompts: what runs later finds them in the server's cache.
void Rules::RepeatedPrompts(const std::string& campaign) {
  std::map<std::pair<uint64_t, std::vector<int64_t>>, std::vector<const CellRuns*>> groups;
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      const CellRuns& cell = *cells_.CellsOf(campaign, scenario, level).front();
      const auto lengths = ReproduceLengths(cells_.First(cell).work);
      if (lengths) groups[{lengths->seed, lengths->input}].push_back(&cell);
    }
  }
  for (const auto& [key, cells] : groups) {
    std::set<std::string> scenarios;
    std::vector<std::string> names;
    std::vector<int32_t> sources;
    for (const CellRuns* cell : cells) {
      scenarios.insert(cell->scenario);
      names.push_back(CellName(*cell));
      sources.insert(sources.end(), cell->runs.begin(), cell->runs.end());
    }
    if (scenarios.size() < 2) continue;
    Hit& hit = AddForCampaign("REPEATED_PROMPTS", campaign, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.Text("cells", fmt::format("{}", fmt::join(names, ", ")));
    hit.Number("num_prompts", static_cast<double>(key.second.size()), 0);
    hit.Number("seed", static_cast<double>(key.first), 0);
    hit.arguments = {fmt::format("{}", fmt::join(names, ", ")), std::to_string(key.second.size()),
                     std::to_string(key.first)};
    hit.sources = sources;
  }
}

// Answers shorter than asked for: by engine, since each client counts in its own way.
void Rules::EarlyEnd(const std::string& campaign) {
  std::map<std::string, Range> by_engine;
  std::optional<int64_t> requested;
  std::vector<int32_t> sources;
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign) continue;
    const Run& run = cells_.First(cell);
    const auto tokens = cells_.OutputPerRequest(cell);
    if (!run.work.requested_output || !tokens) continue;
    const double share = *tokens / static_cast<double>(*run.work.requested_output);
    if (share >= limits_.early_eos_share) continue;
    requested = run.work.requested_output;
    by_engine[run.configuration.engine].Add(*tokens);
    sources.insert(sources.end(), cell.runs.begin(), cell.runs.end());
  }
  if (by_engine.empty()) return;
  // Where all sides end alike, it is the model that ends, and the comparison stands.
  Range all;
  for (const auto& [engine, range] : by_engine) {
    all.Add(range.low);
    all.Add(range.high);
  }
  const bool differ = all.high > (1 + limits_.unequal_work) * all.low;
  Hit& hit = AddForCampaign("EARLY_EOS", campaign, differ ? Severity::kWarning : Severity::kNote,
                            Confidence::kHigh);
  hit.grade = differ ? "warn" : "note";
  hit.Number("requested", static_cast<double>(*requested), 0, "tok");
  std::vector<std::string> parts;
  for (const auto& [engine, range] : by_engine) {
    parts.push_back(fmt::format("{}: {}", engine, range.Text(1)));
  }
  hit.Text("observed", fmt::format("{}", fmt::join(parts, "; ")));
  hit.arguments = {std::to_string(*requested), fmt::format("{}", fmt::join(parts, "; "))};
  hit.sources = sources;
}

// Total throughput here, output throughput there: the same word for figures that differ by the
// prompts.
void Rules::MixedUnits(const std::string& campaign) {
  std::vector<std::string> parts;
  std::vector<int32_t> sources;
  bool output_only = false;
  const Results& results = *analysis_.results;
  for (size_t i = 0; i < results.runs.size(); ++i) {
    const Run& run = results.runs[i];
    if (run.campaign != campaign) continue;
    const auto total = run.measures.Get(Metric::kTotalThroughput);
    const auto output = run.measures.Get(Metric::kOutputThroughput);
    if (output && !total) {
      output_only = true;
      sources.push_back(static_cast<int32_t>(i));
    }
    if (!total || output) continue;
    sources.push_back(static_cast<int32_t>(i));
    // What part of it is output: from an equal cell that has both.
    for (const Run& other : results.runs) {
      const auto t = other.measures.Get(Metric::kTotalThroughput);
      const auto o = other.measures.Get(Metric::kOutputThroughput);
      if (!t || !o || other.scenario != run.scenario || other.concurrency != run.concurrency)
        continue;
      parts.push_back(fmt::format("{}@{} {:.0f} ({:.1f} %)", run.scenario, run.concurrency, *total,
                                  100 * *o / *t));
      break;
    }
  }
  if (!output_only || parts.empty()) return;
  Hit& hit = AddForCampaign("MIXED_UNITS", campaign, Severity::kWarning, Confidence::kHigh);
  hit.grade = "warn";
  hit.Text("total_and_output_share", fmt::format("{}", fmt::join(parts, ", ")));
  hit.arguments = {fmt::format("{}", fmt::join(parts, ", "))};
  hit.sources = sources;
}

void Rules::NotCounted(const std::string& campaign) {
  std::vector<std::string> names;
  std::vector<int32_t> sources;
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign || cells_.First(cell).work.count_basis != "requested") continue;
    if (std::find(names.begin(), names.end(), cell.configuration) == names.end())
      names.push_back(cell.configuration);
    sources.insert(sources.end(), cell.runs.begin(), cell.runs.end());
  }
  if (names.empty()) return;
  Hit& hit =
      AddForCampaign("OUTPUT_NOT_COUNTED", campaign, Severity::kWarning, Confidence::kMedium);
  hit.grade = "warn";
  hit.Text("configurations", fmt::format("{}", fmt::join(names, ", ")));
  hit.arguments = {fmt::format("{}", fmt::join(names, ", "))};
  hit.sources = sources;
}

}  // namespace firesteel
