#include "analysis/cells.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "bench/statistics.h"

namespace firesteel {
namespace {

constexpr double kEnoughFreedom = 5;

template <typename T>
void AddNew(const T& value, std::vector<T>* values) {
  if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
}

}  // namespace

CellTable::CellTable(const Results& results) : results_(results) {
  for (size_t i = 0; i < results.runs.size(); ++i) {
    const Run& run = results.runs[i];
    if (run.quoted) continue;
    const auto same = std::find_if(cells_.begin(), cells_.end(), [&](const CellRuns& cell) {
      return cell.campaign == run.campaign && cell.scenario == run.scenario &&
             cell.configuration == run.configuration.name && cell.concurrency == run.concurrency;
    });
    if (same == cells_.end()) {
      cells_.push_back({run.campaign,
                        run.scenario,
                        run.configuration.name,
                        run.concurrency,
                        {static_cast<int32_t>(i)}});
    } else {
      same->runs.push_back(static_cast<int32_t>(i));
    }
  }
  for (const MetricInfo& info : AllMetrics()) {
    double squares = 0, freedom = 0;
    for (const CellRuns& cell : cells_) {
      const std::vector<double> values = Values(cell, info.metric);
      if (values.size() < 2) continue;
      double mean = 0;
      for (const double value : values) mean += value / static_cast<double>(values.size());
      if (mean <= 0) continue;
      for (const double value : values) squares += (value / mean - 1) * (value / mean - 1);
      freedom += static_cast<double>(values.size()) - 1;
    }
    noise_[info.metric] = freedom >= kEnoughFreedom
                              ? PooledNoise{std::sqrt(squares / freedom), freedom}
                              : PooledNoise{info.default_noise, 0};
  }
}

const CellRuns* CellTable::Find(const std::string& campaign, const std::string& scenario,
                                const std::string& configuration, int32_t concurrency) const {
  for (const CellRuns& cell : cells_) {
    if (cell.campaign == campaign && cell.scenario == scenario &&
        cell.configuration == configuration && cell.concurrency == concurrency)
      return &cell;
  }
  return nullptr;
}

std::vector<std::string> CellTable::Scenarios(const std::string& campaign) const {
  std::vector<std::string> names;
  for (const CellRuns& cell : cells_) {
    if (cell.campaign == campaign) AddNew(cell.scenario, &names);
  }
  return names;
}

std::vector<std::string> CellTable::Configurations(const std::string& campaign,
                                                   const std::string& scenario) const {
  std::vector<std::string> names;
  for (const CellRuns& cell : cells_) {
    if (cell.campaign == campaign && (scenario.empty() || cell.scenario == scenario))
      AddNew(cell.configuration, &names);
  }
  return names;
}

std::vector<int32_t> CellTable::Levels(const std::string& campaign,
                                       const std::string& scenario) const {
  std::set<int32_t> levels;
  for (const CellRuns& cell : cells_) {
    if (cell.campaign == campaign && (scenario.empty() || cell.scenario == scenario))
      levels.insert(cell.concurrency);
  }
  return {levels.begin(), levels.end()};
}

std::vector<LevelSeries> CellTable::Series(const std::string& campaign) const {
  std::vector<LevelSeries> all;
  for (const std::string& scenario : Scenarios(campaign)) {
    for (const std::string& configuration : Configurations(campaign, scenario)) {
      LevelSeries series{campaign, scenario, configuration, {}};
      for (const int32_t level : Levels(campaign, scenario)) {
        const CellRuns* cell = Find(campaign, scenario, configuration, level);
        if (cell != nullptr && level > 0 && Valid(*cell)) series.levels.push_back(cell);
      }
      if (!series.levels.empty()) all.push_back(std::move(series));
    }
  }
  return all;
}

std::vector<const CellRuns*> CellTable::CellsOf(const std::string& campaign,
                                                const std::string& scenario,
                                                int32_t concurrency) const {
  std::vector<const CellRuns*> found;
  for (const CellRuns& cell : cells_) {
    if (cell.campaign == campaign && cell.scenario == scenario && cell.concurrency == concurrency)
      found.push_back(&cell);
  }
  return found;
}

bool CellTable::Valid(const CellRuns& cell) const {
  return std::any_of(cell.runs.begin(), cell.runs.end(),
                     [&](int32_t run) { return results_.runs[run].valid(); });
}

std::vector<int32_t> CellTable::Sources(const CellRuns& cell, Metric metric) const {
  std::vector<int32_t> runs;
  for (const int32_t run : cell.runs) {
    if (results_.runs[run].valid() && results_.runs[run].measures.Has(metric)) runs.push_back(run);
  }
  return runs;
}

std::vector<double> CellTable::Values(const CellRuns& cell, Metric metric) const {
  std::vector<double> values;
  for (const int32_t run : Sources(cell, metric))
    values.push_back(*results_.runs[run].measures.Get(metric));
  return values;
}

std::optional<double> CellTable::Value(const CellRuns& cell, Metric metric) const {
  const std::vector<double> values = Values(cell, metric);
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<Interval> CellTable::MeanIntervalOf(const CellRuns& cell, Metric metric) const {
  std::optional<Interval> interval = MeanInterval(Values(cell, metric));
  // Two repeats that differ reach far below nothing, where no rate and no latency is.
  if (interval) interval->low = std::max(interval->low, 0.0);
  return interval;
}

std::optional<RatioEstimate> CellTable::Compare(const CellRuns& a, const CellRuns& b,
                                                Metric metric) const {
  const PooledNoise& noise = noise_.at(metric);
  return CompareRatio(Values(a, metric), Values(b, metric), noise.deviation, noise.freedom);
}

double CellTable::Noise(Metric metric) const { return noise_.at(metric).deviation; }

std::optional<double> CellTable::OutputPerRequest(const CellRuns& cell) const {
  double tokens = 0, requests = 0;
  for (const int32_t index : cell.runs) {
    const RunWork& work = results_.runs[index].work;
    const std::optional<double> mean = work.MeanOutput();
    if (!mean || !results_.runs[index].valid()) continue;
    tokens += *mean;
    requests += 1;
  }
  if (requests > 0) return tokens / requests;
  const auto output = Value(cell, Metric::kOutputThroughput);
  const auto rate = Value(cell, Metric::kRequestThroughput);
  if (!output || !rate || *rate <= 0) return std::nullopt;
  return *output / *rate;
}

CellWork CellTable::WorkOf(const CellRuns& cell) const {
  CellWork known{.work = First(cell).work};
  for (const int32_t run : cell.runs) {
    if (!known.work.max_output) known.work = results_.runs[run].work;
  }
  if (!known.work.prompts) known.work.prompts = known.work.completed;
  if (!known.work.prompts && known.work.max_input && known.work.max_output) {
    // One script made the reports: what N was at this concurrency, or at the nearest ones on both
    // sides.
    std::map<int32_t, std::set<int64_t>> counts;
    std::optional<uint64_t> seed;
    for (const Run& run : results_.runs) {
      const std::optional<int64_t> n = run.work.prompts ? run.work.prompts : run.work.completed;
      if (run.quoted || !run.work.dataset.starts_with("random") || !n) continue;
      counts[run.concurrency].insert(*n);
      if (seed) continue;
      if (const auto lengths = ReproduceLengths(run.work)) seed = lengths->seed;
    }
    const auto above = counts.lower_bound(cell.concurrency);
    if (above != counts.end() && above->second.size() == 1) {
      const bool same_level = above->first == cell.concurrency;
      const bool between = above != counts.begin() && std::prev(above)->second == above->second;
      if (same_level || between) {
        known.work.prompts = *above->second.begin();
        if (!known.work.seed) known.work.seed = seed;
        known.assumed = true;
      }
    }
  }
  known.lengths = ReproduceLengths(known.work);
  return known;
}

std::optional<double> CellTable::LengthSpread(const CellRuns& cell) const {
  std::vector<double> lengths;
  for (const int32_t run : cell.runs) {
    const std::vector<double>& own = results_.runs[run].samples.output_lengths;
    lengths.insert(lengths.end(), own.begin(), own.end());
  }
  if (!lengths.empty()) {
    const Statistics s = Summarize(lengths);
    if (s.mean > 0) return s.p99 / s.mean;
  }
  if (First(cell).work.range_ratio == 1.0) return 1.0;
  if (const auto own = ReproduceLengths(First(cell).work)) return own->OutputSpread();
  for (const Run& run : results_.runs) {
    if (run.quoted || run.scenario != cell.scenario || run.concurrency != cell.concurrency)
      continue;
    if (const auto other = ReproduceLengths(run.work)) return other->OutputSpread();
  }
  return std::nullopt;
}

std::optional<Metric> CellTable::CommonThroughput(const std::vector<const CellRuns*>& cells) const {
  for (const Metric metric :
       {Metric::kTotalThroughput, Metric::kOutputThroughput, Metric::kRequestThroughput}) {
    const bool all = std::all_of(cells.begin(), cells.end(), [&](const CellRuns* cell) {
      return Value(*cell, metric).has_value();
    });
    if (all && !cells.empty()) return metric;
  }
  return std::nullopt;
}

}  // namespace firesteel
