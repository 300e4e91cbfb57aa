// What is odd, what to do about it, and what this report cannot say.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "analysis/report_internal.h"

namespace firesteel {
namespace {

const char* SeverityKey(Severity severity) {
  return severity == Severity::kSevere    ? "severity.severe"
         : severity == Severity::kWarning ? "severity.warning"
                                          : "severity.note";
}

const char* ConfidenceKey(Confidence confidence) {
  return confidence == Confidence::kHigh     ? "confidence.high"
         : confidence == Confidence::kMedium ? "confidence.medium"
                                             : "confidence.low";
}

}  // namespace

// Figures of one cell that must fit together, or tell what the latency is made of.
void ReportBuilder::Checks(const std::string& campaign) {
  Table table = NewTable("checks", campaign);
  table.columns = {NameColumn("scenario"),
                   NumberColumn("concurrency"),
                   NameColumn("configuration"),
                   NumberColumn("in_flight"),
                   NumberColumn("p99_over_mean_e2e", "×"),
                   NumberColumn("length_spread", "×"),
                   NumberColumn("p99_over_mean_ttft", "×"),
                   NumberColumn("ttft_share"),
                   NumberColumn("itl_over_tpot", "×"),
                   NumberColumn("out_per_request", "tok"),
                   NameColumn("ids")};
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign || !cells_.Valid(cell)) continue;
    const auto ratio = [&](Metric a, Metric b) -> std::optional<double> {
      const auto x = cells_.Value(cell, a), y = cells_.Value(cell, b);
      if (!x || !y || *y <= 0) return std::nullopt;
      return *x / *y;
    };
    std::optional<double> in_flight;
    const auto rate = cells_.Value(cell, Metric::kRequestThroughput);
    const auto e2e = cells_.Value(cell, Metric::kMeanE2e);
    if (rate && e2e) in_flight = *rate * *e2e / 1000;
    const auto tail = ratio(Metric::kP99E2e, Metric::kMeanE2e);
    const auto spread = tail ? cells_.LengthSpread(cell) : std::nullopt;
    std::vector<std::string> ids;
    for (const int32_t run : cell.runs) ids.push_back(results_.runs[run].id);
    table.rows.push_back({TextCell(cell.scenario), NumberCell(cell.concurrency, 0),
                          TextCell(cell.configuration, cell.runs),
                          NumberCell(in_flight, 2, cell.runs), NumberCell(tail, 2, cell.runs),
                          NumberCell(spread, 2, cell.runs),
                          NumberCell(ratio(Metric::kP99Ttft, Metric::kMeanTtft), 2, cell.runs),
                          NumberCell(ratio(Metric::kMeanTtft, Metric::kMeanE2e), 3, cell.runs),
                          NumberCell(ratio(Metric::kMeanItl, Metric::kMeanTpot), 3, cell.runs),
                          NumberCell(cells_.OutputPerRequest(cell), 1, cell.runs),
                          TextCell(fmt::format("{}", fmt::join(ids, ", ")), cell.runs)});
  }
  table.notes.push_back(Words("note.checks"));
  PutTable(std::move(table));
}

void ReportBuilder::LevelSteps(const std::string& campaign) {
  Table table = NewTable("levels", campaign);
  table.columns = {NameColumn("scenario"),
                   NameColumn("configuration"),
                   NumberColumn("from_level"),
                   NumberColumn("to_level"),
                   NameColumn("metric"),
                   NumberColumn("change_pct", "%"),
                   NumberColumn("elasticity"),
                   NumberColumn("tpot_change_pct", "%"),
                   NumberColumn("tpot_elasticity"),
                   NumberColumn("ttft_fall", "×")};
  for (const LevelSeries& series : cells_.Series(campaign)) {
    const auto metric = cells_.CommonThroughput(series.levels);
    for (size_t i = 0; i + 1 < series.levels.size(); ++i) {
      const CellRuns &from = *series.levels[i], &to = *series.levels[i + 1];
      const double load = std::log(static_cast<double>(to.concurrency) / from.concurrency);
      const auto ratio = [&](Metric which) -> std::optional<double> {
        const auto a = cells_.Value(from, which), b = cells_.Value(to, which);
        if (!a || !b || *a <= 0 || *b <= 0) return std::nullopt;
        return *b / *a;
      };
      const auto speed = metric ? ratio(*metric) : std::nullopt;
      const auto tpot = ratio(Metric::kMeanTpot);
      const auto ttft = ratio(Metric::kMeanTtft);
      const auto change = [](const std::optional<double>& r) {
        return r ? std::optional(100 * (*r - 1)) : std::nullopt;
      };
      const auto elasticity = [&](const std::optional<double>& r) {
        return r ? std::optional(std::log(*r) / load) : std::nullopt;
      };
      if (!speed && !tpot && !ttft) continue;
      const SourceRefs sources = Both(from, to);
      table.rows.push_back(
          {TextCell(series.scenario), TextCell(series.configuration, sources),
           NumberCell(from.concurrency, 0), NumberCell(to.concurrency, 0),
           TextCell(metric ? Words(fmt::format("metric.{}", Info(*metric).name)) : "–"),
           NumberCell(change(speed), 2, sources, true), NumberCell(elasticity(speed), 3, sources),
           NumberCell(change(tpot), 1, sources, true), NumberCell(elasticity(tpot), 3, sources),
           NumberCell(ttft ? std::optional(1 / *ttft) : std::nullopt, 2, sources)});
    }
  }
  table.notes.push_back(Words("note.levels"));
  PutTable(std::move(table));
}

