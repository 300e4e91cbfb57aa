#include "analysis/report.h"

#include <algorithm>

#include "analysis/report_internal.h"

namespace firesteel {

Document BuildReport(const Analysis& analysis, Language language) {
  return ReportBuilder(analysis, language).Build();
}

Document ReportBuilder::Build() {
  document_.title = Words("report.title");
  AddSources();
  Summary();
  Begin("environment");
  Environment();
  Begin("workload");
  Workload();
  Begin("core");
  for (const Campaign& campaign : results_.campaigns) {
    Core(campaign.id);
    Coverage(campaign.id);
    ThroughputCharts(campaign.id);
    LatencyCharts(campaign.id);
    DistributionCharts(campaign.id);
  }
  Begin("winners");
  for (const Comparison& comparison : analysis_.comparisons) {
    Winners(comparison);
    Ratios(comparison);
    SettingsByLoad(comparison);
    ConfigurationChart(comparison.campaign);
  }
  Replicates();
  Across();
  Begin("speculation");
  for (const Campaign& campaign : results_.campaigns) {
    Acceptance(campaign.id);
    Positions(campaign.id);
    AcceptanceChart(campaign.id);
    Model(campaign.id);
    Marginal(campaign.id);
    Lengths(campaign.id);
    BudgetChart(campaign.id);
    Speedups(campaign.id);
    SpeedupMap(campaign.id);
  }
  Begin("pivots");
  for (const Campaign& campaign : results_.campaigns) Pivots(campaign.id);
  Begin("anomalies");
  for (const Campaign& campaign : results_.campaigns) {
    Cliffs(campaign.id);
    LevelSteps(campaign.id);
    Checks(campaign.id);
  }
  Findings();
  Begin("advice");
  Recommendations();
  Begin("claims");
  Claims();
  Begin("limits");
  Limits();
  std::erase_if(document_.sections, [](const Section& section) { return section.blocks.empty(); });
  return std::move(document_);
}

std::string ReportBuilder::Words(const std::string& key,
                                 const std::vector<std::string>& arguments) const {
  return firesteel::Say(document_.language, key, Resolve(arguments));
}

std::vector<std::string> ReportBuilder::Resolve(const std::vector<std::string>& arguments) const {
  std::vector<std::string> resolved;
  for (const std::string& argument : arguments) {
    resolved.push_back(argument.starts_with('@')
                           ? firesteel::Say(document_.language, argument.substr(1))
                           : argument);
  }
  return resolved;
}

std::string ReportBuilder::Id(const std::string& stem, const std::string& campaign) {
  return campaign.empty() ? stem : stem + "-" + campaign;
}

std::string ReportBuilder::TitleOf(const std::string& key, const std::string& campaign) const {
  const std::string title = Words(key);
  return campaign.empty() ? title : Words("title.of_campaign", {title, campaign});
}

Section& ReportBuilder::Begin(const std::string& id) {
  document_.sections.push_back({.id = id, .title = Words("section." + id), .blocks = {}});
  return document_.sections.back();
}

void ReportBuilder::PutTable(Table table) {
  if (table.rows.empty()) return;
  for (size_t c = table.columns.size(); c-- > 0;) {
    const bool empty = std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
      return !row[c].value && (row[c].text.empty() || row[c].text == "–");
    });
    if (!empty) continue;
    const auto at = static_cast<std::ptrdiff_t>(c);
    table.columns.erase(table.columns.begin() + at);
    for (std::vector<Cell>& row : table.rows) row.erase(row.begin() + at);
  }
  if (!table.columns.empty()) Put(std::move(table));
}

void ReportBuilder::Say(const std::string& key, const std::vector<std::string>& arguments) {
  Put(Paragraph{Words(key, arguments)});
}

Table ReportBuilder::NewTable(const std::string& stem, const std::string& campaign) const {
  return {.id = Id(stem, campaign),
          .title = TitleOf("table." + stem, campaign),
          .columns = {},
          .rows = {}};
}

Column ReportBuilder::NameColumn(const std::string& id) const {
  return {.id = id, .title = Words("column." + id)};
}

Column ReportBuilder::NumberColumn(const std::string& id, const std::string& unit,
                                   Better better) const {
  return {
      .id = id, .title = Words("column." + id), .unit = unit, .numeric = true, .better = better};
}

Column ReportBuilder::MetricColumn(Metric metric) const {
  const MetricInfo& info = Info(metric);
  return {.id = info.name,
          .title = Words(std::string("metric.") + info.name),
          .unit = info.unit,
          .numeric = true,
          .better = info.higher_is_better ? Better::kHigher : Better::kLower};
}

Cell ReportBuilder::TextCell(std::string text, SourceRefs sources) {
  Cell cell;
  cell.text = std::move(text);
  cell.sources = std::move(sources);
  return cell;
}

Cell ReportBuilder::NumberCell(std::optional<double> value, int decimals, SourceRefs sources,
                               bool sign) {
  Cell cell;
  cell.text = "–";
  cell.value = value;
  cell.decimals = static_cast<int8_t>(decimals);
  cell.sign = sign;
  if (value) cell.sources = std::move(sources);
  return cell;
}

Cell ReportBuilder::MetricCell(const CellRuns& cell, Metric metric) const {
  const std::optional<double> value = cells_.Value(cell, metric);
  Cell out = NumberCell(value, 2, cells_.Sources(cell, metric));
  if (const auto interval = cells_.MeanIntervalOf(cell, metric)) {
    out.low = interval->low;
    out.high = interval->high;
  }
  if (value) return out;
  for (const int32_t run : cell.runs) {
    const auto lost = results_.runs[run].measures.Get(metric);
    if (!lost || results_.runs[run].valid()) continue;
    out = NumberCell(lost, 2, {run});
    out.emphasis = Emphasis::kVoid;
  }
  return out;
}

Cell ReportBuilder::RatioCell(const CellRuns& a, const CellRuns& b, Metric metric) const {
  const auto ratio = cells_.Compare(a, b, metric);
  if (!ratio) return NumberCell(std::nullopt, 2);
  Cell cell = NumberCell(ratio->ratio, 3, Both(a, b));
  if (ratio->from_repeats) {
    cell.low = ratio->low;
    cell.high = ratio->high;
  }
  if (!ratio->significant()) cell.emphasis = Emphasis::kTie;
  return cell;
}

SourceRefs ReportBuilder::Both(const CellRuns& a, const CellRuns& b) {
  SourceRefs sources = a.runs;
  sources.insert(sources.end(), b.runs.begin(), b.runs.end());
  return sources;
}

void ReportBuilder::AddSources() {
  for (const Run& run : results_.runs) {
    const RunOrigin& origin = run.origins.front();
    Source source;
    source.id = run.id;
    source.file = origin.file;
    source.line = origin.line;
    source.campaign = run.campaign;
    source.scenario = run.scenario;
    source.configuration = run.configuration.name;
    source.concurrency = run.concurrency;
    for (const std::string& reason : run.void_reasons)
      source.invalid += (source.invalid.empty() ? "" : "; ") + reason;
    document_.sources.push_back(std::move(source));
  }
}

}  // namespace firesteel
