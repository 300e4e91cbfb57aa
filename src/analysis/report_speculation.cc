// Speculation: acceptance, what a longer draft brings and costs, and which length to use.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/report_internal.h"

namespace firesteel {

void ReportBuilder::Acceptance(const std::string& campaign) {
  Table table = NewTable("acceptance", campaign);
  table.columns = {NameColumn("scenario"),
                   NameColumn("configuration"),
                   NumberColumn("spec_tokens"),
                   NumberColumn("concurrency"),
                   MetricColumn(Metric::kRequestThroughput),
                   MetricColumn(Metric::kOutputThroughput),
                   MetricColumn(Metric::kAcceptLength),
                   MetricColumn(Metric::kAcceptRate),
                   NumberColumn("length_from_rate", "tok"),
                   NumberColumn("tokens_per_draft", "tok"),
                   MetricColumn(Metric::kMeanTtft),
                   MetricColumn(Metric::kMeanTpot),
                   MetricColumn(Metric::kMeanItl),
                   NumberColumn("itl_over_tpot", "×"),
                   NumberColumn("draft_cost_pct", "%")};
  for (Column& column : table.columns) column.better = Better::kNeither;
  for (const LevelSeries& series : cells_.Series(campaign)) {
    for (const CellRuns* cell : series.levels) {
      const Configuration& configuration = cells_.ConfigurationOf(*cell);
      const bool has_acceptance =
          cells_.Value(*cell, Metric::kAcceptLength) || cells_.Value(*cell, Metric::kAcceptRate);
      const bool has_itl = cells_.Value(*cell, Metric::kMeanItl).has_value();
      if (!has_acceptance && !(has_itl && configuration.IsBaseline())) continue;
      const auto rate = cells_.Value(*cell, Metric::kAcceptRate);
      const auto itl = cells_.Value(*cell, Metric::kMeanItl);
      const auto tpot = cells_.Value(*cell, Metric::kMeanTpot);
      std::optional<double> from_rate, over, cost;
      if (rate && configuration.spec_tokens) from_rate = TokensPerStep(cells_, *cell);
      if (itl && tpot && *tpot > 0) over = *itl / *tpot;
      if (cells_.First(*cell).step_cost_share) cost = 100 * *cells_.First(*cell).step_cost_share;
      table.rows.push_back(
          {TextCell(series.scenario), TextCell(series.configuration, cell->runs),
           NumberCell(configuration.spec_tokens, 0), NumberCell(cell->concurrency, 0),
           MetricCell(*cell, Metric::kRequestThroughput),
           MetricCell(*cell, Metric::kOutputThroughput), MetricCell(*cell, Metric::kAcceptLength),
           MetricCell(*cell, Metric::kAcceptRate), NumberCell(from_rate, 3, cell->runs),
           NumberCell(cells_.First(*cell).tokens_per_draft, 2, cell->runs),
           MetricCell(*cell, Metric::kMeanTtft), MetricCell(*cell, Metric::kMeanTpot),
           MetricCell(*cell, Metric::kMeanItl), NumberCell(over, 3, cell->runs),
           NumberCell(cost, 1, cell->runs)});
    }
  }
  table.notes.push_back(Words("note.acceptance"));
  const bool ballast = std::any_of(results_.runs.begin(), results_.runs.end(), [&](const Run& run) {
    return run.campaign == campaign && run.ballast;
  });
  if (ballast) table.notes.push_back(Words("note.ballast"));
  PutTable(std::move(table));
}

void ReportBuilder::Positions(const std::string& campaign) {
  Table table = NewTable("positions", campaign);
  table.columns = {NameColumn("scenario"),
                   NameColumn("configuration"),
                   NumberColumn("concurrency"),
                   NumberColumn("position"),
                   NumberColumn("accepted_pct", "%"),
                   NumberColumn("conditional_pct", "%")};
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign || !cells_.Valid(cell)) continue;
    const std::vector<double>& rates = cells_.First(cell).acceptance_per_position;
    double before = 1;
    for (size_t p = 0; p < rates.size(); ++p) {
      const auto conditional = before > 0 ? std::optional(100 * rates[p] / before) : std::nullopt;
      table.rows.push_back(
          {TextCell(cell.scenario), TextCell(cell.configuration, cell.runs),
           NumberCell(cell.concurrency, 0), NumberCell(static_cast<double>(p + 1), 0),
           NumberCell(100 * rates[p], 1, cell.runs), NumberCell(conditional, 1, cell.runs)});
      before = rates[p];
    }
  }
  PutTable(std::move(table));
}

void ReportBuilder::Model(const std::string& campaign) {
  const auto baseline = analysis_.baselines.find(campaign);
  if (baseline == analysis_.baselines.end()) return;
  Table table = NewTable("model", campaign);
  table.columns = {NameColumn("scenario"),
                   NumberColumn("concurrency"),
                   NameColumn("configuration"),
                   NumberColumn("spec_tokens"),
                   NumberColumn("tokens_per_step", "tok"),
                   NumberColumn("relative_step", "×"),
                   NumberColumn("expected", "×"),
                   NumberColumn("measured", "×"),
                   NumberColumn("expected_over_measured", "×")};
  for (const CellRuns& cell : cells_.cells()) {
    const Configuration& configuration = cells_.ConfigurationOf(cell);
    if (cell.campaign != campaign || configuration.spec_tokens.value_or(0) <= 0) continue;
    const CellRuns* base = cells_.Find(campaign, cell.scenario, baseline->second, cell.concurrency);
    if (base == nullptr) continue;
    const auto check = CheckModel(cells_, cell, *base);
    if (!check) continue;
    const SourceRefs sources = Both(cell, *base);
    Cell error = NumberCell(check->expected / check->measured, 3, sources);
    if (std::abs(*error.value - 1) > analysis_.options.thresholds.model_mismatch)
      error.emphasis = Emphasis::kWorse;
    table.rows.push_back(
        {TextCell(cell.scenario), NumberCell(cell.concurrency, 0),
         TextCell(cell.configuration, cell.runs), NumberCell(configuration.spec_tokens, 0),
         NumberCell(check->tokens_per_step, 3, cell.runs),
         NumberCell(check->relative_step, 3, sources), NumberCell(check->expected, 3, sources),
         NumberCell(check->measured, 3, sources), error});
  }
  table.notes.push_back(Words("note.model", {baseline->second}));
  PutTable(std::move(table));
}

