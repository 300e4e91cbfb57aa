// Runs that should agree, and statements that should hold.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

bool SameMethod(const Configuration& a, const Configuration& b) {
  return a.engine == b.engine && a.method == b.method && a.spec_tokens == b.spec_tokens;
}

bool EqualWork(const CellTable& cells, const CellRuns& a, const CellRuns& b) {
  const RunWork& x = cells.First(a).work;
  const RunWork& y = cells.First(b).work;
  if (!x.fingerprint.empty() || !y.fingerprint.empty()) return x.fingerprint == y.fingerprint;
  const auto ours = ReproduceLengths(x), theirs = ReproduceLengths(y);
  return ours && theirs && ours->seed == theirs->seed && ours->input == theirs->input &&
         ours->output == theirs->output;
}

}  // namespace

std::vector<ReplicatePair> ImplicitReplicates(const CellTable& cells, const std::string& campaign) {
  std::vector<ReplicatePair> pairs;
  const std::vector<CellRuns>& all = cells.cells();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].campaign != campaign) continue;
    for (size_t j = i + 1; j < all.size(); ++j) {
      const CellRuns &a = all[i], &b = all[j];
      if (b.campaign != campaign || b.configuration != a.configuration ||
          b.concurrency != a.concurrency || b.scenario == a.scenario || !EqualWork(cells, a, b))
        continue;
      const auto metric = cells.CommonThroughput({&a, &b});
      if (!metric || *cells.Value(a, *metric) <= 0) continue;
      pairs.push_back({&a, &b, *metric, *cells.Value(b, *metric) / *cells.Value(a, *metric) - 1});
    }
  }
  return pairs;
}

std::vector<ReplicatePair> CrossCampaignPairs(const Results& results, const CellTable& cells) {
  std::vector<ReplicatePair> pairs;
  const auto order = [&](const std::string& campaign) {
    const auto at = std::find_if(results.campaigns.begin(), results.campaigns.end(),
                                 [&](const Campaign& c) { return c.id == campaign; });
    return at - results.campaigns.begin();
  };
  for (const CellRuns& a : cells.cells()) {
    for (const CellRuns& b : cells.cells()) {
      if (order(a.campaign) >= order(b.campaign) || a.scenario != b.scenario ||
          a.concurrency != b.concurrency ||
          !SameMethod(cells.ConfigurationOf(a), cells.ConfigurationOf(b)))
        continue;
      for (const Metric metric : {Metric::kTotalThroughput, Metric::kOutputThroughput,
                                  Metric::kRequestThroughput, Metric::kMeanE2e}) {
        const auto x = cells.Value(a, metric), y = cells.Value(b, metric);
        if (!x || !y || *x <= 0) continue;
        pairs.push_back({&a, &b, metric, *y / *x - 1});
        break;
      }
    }
  }
  return pairs;
}

