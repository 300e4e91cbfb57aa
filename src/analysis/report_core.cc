// What was run, on what, and what came out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/report_internal.h"

namespace firesteel {
namespace {

// The report's table of results, in its order.
constexpr Metric kCoreMetrics[] = {
    Metric::kTotalThroughput, Metric::kOutputThroughput, Metric::kRequestThroughput,
    Metric::kMeanE2e,         Metric::kP95E2e,           Metric::kP99E2e,
    Metric::kMeanTtft,        Metric::kP99Ttft,          Metric::kMeanTpot,
    Metric::kP95Tpot,         Metric::kP99Tpot,          Metric::kMeanItl,
    Metric::kAcceptLength,    Metric::kAcceptRate,       Metric::kGoodput,
};

int Rank(const Hit& hit) {
  // What concerns more than one cell comes first.
  constexpr int kPerSeverity = 10, kWide = 5;
  return kPerSeverity * static_cast<int>(hit.severity) + static_cast<int>(hit.confidence) +
         (hit.concurrency == 0 ? kWide : 0);
}

// Marks the best of the rows [begin, end) in every metric column.
void MarkBest(size_t begin, Table* table) {
  for (size_t c = 0; c < table->columns.size(); ++c) {
    const Better better = table->columns[c].better;
    Cell* best = nullptr;
    int count = 0;
    for (size_t r = begin; r < table->rows.size(); ++r) {
      Cell& cell = table->rows[r][c];
      if (better == Better::kNeither || !cell.value || cell.emphasis == Emphasis::kVoid) continue;
      ++count;
      const bool ahead =
          best == nullptr ||
          (better == Better::kHigher ? *cell.value > *best->value : *cell.value < *best->value);
      if (ahead) best = &cell;
    }
    if (best != nullptr && count > 1) best->emphasis = Emphasis::kBest;
  }
}

}  // namespace

void ReportBuilder::Summary() {
  Begin("summary");
  size_t runs = 0, voided = 0;
  for (const Run& run : results_.runs) {
    runs += run.quoted ? 0 : 1;
    voided += run.valid() ? 0 : 1;
  }
  Say("summary.scope", {std::to_string(runs), std::to_string(cells_.cells().size()),
                        std::to_string(results_.campaigns.size())});
  for (const Comparison& comparison : analysis_.comparisons) {
    if (comparison.sides.size() < 2) continue;
    std::vector<std::string> wins;
    for (const std::string& side : comparison.sides)
      wins.push_back(fmt::format("{} {}", side, comparison.Wins(side)));
    size_t unequal = 0;
    size_t compared = 0;
    for (const WinnerCell& cell : comparison.cells) {
      unequal += cell.verdict == Verdict::kUnequal ? 1 : 0;
      compared += cell.runner_up != nullptr ? 1 : 0;
    }
    Say("summary.wins", {comparison.campaign.empty() ? "" : comparison.campaign + ": ",
                         std::to_string(compared), fmt::format("{}", fmt::join(wins, ", ")),
                         std::to_string(comparison.Ties()), std::to_string(unequal)});
  }
  // The most important findings, one of each rule.
  std::vector<size_t> order(analysis_.hits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return Rank(analysis_.hits[a]) > Rank(analysis_.hits[b]);
  });
  BulletList list;
  std::set<std::string> rules;
  for (const size_t i : order) {
    constexpr size_t kMost = 3;
    const Hit& hit = analysis_.hits[i];
    if (list.items.size() == kMost || !rules.insert(hit.rule).second) continue;
    list.items.push_back(FindingOf(hit, i).headline);
  }
  if (!list.items.empty()) Put(std::move(list));

  if (voided > 0) Put(Banner{Severity::kSevere, Words("banner.void", {std::to_string(voided)})});
  const auto any = [&](const char* rule) {
    return std::any_of(analysis_.hits.begin(), analysis_.hits.end(),
                       [&](const Hit& hit) { return hit.rule == rule; });
  };
  if (any("NOT_RANKED") || any("UNEQUAL_WORKLOAD"))
    Put(Banner{Severity::kWarning, Words("banner.unequal")});
  if (any("OUTPUT_NOT_COUNTED")) Put(Banner{Severity::kWarning, Words("banner.unverified")});
  const bool single = std::any_of(cells_.cells().begin(), cells_.cells().end(),
                                  [](const CellRuns& cell) { return cell.runs.size() == 1; });
  if (single) Put(Banner{Severity::kNote, Words("banner.single")});
}

