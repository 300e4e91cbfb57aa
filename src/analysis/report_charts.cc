// Data for charts; nothing is drawn here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/report_internal.h"

namespace firesteel {
namespace {

constexpr size_t kMaxPoints = 400;  // of a distribution
constexpr double kWideSpread = 10;  // largest over smallest value: a logarithmic axis

void LogWhenWide(Chart* chart) {
  double low = 0, high = 0;
  for (const Series& series : chart->series) {
    for (const Point& point : series.points) {
      if (point.y <= 0) return;
      low = low == 0 ? point.y : std::min(low, point.y);
      high = std::max({high, point.y, point.high.value_or(0)});
    }
  }
  chart->y.log = low > 0 && high / low > kWideSpread;
}

std::string Prefix(const std::string& campaign) { return campaign.empty() ? "" : campaign + ": "; }

bool HasPoints(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(),
                     [](const Series& series) { return !series.points.empty(); });
}

}  // namespace

void ReportBuilder::ThroughputCharts(const std::string& campaign) {
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    if (cells_.Levels(campaign, scenario).size() < 2) continue;
    for (const Metric metric : {Metric::kOutputThroughput, Metric::kTotalThroughput}) {
      Chart chart;
      chart.id = Id(fmt::format("throughput-{}-{}", Info(metric).name, scenario), campaign);
      chart.kind = ChartKind::kLine;
      chart.title = Words("chart.throughput", {Prefix(campaign), scenario,
                                               fmt::format("@metric.{}", Info(metric).name)});
      chart.x = {.title = Words("axis.concurrency"), .log = true};
      chart.y = {.title = fmt::format("{} ({})", Words(fmt::format("metric.{}", Info(metric).name)),
                                      Info(metric).unit)};
      bool two = false;
      for (const LevelSeries& levels : cells_.Series(campaign)) {
        if (levels.scenario != scenario) continue;
        Series series{.name = levels.configuration, .points = {}};
        for (const CellRuns* cell : levels.levels) {
          const auto value = cells_.Value(*cell, metric);
          if (!value) continue;
          Point point;
          point.x = cell->concurrency;
          point.y = *value;
          if (const auto interval = cells_.MeanIntervalOf(*cell, metric)) {
            point.low = interval->low;
            point.high = interval->high;
          }
          point.label = fmt::format("c={}", cell->concurrency);
          point.sources = cells_.Sources(*cell, metric);
          series.points.push_back(std::move(point));
        }
        two |= series.points.size() > 1;
        if (!series.points.empty()) chart.series.push_back(std::move(series));
      }
      if (!two) continue;
      // Where one user's speed would lead if load cost nothing.
      const Point first = chart.series.front().points.front();
      const double last = cells_.Levels(campaign, scenario).back();
      Series ideal{.name = Words("chart.ideal"), .points = {}, .dashed = true};
      for (const double c : {first.x, last}) {
        Point point;
        point.x = c;
        point.y = first.y * c / first.x;
        ideal.points.push_back(point);
      }
      for (const Hit& hit : analysis_.hits) {
        if (hit.campaign != campaign || hit.scenario != scenario) continue;
        if (hit.rule == "KNEE" && hit.variant.empty())
          chart.marks.push_back({true, static_cast<double>(hit.concurrency),
                                 Words("mark.knee", {hit.configuration})});
        if (hit.rule == "CLIFF")
          chart.marks.push_back({true, static_cast<double>(hit.concurrency),
                                 Words("mark.cliff", {hit.configuration})});
      }
      LogWhenWide(&chart);
      chart.series.push_back(std::move(ideal));
      Put(std::move(chart));
    }
    ParetoChart(campaign, scenario);
  }
}