void Rules::Replicates(const std::string& campaign) {
  for (const ReplicatePair& pair : ImplicitReplicates(cells_, campaign)) {
    if (std::abs(pair.change) <= limits_.replicate_noise) continue;
    Hit& hit = Add("REPLICATE_NOISE", *pair.first, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.scenario = pair.first->scenario + "=" + pair.second->scenario;
    hit.Number("difference_pct", 100 * std::abs(pair.change), 2, "%");
    hit.Number("first", *cells_.Value(*pair.first, pair.metric), 2, Info(pair.metric).unit);
    hit.Number("second", *cells_.Value(*pair.second, pair.metric), 2, Info(pair.metric).unit);
    hit.arguments = {pair.first->scenario, pair.second->scenario,
                     fmt::format("@metric.{}", Info(pair.metric).name), Percent(pair.change)};
    hit.sources.insert(hit.sources.end(), pair.second->runs.begin(), pair.second->runs.end());
  }
}

// The same method in two campaigns: other warm-up, other day.
void Rules::Drift() {
  std::vector<std::string> parts;
  std::vector<int32_t> sources;
  double low = 0, high = 0;
  for (const ReplicatePair& pair : CrossCampaignPairs(*analysis_.results, cells_)) {
    parts.push_back(fmt::format("{} {}: {}", pair.first->configuration, CellName(*pair.first),
                                Percent(pair.change, 2)));
    low = std::min(low, pair.change);
    high = std::max(high, pair.change);
    for (const CellRuns* cell : {pair.first, pair.second})
      sources.insert(sources.end(), cell->runs.begin(), cell->runs.end());
  }
  if (std::max(-low, high) <= limits_.replicate_noise) return;
  Hit& hit = AddForCampaign("CROSS_REPORT_DRIFT", "", Severity::kNote, Confidence::kMedium);
  hit.grade = "note";
  hit.Text("changes", fmt::format("{}", fmt::join(parts, "; ")));
  hit.arguments = {Percent(low, 2), Percent(high, 2)};
  hit.sources = sources;
}

// Figures copied from another report, against the runs they were copied from.
void Rules::QuotedFigures() {
  const Results& results = *analysis_.results;
  for (const Campaign& campaign : results.campaigns) {
    std::vector<std::string> parts;
    std::vector<int32_t> sources;
    for (size_t i = 0; i < results.runs.size(); ++i) {
      const Run& quoted = results.runs[i];
      if (!quoted.quoted || quoted.campaign != campaign.id) continue;
      for (size_t j = 0; j < results.runs.size(); ++j) {
        const Run& run = results.runs[j];
        if (run.quoted || run.scenario != quoted.scenario ||
            run.concurrency != quoted.concurrency || run.campaign == campaign.id ||
            !SameMethod(run.configuration, quoted.configuration))
          continue;
        for (const MetricInfo& info : AllMetrics()) {
          const auto said = quoted.measures.Get(info.metric);
          const auto was = run.measures.Get(info.metric);
          if (!said || !was || *said == *was) continue;
          parts.push_back(fmt::format("{} {:g} / {:.2f} ({})", info.name, *said, *was, run.id));
          sources.push_back(static_cast<int32_t>(i));
          sources.push_back(static_cast<int32_t>(j));
        }
      }
    }
    if (parts.empty()) continue;
    Hit& hit = AddForCampaign("QUOTED_FIGURE", campaign.id, Severity::kNote, Confidence::kHigh);
    hit.grade = "note";
    hit.Text("quoted_and_measured", fmt::format("{}", fmt::join(parts, "; ")));
    hit.arguments = {fmt::format("{}", fmt::join(parts, "; "))};
    hit.sources = sources;
  }
}

// A figure in prose that no run of the report has.
void Rules::ClaimsWithoutData() {
  for (const Claim& claim : analysis_.results->claims) {
    if (claim.what != "text" || !claim.metric || !claim.value) continue;
    if (!claim.scenario.empty() && claim.concurrency > 0) continue;  // kept as a quoted run
    bool measured = false;
    std::vector<const CellRuns*> related;
    for (const CellRuns& cell : cells_.cells()) {
      const Configuration& configuration = cells_.ConfigurationOf(cell);
      if (cell.campaign != claim.campaign || configuration.method != claim.configuration) continue;
      if (claim.spec_tokens && configuration.spec_tokens != claim.spec_tokens) continue;
      if (claim.concurrency > 0 && cell.concurrency != claim.concurrency) continue;
      measured |= cells_.Value(cell, *claim.metric).has_value();
      related.push_back(&cell);
    }
    if (measured) continue;
    Hit& hit =
        AddForCampaign("CLAIM_WITHOUT_DATA", claim.campaign, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.configuration = claim.configuration;
    hit.concurrency = claim.concurrency;
    hit.Text("metric", fmt::format("@metric.{}", Info(*claim.metric).name));
    hit.Number("stated", *claim.value, 2, Info(*claim.metric).unit);
    for (const CellRuns* cell : related) {
      hit.sources.insert(hit.sources.end(), cell->runs.begin(), cell->runs.end());
      const auto mean = cells_.Value(*cell, Metric::kMeanTtft);
      if (*claim.metric == Metric::kP99Ttft && mean && claim.concurrency > 0)
        hit.Number("over_mean_ttft", *claim.value / *mean, 2, "×");
    }
    const auto drafted =
        related.empty() ? std::nullopt : cells_.ConfigurationOf(*related.front()).spec_tokens;
    if (*claim.metric == Metric::kAcceptLength && drafted && *drafted > 0)
      hit.Number("implied_rate_pct", 100 * (*claim.value - 1) / *drafted, 1, "%");
    hit.arguments = {fmt::format("@metric.{}", Info(*claim.metric).name),
                     fmt::format("{:g}", *claim.value), claim.configuration};
  }
}

void Rules::VoidRuns() {
  for (const Campaign& campaign : analysis_.results->campaigns) {
    std::vector<std::string> parts;
    std::vector<int32_t> sources;
    for (size_t i = 0; i < analysis_.results->runs.size(); ++i) {
      const Run& run = analysis_.results->runs[i];
      if (run.valid() || run.campaign != campaign.id) continue;
      parts.push_back(fmt::format("{} ({} {}@{}): {}", run.id, run.configuration.name, run.scenario,
                                  run.concurrency, fmt::join(run.void_reasons, ", ")));
      sources.push_back(static_cast<int32_t>(i));
    }
    if (parts.empty()) continue;
    Hit& hit = AddForCampaign("VOID_RUNS", campaign.id, Severity::kSevere, Confidence::kHigh);
    hit.grade = "severe";
    hit.Number("runs", static_cast<double>(parts.size()), 0);
    hit.Text("reasons", fmt::format("{}", fmt::join(parts, "; ")));
    hit.arguments = {std::to_string(parts.size()), fmt::format("{}", fmt::join(parts, "; "))};
    hit.sources = sources;
  }
}

// Figures of one run that must fit together.
void Rules::Identities(const CellRuns& cell) {
  constexpr double kLengthTolerance = 0.015;
  constexpr double kRatioTolerance = 0.10;
  const auto length = cells_.Value(cell, Metric::kAcceptLength);
  const auto rate = cells_.Value(cell, Metric::kAcceptRate);
  const auto k = cells_.ConfigurationOf(cell).spec_tokens;
  std::string what;
  double told = 0, follows = 0;
  if (length && rate && k && *k > 0 && !cells_.First(cell).tokens_per_draft) {
    follows = 1 + *k * *rate / 100;
    told = *length;
    if (std::abs(told - follows) > kLengthTolerance) what = "1 + k·rate";
  }
  const auto itl = cells_.Value(cell, Metric::kMeanItl);
  const auto tpot = cells_.Value(cell, Metric::kMeanTpot);
  if (what.empty() && length && itl && tpot && *tpot > 0 &&
      *itl / *tpot > limits_.chunked_itl_ratio &&
      std::abs(*itl / *tpot / *length - 1) > kRatioTolerance) {
    what = "ITL / TPOT";
    told = *length;
    follows = *itl / *tpot;
  }
  if (what.empty()) return;
  Hit& hit = Add("SELF_CHECK", cell, Severity::kNote, Confidence::kMedium);
  hit.grade = "note";
  hit.Text("identity", what).Number("told", told, 3).Number("follows", follows, 3);
  hit.arguments = {what, Fixed(follows, 3), Fixed(told, 3)};
}

}  // namespace firesteel