void ReportBuilder::Environment() {
  Table facts = NewTable("campaigns", "");
  facts.columns = {NameColumn("campaign"), NameColumn("title"), NameColumn("date"),
                   NameColumn("facts")};
  for (const Campaign& campaign : results_.campaigns) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : campaign.facts)
      parts.push_back(fmt::format("{}: {}", key, value));
    facts.rows.push_back({TextCell(campaign.id), TextCell(campaign.title), TextCell(campaign.date),
                          TextCell(fmt::format("{}", fmt::join(parts, "; ")))});
  }
  PutTable(std::move(facts));
  Table table = NewTable("configurations", "");
  table.columns = {NameColumn("campaign"), NameColumn("configuration"), NameColumn("engine"),
                   NameColumn("version"),  NameColumn("method"),        NumberColumn("spec_tokens"),
                   NumberColumn("gpus"),   NameColumn("settings"),      NameColumn("role")};
  for (const Campaign& campaign : results_.campaigns) {
    for (const std::string& name : cells_.Configurations(campaign.id)) {
      for (const CellRuns& cell : cells_.cells()) {
        if (cell.campaign != campaign.id || cell.configuration != name) continue;
        const Configuration& c = cells_.ConfigurationOf(cell);
        std::vector<std::string> settings;
        for (const auto& [key, value] : c.settings)
          settings.push_back(fmt::format("{} {}", key, value));
        const auto baseline = analysis_.baselines.find(campaign.id);
        const bool is_baseline = baseline != analysis_.baselines.end() && baseline->second == name;
        table.rows.push_back({TextCell(campaign.id), TextCell(name), TextCell(c.engine),
                              TextCell(c.engine_version), TextCell(c.method),
                              NumberCell(c.spec_tokens, 0), NumberCell(c.gpus, 0),
                              TextCell(fmt::format("{}", fmt::join(settings, ", "))),
                              TextCell(is_baseline ? Words("role.baseline") : "")});
        break;
      }
    }
  }
  PutTable(std::move(table));
}

void ReportBuilder::Workload() {
  for (const Campaign& campaign : results_.campaigns) {
    Table table = NewTable("workload", campaign.id);
    table.columns = {NameColumn("scenario"),
                     NumberColumn("concurrency"),
                     NameColumn("dataset"),
                     NumberColumn("max_input", "tok"),
                     NumberColumn("max_output", "tok"),
                     NumberColumn("requested_output", "tok"),
                     NumberColumn("num_prompts"),
                     NumberColumn("waves"),
                     NumberColumn("seed"),
                     NumberColumn("mean_input", "tok"),
                     NumberColumn("mean_output", "tok"),
                     NumberColumn("output_spread", "×"),
                     NumberColumn("cached_pct", "%"),
                     NameColumn("work_basis")};
    for (const std::string& scenario : cells_.Scenarios(campaign.id)) {
      for (const int32_t level : cells_.Levels(campaign.id, scenario)) {
        const CellRuns& cell = *cells_.CellsOf(campaign.id, scenario, level).front();
        const CellWork work = cells_.WorkOf(cell);
        const SourceRefs& from = cell.runs;
        std::optional<double> input = work.work.MeanInput(), output = work.work.MeanOutput();
        std::optional<double> waves, seed, cached;
        if (work.lengths) {
          input = work.lengths->MeanInput();
          output = work.lengths->MeanOutput();
          seed = static_cast<double>(work.lengths->seed);
        }
        if (!output) output = cells_.OutputPerRequest(cell);
        if (work.work.prompts && level > 0) waves = static_cast<double>(*work.work.prompts) / level;
        if (work.work.cached_share) cached = 100 * *work.work.cached_share;
        table.rows.push_back(
            {TextCell(scenario), NumberCell(level, 0), TextCell(work.work.dataset),
             NumberCell(work.work.max_input, 0, from), NumberCell(work.work.max_output, 0, from),
             NumberCell(work.work.requested_output, 0, from),
             NumberCell(work.work.prompts, 0, from), NumberCell(waves, 1, from),
             NumberCell(seed, 0, from), NumberCell(input, 1, from), NumberCell(output, 1, from),
             NumberCell(cells_.LengthSpread(cell), 2, from), NumberCell(cached, 1, from),
             TextCell(work.assumed ? Words("work.assumed") : "")});
      }
    }
    PutTable(std::move(table));
  }
}