// Speed per user against throughput per device.
void ReportBuilder::ParetoChart(const std::string& campaign, const std::string& scenario) {
  Chart chart;
  chart.id = Id("pareto-" + scenario, campaign);
  chart.kind = ChartKind::kScatter;
  chart.title = Words("chart.pareto", {Prefix(campaign), scenario});
  chart.x = {.title = Words("axis.tps_user")};
  bool per_gpu = false;
  for (const LevelSeries& levels : cells_.Series(campaign)) {
    if (levels.scenario != scenario) continue;
    Series series{.name = levels.configuration, .points = {}};
    for (const CellRuns* cell : levels.levels) {
      const auto tpot = cells_.Value(*cell, Metric::kMeanTpot);
      const auto output = cells_.Value(*cell, Metric::kOutputThroughput);
      if (!tpot || !output || *tpot <= 0) continue;
      const int32_t gpus = cells_.ConfigurationOf(*cell).gpus.value_or(1);
      per_gpu |= gpus > 1;
      Point point;
      point.x = 1000 / *tpot;
      point.y = *output / std::max(1, gpus);
      point.label = fmt::format("c={}", cell->concurrency);
      point.sources = cell->runs;
      series.points.push_back(std::move(point));
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  chart.y = {.title = Words(per_gpu ? "axis.output_per_gpu" : "axis.output")};
  chart.note = Words("chart.pareto.note");
  if (HasPoints(chart)) Put(std::move(chart));
}

void ReportBuilder::LatencyCharts(const std::string& campaign) {
  struct Latency {
    const char* name;
    Metric mean, median, p95, p99;
  };
  constexpr Latency kLatencies[] = {
      {"ttft", Metric::kMeanTtft, Metric::kMedianTtft, Metric::kP95Ttft, Metric::kP99Ttft},
      {"tpot", Metric::kMeanTpot, Metric::kMedianTpot, Metric::kP95Tpot, Metric::kP99Tpot},
      {"e2e", Metric::kMeanE2e, Metric::kMedianE2e, Metric::kP95E2e, Metric::kP99E2e},
  };
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const Latency& latency : kLatencies) {
      Chart chart;
      chart.id = Id(fmt::format("latency-{}-{}", latency.name, scenario), campaign);
      chart.kind = ChartKind::kLine;
      chart.title = Words("chart.latency",
                          {Prefix(campaign), scenario, fmt::format("@latency.{}", latency.name)});
      chart.x = {.title = Words("axis.concurrency"), .log = true};
      chart.y = {.title = Words(fmt::format("latency.{}", latency.name)) + " (ms)"};
      bool two = false;
      for (const LevelSeries& levels : cells_.Series(campaign)) {
        if (levels.scenario != scenario) continue;
        // The median where everybody has it, else the mean; the band reaches to P99.
        const bool medians = std::all_of(
            levels.levels.begin(), levels.levels.end(),
            [&](const CellRuns* cell) { return cells_.Value(*cell, latency.median).has_value(); });
        Series series{.name = levels.configuration, .points = {}, .dashed = false, .band = true};
        for (const CellRuns* cell : levels.levels) {
          const auto value = cells_.Value(*cell, medians ? latency.median : latency.mean);
          if (!value) continue;
          Point point;
          point.x = cell->concurrency;
          point.y = *value;
          point.low = *value;
          const auto p99 = cells_.Value(*cell, latency.p99);
          point.high = p99 ? p99 : cells_.Value(*cell, latency.p95);
          if (!point.high) point.low = std::nullopt;
          point.label = fmt::format("c={}", cell->concurrency);
          point.sources = cell->runs;
          series.points.push_back(std::move(point));
        }
        two |= series.points.size() > 1;
        if (!series.points.empty()) chart.series.push_back(std::move(series));
      }
      if (!two) continue;
      LogWhenWide(&chart);
      chart.note = Words("chart.latency.note");
      Put(std::move(chart));
    }
  }
}

