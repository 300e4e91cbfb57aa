// Builds the sections of a report. One object per report; not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/document.h"
#include "analysis/ratio_summary.h"
#include "analysis/report.h"
#include "analysis/rules_internal.h"

namespace firesteel {

class ReportBuilder {
 public:
  ReportBuilder(const Analysis& analysis, Language language)
      : analysis_(analysis), results_(*analysis.results), cells_(*analysis.cells) {
    document_.language = language;
  }
  Document Build();

 private:
  // report.cc
  std::string Words(const std::string& key, const std::vector<std::string>& arguments = {}) const;
  // Arguments that begin with '@' are keys of texts.
  std::vector<std::string> Resolve(const std::vector<std::string>& arguments) const;
  // "winners" -> "winners-<campaign>".
  static std::string Id(const std::string& stem, const std::string& campaign);
  std::string TitleOf(const std::string& key, const std::string& campaign) const;
  Section& Begin(const std::string& id);
  void Put(Block block) { document_.sections.back().blocks.push_back(std::move(block)); }
  void PutTable(Table table);  // left out when it has no rows; columns without a value too
  void Say(const std::string& key, const std::vector<std::string>& arguments = {});

  Table NewTable(const std::string& stem, const std::string& campaign) const;
  Column NameColumn(const std::string& id) const;
  Column NumberColumn(const std::string& id, const std::string& unit = "",
                      Better better = Better::kNeither) const;
  Column MetricColumn(Metric metric) const;
  static Cell TextCell(std::string text, SourceRefs sources = {});
  static Cell NumberCell(std::optional<double> value, int decimals, SourceRefs sources = {},
                         bool sign = false);
  Cell MetricCell(const CellRuns& cell, Metric metric) const;
  Cell RatioCell(const CellRuns& a, const CellRuns& b, Metric metric) const;
  static SourceRefs Both(const CellRuns& a, const CellRuns& b);
  void AddSources();

  // report_core.cc
  void Summary();
  void Environment();
  void Workload();
  void Core(const std::string& campaign);
  void Coverage(const std::string& campaign);
  void Pivots(const std::string& campaign);

  // report_compare.cc
  void Winners(const Comparison& comparison);
  void Ratios(const Comparison& comparison);
  void SettingsByLoad(const Comparison& comparison);
  void Speedups(const std::string& campaign);
  void Replicates();
  void Across();

  // report_speculation.cc
  void Acceptance(const std::string& campaign);
  void Positions(const std::string& campaign);
  void Model(const std::string& campaign);
  void Marginal(const std::string& campaign);
  void Lengths(const std::string& campaign);

  // report_findings.cc
  void Checks(const std::string& campaign);
  void LevelSteps(const std::string& campaign);
  void Cliffs(const std::string& campaign);
  void Findings();
  Finding FindingOf(const Hit& hit, size_t number) const;
  void Recommendations();
  void Claims();
  void Limits();

  // report_charts.cc
  void ThroughputCharts(const std::string& campaign);
  void LatencyCharts(const std::string& campaign);
  void ParetoChart(const std::string& campaign, const std::string& scenario);
  void SpeedupMap(const std::string& campaign);
  void ConfigurationChart(const std::string& campaign);
  void AcceptanceChart(const std::string& campaign);
  void BudgetChart(const std::string& campaign);
  void DistributionCharts(const std::string& campaign);

  const Analysis& analysis_;
  const Results& results_;
  const CellTable& cells_;
  Document document_;
};

}  // namespace firesteel