void ReportBuilder::Cliffs(const std::string& campaign) {
  Table table = NewTable("cliffs", campaign);
  table.columns = {NameColumn("scenario"),
                   NameColumn("configuration"),
                   NumberColumn("from_level"),
                   NumberColumn("to_level"),
                   NumberColumn("change_pct", "%"),
                   NumberColumn("recovered_at"),
                   NumberColumn("recovered_ratio", "×"),
                   NameColumn("grade")};
  for (const Hit& hit : analysis_.hits) {
    if (hit.rule != "CLIFF" || hit.campaign != campaign) continue;
    const auto figure = [&](const char* key, int decimals, bool sign = false) {
      const EvidenceItem* item = hit.Find(key);
      return NumberCell(item != nullptr ? item->value : std::nullopt, decimals, hit.sources, sign);
    };
    table.rows.push_back({TextCell(hit.scenario), TextCell(hit.configuration, hit.sources),
                          figure("from_level", 0), NumberCell(hit.concurrency, 0),
                          figure("change_pct", 2, true), figure("recovered_at", 0),
                          figure("recovered_ratio", 4), TextCell(Words("grade." + hit.grade))});
  }
  PutTable(std::move(table));
}

Finding ReportBuilder::FindingOf(const Hit& hit, size_t number) const {
  std::vector<std::string> where;
  if (!hit.scenario.empty()) where.push_back(hit.scenario);
  if (!hit.configuration.empty()) where.push_back(hit.configuration);
  if (hit.concurrency > 0) where.push_back(fmt::format("c={}", hit.concurrency));
  if (where.empty()) where.push_back(hit.campaign.empty() ? Words("all_results") : hit.campaign);
  std::vector<std::string> arguments = {fmt::format("{}", fmt::join(where, ", "))};
  arguments.insert(arguments.end(), hit.arguments.begin(), hit.arguments.end());
  const std::string key = hit.variant.empty() ? hit.rule : hit.rule + "." + hit.variant;
  Finding finding;
  finding.id = fmt::format("F{}", number + 1);
  finding.rule = hit.rule;
  finding.grade = hit.grade;
  finding.severity = hit.severity;
  finding.confidence = hit.confidence;
  finding.campaign = hit.campaign;
  finding.scenario = hit.scenario;
  finding.configuration = hit.configuration;
  finding.concurrency = hit.concurrency;
  finding.headline = Words("rule." + key, arguments);
  finding.meaning = Words("meaning." + key, arguments);
  for (const EvidenceItem& item : hit.evidence) {
    Cell figure = NumberCell(item.value, item.decimals, hit.sources);
    if (!item.value) figure = TextCell(Resolve({item.text}).front(), hit.sources);
    finding.evidence.push_back({item.key, Words("evidence." + item.key), figure, item.unit});
  }
  for (const std::string& why : hit.alternatives) finding.alternatives.push_back(Words(why));
  finding.sources = hit.sources;
  return finding;
}

void ReportBuilder::Findings() {
  Table table = NewTable("findings", "");
  table.columns = {NameColumn("finding"),       NameColumn("rule"),     NameColumn("grade"),
                   NameColumn("campaign"),      NameColumn("scenario"), NameColumn("configuration"),
                   NumberColumn("concurrency"), NameColumn("severity"), NameColumn("confidence"),
                   NameColumn("headline")};
  for (size_t i = 0; i < analysis_.hits.size(); ++i) {
    const Hit& hit = analysis_.hits[i];
    const Finding finding = FindingOf(hit, i);
    table.rows.push_back(
        {TextCell(finding.id), TextCell(hit.rule), TextCell(Words("grade." + hit.grade)),
         TextCell(hit.campaign), TextCell(hit.scenario), TextCell(hit.configuration),
         NumberCell(hit.concurrency > 0 ? std::optional<double>(hit.concurrency) : std::nullopt, 0),
         TextCell(Words(SeverityKey(hit.severity))), TextCell(Words(ConfidenceKey(hit.confidence))),
         TextCell(finding.headline, hit.sources)});
  }
  PutTable(std::move(table));
  // Severe ones first; notes stand in the table alone, except those about a whole campaign.
  for (const Severity severity : {Severity::kSevere, Severity::kWarning, Severity::kNote}) {
    for (size_t i = 0; i < analysis_.hits.size(); ++i) {
      const Hit& hit = analysis_.hits[i];
      const bool shown = severity != Severity::kNote || hit.concurrency == 0;
      if (hit.severity == severity && shown) Put(FindingOf(hit, i));
    }
  }
}