void ReportBuilder::SpeedupMap(const std::string& campaign) {
  const auto baseline = analysis_.baselines.find(campaign);
  if (baseline == analysis_.baselines.end()) return;
  Chart chart;
  chart.id = Id("speedup-map", campaign);
  chart.kind = ChartKind::kHeatmap;
  chart.title = Words("chart.speedup", {Prefix(campaign), baseline->second});
  chart.x = {.title = Words("axis.concurrency")};
  chart.y = {.title = Words("column.configuration")};
  for (const int32_t level : cells_.Levels(campaign, ""))
    chart.x.categories.push_back(std::to_string(level));
  Series series{.name = Words("metric.output_throughput"), .points = {}};
  for (const LevelSeries& levels : cells_.Series(campaign)) {
    if (levels.configuration == baseline->second) continue;
    const double row = static_cast<double>(chart.y.categories.size());
    bool any = false;
    for (const CellRuns* cell : levels.levels) {
      const CellRuns* base =
          cells_.Find(campaign, levels.scenario, baseline->second, cell->concurrency);
      if (base == nullptr) continue;
      const auto ratio = cells_.Compare(*cell, *base, Metric::kOutputThroughput);
      if (!ratio) continue;
      const std::string column = std::to_string(cell->concurrency);
      Point point;
      point.x = static_cast<double>(
          std::find(chart.x.categories.begin(), chart.x.categories.end(), column) -
          chart.x.categories.begin());
      point.y = row;
      point.value = ratio->ratio;
      point.low = ratio->low;
      point.high = ratio->high;
      point.label = Fixed(ratio->ratio);
      point.sources = Both(*cell, *base);
      series.points.push_back(std::move(point));
      any = true;
    }
    if (any)
      chart.y.categories.push_back(fmt::format("{}: {}", levels.scenario, levels.configuration));
  }
  chart.series.push_back(std::move(series));
  if (HasPoints(chart)) Put(std::move(chart));
}

// One bar per configuration and cell, where a cell has several.
void ReportBuilder::ConfigurationChart(const std::string& campaign) {
  Chart chart;
  chart.id = Id("configurations", campaign);
  chart.kind = ChartKind::kBar;
  std::vector<const CellRuns*> all;
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign == campaign && cells_.Valid(cell)) all.push_back(&cell);
  }
  const auto metric = cells_.CommonThroughput(all);
  if (!metric) return;
  chart.title = Words("chart.configurations", {Prefix(campaign)});
  chart.x = {.title = Words("column.scenario")};
  chart.y = {.title = fmt::format("{} ({})", Words(fmt::format("metric.{}", Info(*metric).name)),
                                  Info(*metric).unit)};
  for (const std::string& name : cells_.Configurations(campaign))
    chart.series.push_back({.name = name, .points = {}});
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      const auto here = cells_.CellsOf(campaign, scenario, level);
      if (here.size() < 2) continue;
      const double at = static_cast<double>(chart.x.categories.size());
      chart.x.categories.push_back(CellName(*here.front()));
      for (const CellRuns* cell : here) {
        const auto value = cells_.Value(*cell, *metric);
        if (!value) continue;
        Point point;
        point.x = at;
        point.y = *value;
        if (const auto interval = cells_.MeanIntervalOf(*cell, *metric)) {
          point.low = interval->low;
          point.high = interval->high;
        }
        point.sources = cell->runs;
        for (Series& series : chart.series) {
          if (series.name == cell->configuration) series.points.push_back(point);
        }
      }
    }
  }
  LogWhenWide(&chart);
  if (HasPoints(chart)) Put(std::move(chart));
}

void ReportBuilder::AcceptanceChart(const std::string& campaign) {
  Chart chart;
  chart.id = Id("acceptance-per-position", campaign);
  chart.kind = ChartKind::kBar;
  chart.title = Words("chart.positions", {Prefix(campaign)});
  chart.x = {.title = Words("axis.position")};
  chart.y = {.title = Words("axis.acceptance")};
  size_t longest = 0;
  std::set<std::string> seen;
  for (const CellRuns& cell : cells_.cells()) {
    const std::vector<double>& rates = cells_.First(cell).acceptance_per_position;
    if (cell.campaign != campaign || rates.empty() || !cells_.Valid(cell)) continue;
    // Acceptance hardly depends on the load: the lowest level of each configuration stands for it.
    if (!seen.insert(cell.scenario + "\n" + cell.configuration).second) continue;
    longest = std::max(longest, rates.size());
    Series bars{.name = fmt::format("{} ({})", cell.configuration, CellName(cell)), .points = {}};
    Series line{.name = fmt::format("{}, {}", bars.name, Words("chart.conditional")),
                .points = {},
                .dashed = true};
    double before = 1;
    for (size_t p = 0; p < rates.size(); ++p) {
      Point point;
      point.x = static_cast<double>(p);
      point.y = 100 * rates[p];
      point.sources = cell.runs;
      bars.points.push_back(point);
      if (before > 0) {
        point.y = 100 * rates[p] / before;
        line.points.push_back(point);
      }
      before = rates[p];
    }
    chart.series.push_back(std::move(bars));
    chart.series.push_back(std::move(line));
  }
  for (size_t p = 0; p < longest; ++p) chart.x.categories.push_back(std::to_string(p + 1));
  if (HasPoints(chart)) Put(std::move(chart));
}