void ReportBuilder::Marginal(const std::string& campaign) {
  Table table = NewTable("marginal", campaign);
  table.columns = {NameColumn("scenario"),
                   NumberColumn("concurrency"),
                   NumberColumn("from_tokens"),
                   NumberColumn("to_tokens"),
                   NumberColumn("token_gain_pct", "%"),
                   NumberColumn("time_growth_pct", "%"),
                   NameColumn("pays")};
  for (const LengthPair& pair : LengthPairs(cells_, campaign)) {
    const auto t0 = TokensPerStep(cells_, *pair.fewer), t1 = TokensPerStep(cells_, *pair.more);
    const auto s0 = StepTime(cells_, *pair.fewer), s1 = StepTime(cells_, *pair.more);
    if (!t0 || !t1 || !s0 || !s1 || *t0 <= 0 || *s0 <= 0) continue;
    const double gain = 100 * (*t1 / *t0 - 1), cost = 100 * (*s1 / *s0 - 1);
    const SourceRefs sources = Both(*pair.fewer, *pair.more);
    table.rows.push_back({TextCell(pair.fewer->scenario), NumberCell(pair.fewer->concurrency, 0),
                          NumberCell(cells_.ConfigurationOf(*pair.fewer).spec_tokens, 0),
                          NumberCell(cells_.ConfigurationOf(*pair.more).spec_tokens, 0),
                          NumberCell(gain, 2, sources, true), NumberCell(cost, 2, sources, true),
                          TextCell(Words(gain > cost ? "pays.yes" : "pays.no"), sources)});
  }
  table.notes.push_back(Words("note.marginal"));
  PutTable(std::move(table));
}

void ReportBuilder::Lengths(const std::string& campaign) {
  Table table = NewTable("lengths", campaign);
  table.columns = {NameColumn("scenario"),
                   NumberColumn("concurrency"),
                   NumberColumn("spec_tokens"),
                   MetricColumn(Metric::kOutputThroughput),
                   MetricColumn(Metric::kRequestThroughput),
                   NumberColumn("best_over_this_pct", "%"),
                   NumberColumn("best_by_output"),
                   NumberColumn("best_by_requests"),
                   NumberColumn("choice")};
  std::map<int32_t, double> regret;  // of one fixed length over all levels
  std::map<int32_t, int> levels;
  for (const auto& group : LengthGroups(cells_, campaign)) {
    const auto best_by = [&](Metric metric) -> const CellRuns* {
      const CellRuns* best = nullptr;
      for (const CellRuns* cell : group) {
        const auto value = cells_.Value(*cell, metric);
        if (value && (best == nullptr || *value > *cells_.Value(*best, metric))) best = cell;
      }
      return best;
    };
    const CellRuns* output = best_by(Metric::kOutputThroughput);
    const CellRuns* requests = best_by(Metric::kRequestThroughput);
    if (output == nullptr) continue;
    const double most = *cells_.Value(*output, Metric::kOutputThroughput);
    const CellRuns* choice = nullptr;
    SourceRefs sources;
    for (const CellRuns* cell : group) {
      const auto value = cells_.Value(*cell, Metric::kOutputThroughput);
      sources.insert(sources.end(), cell->runs.begin(), cell->runs.end());
      if (choice == nullptr && value &&
          *value >= (1 - analysis_.options.thresholds.length_tolerance) * most)
        choice = cell;
    }
    const auto tokens = [&](const CellRuns* cell) -> std::optional<double> {
      if (cell == nullptr) return std::nullopt;
      return cells_.ConfigurationOf(*cell).spec_tokens;
    };
    for (const CellRuns* cell : group) {
      const auto value = cells_.Value(*cell, Metric::kOutputThroughput);
      std::optional<double> behind;
      if (value && *value > 0) {
        behind = 100 * (most / *value - 1);
        const int32_t k = cells_.ConfigurationOf(*cell).spec_tokens.value_or(0);
        regret[k] = std::max(regret[k], *behind);
        ++levels[k];
      }
      Cell speed = MetricCell(*cell, Metric::kOutputThroughput);
      if (cell == output) speed.emphasis = Emphasis::kBest;
      table.rows.push_back(
          {TextCell(cell->scenario), NumberCell(cell->concurrency, 0),
           NumberCell(tokens(cell), 0, cell->runs), speed,
           MetricCell(*cell, Metric::kRequestThroughput),
           NumberCell(behind, 2, Both(*cell, *output)), NumberCell(tokens(output), 0, sources),
           NumberCell(tokens(requests), 0, sources), NumberCell(tokens(choice), 0, sources)});
    }
  }
  std::vector<std::string> parts;
  for (const auto& [k, worst] : regret)
    parts.push_back(fmt::format("k={}: {:.1f} % (n={})", k, worst, levels[k]));
  if (!parts.empty())
    table.notes.push_back(Words("note.regret", {fmt::format("{}", fmt::join(parts, ", "))}));
  PutTable(std::move(table));
}

}  // namespace firesteel
