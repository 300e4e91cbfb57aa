// The rules. Each looks at one campaign, or at all of them, and adds what it finds.
#pragma once

#include <string>
#include <vector>

#include "analysis/analysis.h"

namespace firesteel {

class Rules {
 public:
  explicit Rules(Analysis* analysis)
      : analysis_(*analysis), cells_(*analysis->cells), limits_(analysis->options.thresholds) {}

  void ApplyAll();

 private:
  // One cell, or one campaign; the hit is added at once.
  Hit& Add(const char* rule, const CellRuns& cell, Severity severity, Confidence confidence);
  Hit& AddForCampaign(const char* rule, const std::string& campaign, Severity severity,
                      Confidence confidence);

  // rules_levels.cc: along the levels of one series.
  void ColdStart(const LevelSeries& series);
  void TpotGrowth(const LevelSeries& series);
  void Throughput(const LevelSeries& series);
  void Cliff(const LevelSeries& series, size_t at, Metric metric, double change);
  void Knee(const LevelSeries& series);
  void ColdStartEvidence(const CellRuns& cell, Hit* hit);

  // rules_cells.cc: within one cell.
  bool HasFewRequests(const CellRuns& cell) const;
  void Tail(const CellRuns& cell);
  void Jitter(const CellRuns& cell);
  void ChunkedItl(const CellRuns& cell);
  void FewRequests(const CellRuns& cell);
  void TailsOutside(const std::string& campaign);

  // rules_work.cc: what the requests were.
  void UnequalWork(const std::string& campaign);
  void UnequalCounts(const std::string& campaign);
  void LengthBounds(const std::string& campaign);
  void LevelsDiffer(const std::string& campaign);
  void RepeatedPrompts(const std::string& campaign);
  void EarlyEnd(const std::string& campaign);
  void MixedUnits(const std::string& campaign);
  void NotCounted(const std::string& campaign);

  // rules_compare.cc: configurations against each other.
  void Winners(const Comparison& comparison);
  void BestOfSettings(const Comparison& comparison);
  void LoserBetter(const Comparison& comparison);
  void BaselineSaturated(const std::string& campaign);
  void BaselineHealth(const Comparison& comparison);
  void SpecLoss(const std::string& campaign);

  // rules_lengths.cc: numbers of drafted tokens against each other.
  void RateFalls(const std::string& campaign);
  void LengthChoice(const std::string& campaign);
  void ShorterAnswers(const std::string& campaign);
  void AheadOnAll(const std::string& campaign);
  void StepJump(const std::string& campaign);
  void ModelMismatch(const std::string& campaign);
  void NotMonotone(const std::string& campaign);

  // rules_repeats.cc: runs that should agree, and claims that should hold.
  void Replicates(const std::string& campaign);
  void Drift();
  void QuotedFigures();
  void ClaimsWithoutData();
  void VoidRuns();
  void Identities(const CellRuns& cell);

  Analysis& analysis_;
  const CellTable& cells_;
  const Thresholds& limits_;
};

// Sides and winners of a campaign.
Comparison CompareSides(const CellTable& cells, const std::string& campaign,
                        const Thresholds& limits);

// Pairs of cells that differ in the number of drafted tokens alone, fewer first, neighbours only.
struct LengthPair {
  const CellRuns* fewer = nullptr;
  const CellRuns* more = nullptr;
};
std::vector<LengthPair> LengthPairs(const CellTable& cells, const std::string& campaign);

// All lengths of one engine and method in one cell, ascending; two at least.
std::vector<std::vector<const CellRuns*>> LengthGroups(const CellTable& cells,
                                                       const std::string& campaign);

// Tokens per step: from the acceptance rate where there is one (it has more digits), else as told.
std::optional<double> TokensPerStep(const CellTable& cells, const CellRuns& cell);
// Time of one step: the mean gap between stream events.
std::optional<double> StepTime(const CellTable& cells, const CellRuns& cell);

struct ModelCheck {
  double tokens_per_step = 0;
  double relative_step = 0;  // s(k) / s(0)
  double expected = 0;       // speedup
  double measured = 0;       // output throughput over the baseline's
};
std::optional<ModelCheck> CheckModel(const CellTable& cells, const CellRuns& cell,
                                     const CellRuns& baseline);

// How far the ratio of two-decimal figures may be off; 0 for figures with more digits.
double RoundingAllowance(const CellTable& cells, const CellRuns& a, const CellRuns& b,
                         Metric metric);

// Equal work under two names in one campaign, or one cell in two campaigns.
struct ReplicatePair {
  const CellRuns* first = nullptr;
  const CellRuns* second = nullptr;
  Metric metric = Metric::kTotalThroughput;
  double change = 0;  // second over first, - 1
};
std::vector<ReplicatePair> ImplicitReplicates(const CellTable& cells, const std::string& campaign);
std::vector<ReplicatePair> CrossCampaignPairs(const Results& results, const CellTable& cells);

// The checks of 8.12 on what was read; fills void_reasons.
void ValidateRuns(const Thresholds& limits, Results* results);

// Advice from the hits, most urgent first.
std::vector<Recommendation> Recommend(const Analysis& analysis);

std::string CellName(const CellRuns& cell);  // "chat_short@64"
std::string Fixed(double value, int decimals = 2);
std::string Percent(double share, int decimals = 1);  // 0.55 -> "+55.0 %"

}  // namespace firesteel