// Drafted tokens per step against load: what a scheduler allows, or the fixed length.
void ReportBuilder::BudgetChart(const std::string& campaign) {
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    Chart chart;
    chart.id = Id("budget-" + scenario, campaign);
    chart.kind = ChartKind::kLine;
    chart.title = Words("chart.budget", {Prefix(campaign), scenario});
    chart.x = {.title = Words("axis.concurrency"), .log = true};
    chart.y = {.title = Words("axis.drafted")};
    for (const LevelSeries& levels : cells_.Series(campaign)) {
      if (levels.scenario != scenario) continue;
      Series drafted{.name = levels.configuration, .points = {}};
      Series accepted{.name = levels.configuration + ": τ", .points = {}, .dashed = true};
      for (const CellRuns* cell : levels.levels) {
        const auto k = cells_.ConfigurationOf(*cell).spec_tokens;
        if (!k || *k == 0) continue;
        Point point;
        point.x = cell->concurrency;
        point.y = cells_.First(*cell).tokens_per_draft.value_or(*k);
        point.label = fmt::format("c={}", cell->concurrency);
        point.sources = cell->runs;
        drafted.points.push_back(point);
        if (const auto tokens = cells_.Value(*cell, Metric::kAcceptLength)) {
          point.y = *tokens;
          accepted.points.push_back(point);
        }
      }
      if (!drafted.points.empty()) chart.series.push_back(std::move(drafted));
      if (!accepted.points.empty()) chart.series.push_back(std::move(accepted));
    }
    const bool wide = std::any_of(chart.series.begin(), chart.series.end(),
                                  [](const Series& s) { return s.points.size() > 1; });
    if (wide) Put(std::move(chart));
  }
}

// ECDFs where per-request figures exist, at most kMaxPoints each.
void ReportBuilder::DistributionCharts(const std::string& campaign) {
  struct Kind {
    const char* name;
    std::vector<double> RunSamples::*samples;
  };
  const Kind kinds[] = {
      {"ttft", &RunSamples::ttft}, {"tpot", &RunSamples::tpot}, {"e2e", &RunSamples::e2e}};
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      for (const Kind& kind : kinds) {
        Chart chart;
        chart.id = Id(fmt::format("ecdf-{}-{}-c{}", kind.name, scenario, level), campaign);
        chart.kind = ChartKind::kEcdf;
        chart.title = Words("chart.ecdf", {Prefix(campaign), fmt::format("{}@{}", scenario, level),
                                           fmt::format("@latency.{}", kind.name)});
        chart.x = {.title = Words(fmt::format("latency.{}", kind.name)) + " (ms)", .log = true};
        chart.y = {.title = Words("axis.share")};
        for (const CellRuns* cell : cells_.CellsOf(campaign, scenario, level)) {
          std::vector<double> samples;
          for (const int32_t run : cell->runs) {
            const std::vector<double>& own = results_.runs[run].samples.*kind.samples;
            if (results_.runs[run].valid()) samples.insert(samples.end(), own.begin(), own.end());
          }
          if (samples.empty()) continue;
          std::sort(samples.begin(), samples.end());
          Series series{.name = cell->configuration, .points = {}};
          const size_t count = std::min(kMaxPoints, samples.size());
          for (size_t i = 0; i < count; ++i) {
            const size_t at = count == 1 ? 0 : i * (samples.size() - 1) / (count - 1);
            Point point;
            point.x = samples[at];
            point.y = static_cast<double>(at + 1) / static_cast<double>(samples.size());
            point.sources = cell->runs;
            series.points.push_back(std::move(point));
          }
          chart.series.push_back(std::move(series));
        }
        if (HasPoints(chart)) Put(std::move(chart));
      }
    }
  }
}

}  // namespace firesteel
