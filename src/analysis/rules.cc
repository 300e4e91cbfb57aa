#include <fmt/format.h>

#include "analysis/rules_internal.h"

namespace firesteel {

std::string CellName(const CellRuns& cell) {
  return cell.concurrency > 0 ? fmt::format("{}@{}", cell.scenario, cell.concurrency)
                              : cell.scenario;
}

std::string Fixed(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

std::string Percent(double share, int decimals) {
  return fmt::format("{:+.{}f} %", 100 * share, decimals);
}

Hit& Rules::Add(const char* rule, const CellRuns& cell, Severity severity, Confidence confidence) {
  Hit hit;
  hit.rule = rule;
  hit.severity = severity;
  hit.confidence = confidence;
  hit.campaign = cell.campaign;
  hit.scenario = cell.scenario;
  hit.configuration = cell.configuration;
  hit.concurrency = cell.concurrency;
  hit.sources = cell.runs;
  analysis_.hits.push_back(std::move(hit));
  return analysis_.hits.back();
}

Hit& Rules::AddForCampaign(const char* rule, const std::string& campaign, Severity severity,
                           Confidence confidence) {
  Hit hit;
  hit.rule = rule;
  hit.severity = severity;
  hit.confidence = confidence;
  hit.campaign = campaign;
  analysis_.hits.push_back(std::move(hit));
  return analysis_.hits.back();
}

void Rules::ApplyAll() {
  VoidRuns();
  for (const Comparison& comparison : analysis_.comparisons) {
    const std::string& campaign = comparison.campaign;
    for (const LevelSeries& series : cells_.Series(campaign)) {
      for (const CellRuns* cell : series.levels) {
        Tail(*cell);
        Jitter(*cell);
        ChunkedItl(*cell);
        FewRequests(*cell);
        Identities(*cell);
      }
      ColdStart(series);
      TpotGrowth(series);
      Throughput(series);
      Knee(series);
    }
    TailsOutside(campaign);
    UnequalWork(campaign);
    UnequalCounts(campaign);
    LengthBounds(campaign);
    LevelsDiffer(campaign);
    RepeatedPrompts(campaign);
    EarlyEnd(campaign);
    MixedUnits(campaign);
    NotCounted(campaign);
    Replicates(campaign);
    Winners(comparison);
    BestOfSettings(comparison);
    LoserBetter(comparison);
    BaselineSaturated(campaign);
    SpecLoss(campaign);
    RateFalls(campaign);
    LengthChoice(campaign);
    ShorterAnswers(campaign);
    AheadOnAll(campaign);
    StepJump(campaign);
    ModelMismatch(campaign);
    NotMonotone(campaign);
  }
  Drift();
  for (const Comparison& comparison : analysis_.comparisons) BaselineHealth(comparison);
  QuotedFigures();
  ClaimsWithoutData();
}

}  // namespace firesteel
