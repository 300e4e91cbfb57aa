#include <algorithm>
#include <cctype>
#include <cmath>

#include "analysis/ratio_summary.h"
#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

std::string Letters(const std::string& text) {
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0) out += static_cast<char>(std::tolower(c));
  }
  return out;
}

// "speedup_vs_vllm_0_24_none" names engine "vllm", version "0.24.0", no speculation.
bool NamesBaseline(const std::string& claim, const Configuration& configuration) {
  constexpr std::string_view kPrefix = "speedup_vs_";
  const std::string name =
      Letters(claim.starts_with(kPrefix) ? claim.substr(kPrefix.size()) : claim);
  const std::string engine = Letters(configuration.engine);
  constexpr std::string_view kNone = "none";
  if (!name.starts_with(engine) || !name.ends_with(kNone)) return false;
  const std::string middle = name.substr(engine.size(), name.size() - engine.size() - kNone.size());
  return Letters(configuration.engine_version).starts_with(middle);
}

bool Matches(const Claim& claim, const CellTable& cells, const CellRuns& cell) {
  const Configuration& configuration = cells.ConfigurationOf(cell);
  if (cell.campaign != claim.campaign) return false;
  if (!claim.scenario.empty() && cell.scenario != claim.scenario) return false;
  if (claim.concurrency != 0 && cell.concurrency != claim.concurrency) return false;
  if (!claim.configuration.empty() && configuration.method != claim.configuration) return false;
  return !claim.spec_tokens || configuration.spec_tokens == claim.spec_tokens;
}

class Checker {
 public:
  explicit Checker(const Analysis& analysis) : analysis_(analysis), cells_(*analysis.cells) {}

  std::vector<CheckedClaim> Run() {
    for (const Claim& claim : analysis_.results->claims) {
      if (claim.value) Check(claim);
    }
    return std::move(checked_);
  }

 private:
  void Add(const Claim& claim, double computed, int8_t decimals, double allowance,
           std::vector<int32_t> sources) {
    checked_.push_back({&claim, computed, decimals, allowance, std::move(sources)});
  }

  void Check(const Claim& claim) {
    if (claim.what == "drop_pct") {
      for (const Hit& hit : analysis_.hits) {
        if (hit.rule == "CLIFF" && hit.campaign == claim.campaign &&
            hit.scenario == claim.scenario && hit.concurrency == claim.concurrency)
          Add(claim, -*hit.Find("change_pct")->value, 0, 0, hit.sources);
      }
    } else if (claim.what == "p99_over_mean") {
      for (const CellRuns& cell : cells_.cells()) {
        const auto mean = cells_.Value(cell, Metric::kMeanE2e);
        const auto p99 = cells_.Value(cell, Metric::kP99E2e);
        if (Matches(claim, cells_, cell) && mean && p99) Add(claim, *p99 / *mean, 1, 0, cell.runs);
      }
    } else if (claim.what == "speedup") {
      Speedup(claim);
    } else if (claim.what != "text") {
      Summary(claim);
    }
  }

  void Speedup(const Claim& claim) {
    for (const CellRuns& cell : cells_.cells()) {
      if (!Matches(claim, cells_, cell)) continue;
      for (const CellRuns* base : cells_.CellsOf(cell.campaign, cell.scenario, cell.concurrency)) {
        const Configuration& configuration = cells_.ConfigurationOf(*base);
        if (!configuration.IsBaseline() || !NamesBaseline(claim.baseline, configuration)) continue;
        const auto a = cells_.Value(cell, Metric::kRequestThroughput);
        const auto b = cells_.Value(*base, Metric::kRequestThroughput);
        if (!a || !b || *b <= 0) continue;
        std::vector<int32_t> sources = cell.runs;
        sources.insert(sources.end(), base->runs.begin(), base->runs.end());
        Add(claim, *a / *b, 2,
            *a / *b * RoundingAllowance(cells_, cell, *base, Metric::kRequestThroughput),
            std::move(sources));
      }
    }
  }

  void Summary(const Claim& claim) {
    for (const Comparison& comparison : analysis_.comparisons) {
      if (comparison.campaign != claim.campaign || comparison.sides.size() != 2) continue;
      if (claim.what == "improvement_pct") {
        for (const WinnerCell& cell : comparison.cells) {
          if (cell.scenario != claim.scenario || cell.concurrency != claim.concurrency ||
              cell.runner_up == nullptr)
            continue;
          std::vector<int32_t> sources = cell.best->runs;
          sources.insert(sources.end(), cell.runner_up->runs.begin(), cell.runner_up->runs.end());
          Add(claim, 100 * (cell.ratio.ratio - 1), 2, 0, std::move(sources));
        }
        return;
      }
      if (claim.what == "points")
        Add(claim, static_cast<double>(comparison.cells.size()), 0, 0, {});
      for (const std::string& side : comparison.sides) {
        if (claim.what == Letters(side) + "_wins") Add(claim, comparison.Wins(side), 0, 0, {});
      }
      for (const auto& [name, metric] : {std::pair("mean_ratio_e2e", Metric::kMeanE2e),
                                         std::pair("mean_ratio_tpot", Metric::kMeanTpot),
                                         std::pair("mean_ratio_ttft", Metric::kMeanTtft)}) {
        if (claim.what != name) continue;
        const bool first_wins =
            comparison.Wins(comparison.sides[0]) >= comparison.Wins(comparison.sides[1]);
        const auto summary =
            SummarizeRatios(analysis_, comparison, comparison.sides[first_wins ? 1 : 0],
                            comparison.sides[first_wins ? 0 : 1], metric);
        if (summary) Add(claim, summary->arithmetic, 2, 0, summary->sources);
      }
    }
  }

  const Analysis& analysis_;
  const CellTable& cells_;
  std::vector<CheckedClaim> checked_;
};

}  // namespace

bool CheckedClaim::holds() const {
  // Half a unit of the last digit that was printed.
  const double half = 0.5 * std::pow(10.0, -decimals) + 1e-9;
  return std::abs(*claim->value - computed) <= half + allowance;
}

std::vector<CheckedClaim> CheckClaims(const Analysis& analysis) { return Checker(analysis).Run(); }

}  // namespace firesteel