void ReportBuilder::Core(const std::string& campaign) {
  Table table = NewTable("core", campaign);
  table.columns = {NameColumn("scenario"), NumberColumn("concurrency"),
                   NameColumn("configuration")};
  for (const Metric metric : kCoreMetrics) table.columns.push_back(MetricColumn(metric));
  table.columns.push_back(NumberColumn("runs"));
  table.columns.push_back(NameColumn("ids"));
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      const size_t begin = table.rows.size();
      for (const CellRuns* cell : cells_.CellsOf(campaign, scenario, level)) {
        std::vector<Cell> row = {TextCell(scenario), NumberCell(level, 0),
                                 TextCell(cell->configuration, cell->runs)};
        for (const Metric metric : kCoreMetrics) row.push_back(MetricCell(*cell, metric));
        row.push_back(NumberCell(static_cast<double>(cell->runs.size()), 0, cell->runs));
        std::vector<std::string> ids;
        for (const int32_t run : cell->runs) ids.push_back(results_.runs[run].id);
        row.push_back(TextCell(fmt::format("{}", fmt::join(ids, ", ")), cell->runs));
        table.rows.push_back(std::move(row));
      }
      MarkBest(begin, &table);
    }
  }
  PutTable(std::move(table));
}

// Which figures exist at which levels: nothing is said about the others.
void ReportBuilder::Coverage(const std::string& campaign) {
  Table table = NewTable("coverage", campaign);
  table.columns = {NameColumn("scenario"),          NameColumn("configuration"),
                   NameColumn("throughput_levels"), NameColumn("ttft_levels"),
                   NameColumn("p99_ttft_levels"),   NameColumn("tpot_levels")};
  bool uneven = false;
  for (const LevelSeries& series : cells_.Series(campaign)) {
    const auto levels = [&](std::initializer_list<Metric> metrics) {
      std::vector<int32_t> found;
      for (const CellRuns* cell : series.levels) {
        const bool has = std::any_of(metrics.begin(), metrics.end(), [&](Metric metric) {
          return cells_.Value(*cell, metric).has_value();
        });
        if (has) found.push_back(cell->concurrency);
      }
      return found.empty() ? std::string("–") : fmt::format("{}", fmt::join(found, ", "));
    };
    const std::string throughput =
        levels({Metric::kTotalThroughput, Metric::kOutputThroughput, Metric::kRequestThroughput});
    const std::string ttft = levels({Metric::kMeanTtft}), tpot = levels({Metric::kMeanTpot});
    const std::string p99 = levels({Metric::kP99Ttft});
    uneven |= throughput != ttft || ttft != tpot || ttft != p99;
    table.rows.push_back({TextCell(series.scenario), TextCell(series.configuration),
                          TextCell(throughput), TextCell(ttft), TextCell(p99), TextCell(tpot)});
  }
  table.notes = {Words("note.coverage")};
  if (uneven) Put(std::move(table));
}

// Configuration by concurrency.
void ReportBuilder::Pivots(const std::string& campaign) {
  for (const Metric metric :
       {Metric::kRequestThroughput, Metric::kOutputThroughput, Metric::kTotalThroughput}) {
    for (const std::string& scenario : cells_.Scenarios(campaign)) {
      const std::vector<int32_t> levels = cells_.Levels(campaign, scenario);
      const std::vector<std::string> names = cells_.Configurations(campaign, scenario);
      if (levels.size() < 2 || names.size() < 2) continue;
      Table table = NewTable("pivot", campaign);
      table.id = Id(fmt::format("pivot-{}-{}", Info(metric).name, scenario), campaign);
      table.title = fmt::format("{}: {}, {}", table.title, scenario,
                                Words(fmt::format("metric.{}", Info(metric).name)));
      table.columns = {NameColumn("configuration")};
      for (const int32_t level : levels) {
        Column column = MetricColumn(metric);
        column.id = fmt::format("c{}", level);
        column.title = fmt::format("c={}", level);
        table.columns.push_back(std::move(column));
      }
      bool any = false;
      for (const std::string& name : names) {
        std::vector<Cell> row = {TextCell(name)};
        for (const int32_t level : levels) {
          const CellRuns* cell = cells_.Find(campaign, scenario, name, level);
          row.push_back(cell == nullptr ? NumberCell(std::nullopt, 2) : MetricCell(*cell, metric));
          any |= row.back().value.has_value();
        }
        table.rows.push_back(std::move(row));
      }
      if (!any) continue;
      MarkBest(0, &table);
      PutTable(std::move(table));
    }
  }
}

}  // namespace firesteel
