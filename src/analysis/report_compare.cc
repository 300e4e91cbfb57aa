// Who is ahead, by how much, and how sure that is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/report_internal.h"

namespace firesteel {

void ReportBuilder::Winners(const Comparison& comparison) {
  if (comparison.sides.size() < 2) return;
  Table table = NewTable("winners", comparison.campaign);
  table.columns = {NameColumn("scenario"),
                   NumberColumn("concurrency"),
                   NameColumn("winner"),
                   NameColumn("winner_configuration"),
                   NumberColumn("winner_value", "tok/s", Better::kHigher),
                   NameColumn("runner_up"),
                   NumberColumn("runner_up_value", "tok/s", Better::kHigher),
                   NumberColumn("improvement_pct", "%"),
                   NameColumn("interval"),
                   NumberColumn("work_difference_pct", "%"),
                   NameColumn("verdict")};
  std::optional<Metric> metric;
  for (const WinnerCell& cell : comparison.cells) {
    if (cell.runner_up == nullptr) continue;
    metric = cell.metric;
    const bool wins = cell.verdict == Verdict::kWinner;
    const SourceRefs sources = Both(*cell.best, *cell.runner_up);
    const char* verdict = wins                                ? "verdict.winner"
                          : cell.verdict == Verdict::kTie     ? "verdict.tie"
                          : cell.verdict == Verdict::kUnequal ? "verdict.unequal"
                                                              : "verdict.alone";
    Cell best = MetricCell(*cell.best, cell.metric);
    if (wins) best.emphasis = Emphasis::kBest;
    Cell improvement = NumberCell(100 * (cell.ratio.ratio - 1), 2, sources, /*sign=*/false);
    if (!wins)
      improvement.emphasis = cell.verdict == Verdict::kTie ? Emphasis::kTie : Emphasis::kFaded;
    table.rows.push_back(
        {TextCell(cell.scenario), NumberCell(cell.concurrency, 0),
         TextCell(wins ? comparison.side_of.at(cell.best->configuration) : "–", cell.best->runs),
         TextCell(cell.best->configuration, cell.best->runs), best,
         TextCell(cell.runner_up->configuration, cell.runner_up->runs),
         MetricCell(*cell.runner_up, cell.metric), improvement,
         TextCell(fmt::format("{:+.1f} … {:+.1f}", 100 * (cell.ratio.low - 1),
                              100 * (cell.ratio.high - 1)),
                  sources),
         NumberCell(100 * cell.work_difference, 2, sources, /*sign=*/true),
         TextCell(Words(verdict), sources)});
  }
  if (metric)
    table.notes.push_back(Words("note.winners", {"@metric." + std::string(Info(*metric).name)}));
  PutTable(std::move(table));

  Table counts = NewTable("win-counts", comparison.campaign);
  counts.columns = {NameColumn("side"), NumberColumn("points"), NumberColumn("wins"),
                    NumberColumn("ties"), NumberColumn("settings")};
  for (const std::string& side : comparison.sides) {
    int points = 0;
    for (const WinnerCell& cell : comparison.cells) {
      points += BestOfSide(analysis_, comparison, side, cell.scenario, cell.concurrency) != nullptr;
    }
    const long settings = std::count_if(comparison.side_of.begin(), comparison.side_of.end(),
                                        [&](const auto& entry) { return entry.second == side; });
    counts.rows.push_back({TextCell(side), NumberCell(points, 0),
                           NumberCell(comparison.Wins(side), 0), NumberCell(comparison.Ties(), 0),
                           NumberCell(static_cast<double>(settings), 0)});
  }
  counts.notes.push_back(Words("note.weights", {std::to_string(comparison.cells.size())}));
  PutTable(std::move(counts));
}

// For two sides the loser over the winner; for more, each against the baseline.
void ReportBuilder::Ratios(const Comparison& comparison) {
  if (comparison.sides.size() < 2) return;
  Table table = NewTable("ratios", comparison.campaign);
  table.columns = {NameColumn("metric"),           NameColumn("numerator"),
                   NameColumn("denominator"),      NumberColumn("points"),
                   NumberColumn("geometric", "×"), NumberColumn("arithmetic", "×"),
                   NumberColumn("median", "×"),    NumberColumn("min", "×"),
                   NumberColumn("max", "×"),       NumberColumn("below_one")};
  const auto add = [&](const std::string& above, const std::string& below, Metric metric) {
    const auto summary = SummarizeRatios(analysis_, comparison, above, below, metric);
    if (!summary) return;
    const SourceRefs& from = summary->sources;
    Cell name = TextCell(Words(fmt::format("metric.{}", Info(metric).name)), from);
    table.rows.push_back(
        {name, TextCell(above), TextCell(below), NumberCell(summary->count, 0, from),
         NumberCell(summary->geometric, 3, from), NumberCell(summary->arithmetic, 2, from),
         NumberCell(summary->median, 3, from), NumberCell(summary->min, 3, from),
         NumberCell(summary->max, 3, from), NumberCell(summary->below_one, 0, from)});
  };
  constexpr Metric kLatencies[] = {Metric::kMeanE2e, Metric::kMeanTpot, Metric::kMeanTtft,
                                   Metric::kP99E2e,  Metric::kP99Tpot,  Metric::kP99Ttft};
  if (comparison.sides.size() == 2) {
    const bool first = comparison.Wins(comparison.sides[0]) >= comparison.Wins(comparison.sides[1]);
    const std::string& winner = comparison.sides[first ? 0 : 1];
    const std::string& loser = comparison.sides[first ? 1 : 0];
    for (const Metric metric :
         {Metric::kTotalThroughput, Metric::kOutputThroughput, Metric::kRequestThroughput})
      add(winner, loser, metric);
    for (const Metric metric : kLatencies) add(loser, winner, metric);
  } else if (const auto baseline = analysis_.baselines.find(comparison.campaign);
             baseline != analysis_.baselines.end()) {
    const std::string& base = comparison.side_of.at(baseline->second);
    for (const std::string& side : comparison.sides) {
      if (side == base) continue;
      add(side, base, Metric::kOutputThroughput);
      for (const Metric metric : kLatencies) add(base, side, metric);
    }
  }
  table.notes.push_back(Words("note.ratios"));
  PutTable(std::move(table));
}

// Which setting stands for its side, at low and at high load.
void ReportBuilder::SettingsByLoad(const Comparison& comparison) {
  constexpr int32_t kHigh = 32, kLow = 16;
  Table table = NewTable("settings-by-load", comparison.campaign);
  table.columns = {NameColumn("side"), NumberColumn("spec_tokens"), NumberColumn("points_c_le_16"),
                   NumberColumn("points_c_ge_32")};
  for (const std::string& side : comparison.sides) {
    std::map<int32_t, std::array<int, 2>> counts;
    std::map<int32_t, SourceRefs> sources;
    for (const WinnerCell& point : comparison.cells) {
      const CellRuns* cell =
          BestOfSide(analysis_, comparison, side, point.scenario, point.concurrency);
      if (cell == nullptr) continue;
      const auto k = cells_.ConfigurationOf(*cell).spec_tokens;
      if (!k) continue;
      counts[*k][0] += point.concurrency <= kLow ? 1 : 0;
      counts[*k][1] += point.concurrency >= kHigh ? 1 : 0;
      sources[*k].insert(sources[*k].end(), cell->runs.begin(), cell->runs.end());
    }
    if (counts.size() < 2) continue;
    for (const auto& [k, count] : counts) {
      table.rows.push_back({TextCell(side), NumberCell(k, 0), NumberCell(count[0], 0, sources[k]),
                            NumberCell(count[1], 0, sources[k])});
    }
  }
  PutTable(std::move(table));
}

void ReportBuilder::Speedups(const std::string& campaign) {
  Table table = NewTable("speedup", campaign);
  table.columns = {NameColumn("scenario"),
                   NumberColumn("concurrency"),
                   NameColumn("baseline"),
                   NameColumn("configuration"),
                   NumberColumn("spec_tokens"),
                   NumberColumn("output_ratio", "×", Better::kHigher),
                   NameColumn("interval"),
                   NumberColumn("output_change_pct", "%"),
                   NumberColumn("request_ratio", "×"),
                   NameColumn("rounding_interval"),
                   NumberColumn("request_change_pct", "%"),
                   NumberColumn("e2e_ratio", "×"),
                   NumberColumn("ttft_ratio", "×"),
                   NumberColumn("tpot_ratio", "×"),
                   NumberColumn("work_difference_pct", "%")};
  for (const CellRuns& base : cells_.cells()) {
    if (base.campaign != campaign || !cells_.Valid(base)) continue;
    const auto named = analysis_.baselines.find(campaign);
    const bool is_named = named != analysis_.baselines.end() && named->second == base.configuration;
    if (!is_named && !cells_.ConfigurationOf(base).IsBaseline()) continue;
    for (const CellRuns* cell : cells_.CellsOf(campaign, base.scenario, base.concurrency)) {
      if (cell == &base || !cells_.Valid(*cell)) continue;
      const auto output = cells_.Compare(*cell, base, Metric::kOutputThroughput);
      const auto requests = cells_.Compare(*cell, base, Metric::kRequestThroughput);
      if (!output && !requests) continue;
      const SourceRefs sources = Both(*cell, base);
      std::optional<double> work, output_change, request_change;
      const auto ours = cells_.OutputPerRequest(*cell), theirs = cells_.OutputPerRequest(base);
      if (ours && theirs && *theirs > 0) work = 100 * (*ours / *theirs - 1);
      if (output) output_change = 100 * (output->ratio - 1);
      if (requests) request_change = 100 * (requests->ratio - 1);
      const double allowance = RoundingAllowance(cells_, *cell, base, Metric::kRequestThroughput);
      Cell request =
          NumberCell(requests ? std::optional(requests->ratio) : std::nullopt, 2, sources);
      const bool unequal =
          work && std::abs(*work) > 100 * analysis_.options.thresholds.unequal_work;
      if (unequal) request.emphasis = Emphasis::kFaded;
      table.rows.push_back(
          {TextCell(base.scenario), NumberCell(base.concurrency, 0), TextCell(base.configuration),
           TextCell(cell->configuration, cell->runs),
           NumberCell(cells_.ConfigurationOf(*cell).spec_tokens, 0),
           RatioCell(*cell, base, Metric::kOutputThroughput),
           TextCell(output ? fmt::format("{:.3f} … {:.3f}", output->low, output->high) : "–",
                    sources),
           NumberCell(output_change, 2, sources, true), request,
           TextCell(requests ? fmt::format("{:.2f} … {:.2f}", requests->ratio * (1 - allowance),
                                           requests->ratio * (1 + allowance))
                             : "–",
                    sources),
           NumberCell(request_change, 2, sources, true), RatioCell(base, *cell, Metric::kMeanE2e),
           RatioCell(base, *cell, Metric::kMeanTtft), RatioCell(base, *cell, Metric::kMeanTpot),
           NumberCell(work, 2, sources, true)});
    }
  }
  table.notes.push_back(Words("note.speedup"));
  PutTable(std::move(table));
}

void ReportBuilder::Replicates() {
  Table table = NewTable("replicates", "");
  table.columns = {
      NameColumn("kind"),          NameColumn("configuration"),  NumberColumn("concurrency"),
      NameColumn("first"),         NameColumn("second"),         NameColumn("metric"),
      NumberColumn("first_value"), NumberColumn("second_value"), NumberColumn("change_pct", "%")};
  const auto add = [&](const char* kind, const ReplicatePair& pair, const std::string& first,
                       const std::string& second) {
    table.rows.push_back({TextCell(Words(kind)), TextCell(pair.first->configuration),
                          NumberCell(pair.first->concurrency, 0), TextCell(first, pair.first->runs),
                          TextCell(second, pair.second->runs),
                          TextCell(Words(fmt::format("metric.{}", Info(pair.metric).name))),
                          MetricCell(*pair.first, pair.metric),
                          MetricCell(*pair.second, pair.metric),
                          NumberCell(100 * pair.change, 2, Both(*pair.first, *pair.second), true)});
  };
  for (const Campaign& campaign : results_.campaigns) {
    for (const ReplicatePair& pair : ImplicitReplicates(cells_, campaign.id))
      add("replicate.equal_work", pair, pair.first->scenario, pair.second->scenario);
  }
  for (const ReplicatePair& pair : CrossCampaignPairs(results_, cells_)) {
    add("replicate.campaigns", pair,
        fmt::format("{}: {}", pair.first->campaign, pair.first->scenario),
        fmt::format("{}: {}", pair.second->campaign, pair.second->scenario));
  }
  PutTable(std::move(table));
}

// One method with different settings, over campaigns and quoted figures.
void ReportBuilder::Across() {
  Table table = NewTable("across", "");
  table.columns = {NameColumn("scenario"),       NumberColumn("concurrency"),
                   NameColumn("metric"),         NameColumn("first"),
                   NumberColumn("first_value"),  NameColumn("second"),
                   NumberColumn("second_value"), NumberColumn("change_pct", "%")};
  const std::vector<Run>& runs = results_.runs;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t j = 0; j < runs.size(); ++j) {
      const Configuration &a = runs[i].configuration, &b = runs[j].configuration;
      if (!runs[i].quoted || runs[j].quoted || runs[i].scenario != runs[j].scenario ||
          runs[i].concurrency != runs[j].concurrency || runs[i].campaign == runs[j].campaign ||
          a.engine != b.engine || a.method != b.method)
        continue;
      // Where the very setting was measured, other settings are no news.
      const bool has_equal = std::any_of(runs.begin(), runs.end(), [&](const firesteel::Run& run) {
        return !run.quoted && run.campaign != runs[i].campaign &&
               run.scenario == runs[i].scenario && run.concurrency == runs[i].concurrency &&
               run.configuration.engine == a.engine && run.configuration.method == a.method &&
               run.configuration.spec_tokens == a.spec_tokens;
      });
      if (has_equal && a.spec_tokens != b.spec_tokens) continue;
      for (const MetricInfo& info : AllMetrics()) {
        const auto x = runs[i].measures.Get(info.metric), y = runs[j].measures.Get(info.metric);
        if (!x || !y || *x <= 0) continue;
        const SourceRefs from = {static_cast<int32_t>(i), static_cast<int32_t>(j)};
        table.rows.push_back({TextCell(runs[i].scenario), NumberCell(runs[i].concurrency, 0),
                              TextCell(Words(fmt::format("metric.{}", info.name))),
                              TextCell(fmt::format("{} ({})", a.name, Words("quoted")), {from[0]}),
                              NumberCell(*x, 2, {from[0]}), TextCell(b.name, {from[1]}),
                              NumberCell(*y, 2, {from[1]}),
                              NumberCell(100 * (*y / *x - 1), 2, from, true)});
      }
    }
  }
  PutTable(std::move(table));
}

}  // namespace firesteel