void ReportBuilder::Recommendations() {
  for (size_t i = 0; i < analysis_.recommendations.size(); ++i) {
    const Recommendation& made = analysis_.recommendations[i];
    Advice advice;
    advice.id = fmt::format("A{}", i + 1);
    advice.priority = made.priority;
    advice.action = Words("advice." + made.key + ".action", made.arguments);
    advice.effect = Words("advice." + made.key + ".effect", made.arguments);
    advice.experiment = Words("advice." + made.key + ".experiment", made.arguments);
    for (const size_t hit : made.hits) advice.findings.push_back(fmt::format("F{}", hit + 1));
    Put(std::move(advice));
  }
}

void ReportBuilder::Claims() {
  Table table = NewTable("claims", "");
  table.columns = {NameColumn("campaign"),      NameColumn("statement"),     NameColumn("scenario"),
                   NumberColumn("concurrency"), NameColumn("configuration"), NumberColumn("stated"),
                   NumberColumn("computed"),    NameColumn("holds")};
  for (const CheckedClaim& checked : CheckClaims(analysis_)) {
    const Claim& claim = *checked.claim;
    std::string configuration = claim.configuration;
    if (claim.spec_tokens) configuration += fmt::format(" k={}", *claim.spec_tokens);
    const std::string what =
        claim.baseline.empty() ? claim.what : fmt::format("{} ({})", claim.what, claim.baseline);
    Cell verdict = TextCell(Words(checked.holds() ? "claim.holds" : "claim.fails"));
    if (!checked.holds()) verdict.emphasis = Emphasis::kWorse;
    const auto level =
        claim.concurrency > 0 ? std::optional<double>(claim.concurrency) : std::nullopt;
    table.rows.push_back(
        {TextCell(claim.campaign), TextCell(what), TextCell(claim.scenario), NumberCell(level, 0),
         TextCell(configuration), NumberCell(claim.value, checked.decimals),
         NumberCell(checked.computed, checked.decimals, checked.sources), verdict});
  }
  if (!table.rows.empty()) table.notes.push_back(Words("note.claims"));
  PutTable(std::move(table));
}

void ReportBuilder::Limits() {
  BulletList list;
  for (const char* key : {"limit.measured_only", "limit.noise", "limit.percentiles"})
    list.items.push_back(Words(key));
  constexpr double kUsualWindow = 30;  // s, of a grid
  for (const Campaign& campaign : results_.campaigns) {
    const auto window = campaign.facts.find("min_window_s");
    if (window != campaign.facts.end() &&
        std::strtod(window->second.c_str(), nullptr) < kUsualWindow)
      list.items.push_back(Words("limit.window", {window->second}));
    const auto lag = campaign.facts.find("max_client_lag_ms");
    if (lag != campaign.facts.end() && lag->second != "1")
      list.items.push_back(Words("limit.override", {lag->first, lag->second, "1"}));
  }
  for (const ThresholdOverride& changed : Overrides(analysis_.options.thresholds)) {
    list.items.push_back(Words("limit.override", {changed.name, fmt::format("{:g}", changed.value),
                                                  fmt::format("{:g}", changed.standard)}));
  }
  Put(std::move(list));
  Table runs = NewTable("runs", "");
  runs.columns = {NameColumn("run"),           NameColumn("campaign"),      NameColumn("scenario"),
                  NameColumn("configuration"), NumberColumn("concurrency"), NumberColumn("repeat"),
                  NameColumn("origins"),       NameColumn("notes")};
  for (size_t i = 0; i < results_.runs.size(); ++i) {
    const Run& run = results_.runs[i];
    std::vector<std::string> origins, notes = run.notes;
    for (const RunOrigin& origin : run.origins) {
      origins.push_back(origin.line > 0 ? fmt::format("{}:{}", origin.file, origin.line)
                                        : origin.file);
    }
    for (const std::string& reason : run.void_reasons) notes.push_back(reason);
    if (run.quoted) notes.push_back(Words("quoted"));
    const SourceRefs own = {static_cast<int32_t>(i)};
    Cell id = TextCell(run.id, own);
    if (!run.valid()) id.emphasis = Emphasis::kVoid;
    runs.rows.push_back({id, TextCell(run.campaign), TextCell(run.scenario),
                         TextCell(run.configuration.name), NumberCell(run.concurrency, 0),
                         NumberCell(run.repeat, 0),
                         TextCell(fmt::format("{}", fmt::join(origins, ", "))),
                         TextCell(fmt::format("{}", fmt::join(notes, "; ")))});
  }
  PutTable(std::move(runs));
  Table thresholds = NewTable("thresholds", "");
  thresholds.columns = {NameColumn("threshold"), NumberColumn("value")};
  for (const ThresholdInfo& info : AllThresholds()) {
    thresholds.rows.push_back(
        {TextCell(info.name), NumberCell(analysis_.options.thresholds.*info.value, 2)});
  }
  PutTable(std::move(thresholds));
  BulletList log;
  for (const std::string& line : results_.log) log.items.push_back(line);
  if (!log.items.empty()) {
    Say("limits.import");
    Put(std::move(log));
  }
}

}  // namespace firesteel
