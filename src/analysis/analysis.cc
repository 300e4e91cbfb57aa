#include "analysis/analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

// The configuration without speculation; of several the one whose engine most others share, since
// it differs from them in speculation alone.
std::string ChooseBaseline(const CellTable& cells, const std::string& campaign) {
  std::string best;
  long most = -1;
  const std::vector<std::string> names = cells.Configurations(campaign);
  const auto engine_of = [&](const std::string& name) -> const Configuration* {
    for (const CellRuns& cell : cells.cells()) {
      if (cell.campaign == campaign && cell.configuration == name)
        return &cells.ConfigurationOf(cell);
    }
    return nullptr;
  };
  for (const std::string& name : names) {
    const Configuration* candidate = engine_of(name);
    if (candidate == nullptr || !candidate->IsBaseline()) continue;
    const long sharing = std::count_if(names.begin(), names.end(), [&](const std::string& other) {
      const Configuration* c = engine_of(other);
      return c != nullptr && c->engine == candidate->engine;
    });
    if (sharing > most) best = name;
    most = std::max(most, sharing);
  }
  return best;
}

}  // namespace

Hit& Hit::Number(std::string key, double value, int8_t decimals, std::string unit) {
  evidence.push_back({std::move(key), value, decimals, std::move(unit), ""});
  return *this;
}

Hit& Hit::Text(std::string key, std::string text) {
  evidence.push_back({std::move(key), std::nullopt, 0, "", std::move(text)});
  return *this;
}

const EvidenceItem* Hit::Find(const std::string& key) const {
  for (const EvidenceItem& item : evidence) {
    if (item.key == key) return &item;
  }
  return nullptr;
}

int Comparison::Wins(const std::string& side) const {
  return static_cast<int>(std::count_if(cells.begin(), cells.end(), [&](const WinnerCell& cell) {
    return cell.verdict == Verdict::kWinner && side_of.at(cell.best->configuration) == side;
  }));
}

int Comparison::Ties() const {
  return static_cast<int>(std::count_if(cells.begin(), cells.end(), [](const WinnerCell& cell) {
    return cell.verdict == Verdict::kTie;
  }));
}

Result<Analysis> Analyze(Results results, AnalysisOptions options) {
  ValidateRuns(options.thresholds, &results);
  Analysis analysis;
  analysis.results = std::make_unique<const Results>(std::move(results));
  analysis.cells = std::make_unique<const CellTable>(*analysis.results);
  analysis.options = std::move(options);
  std::vector<std::string> names;
  for (const Campaign& campaign : analysis.results->campaigns) {
    const std::vector<std::string> here = analysis.cells->Configurations(campaign.id);
    const std::string& wanted = analysis.options.baseline;
    if (std::find(here.begin(), here.end(), wanted) != here.end()) {
      analysis.baselines[campaign.id] = wanted;
    } else if (const std::string own = ChooseBaseline(*analysis.cells, campaign.id); !own.empty()) {
      analysis.baselines[campaign.id] = own;
    }
    for (const std::string& name : here) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    analysis.comparisons.push_back(
        CompareSides(*analysis.cells, campaign.id, analysis.options.thresholds));
  }
  const std::string& wanted = analysis.options.baseline;
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    return InvalidArgument(
        fmt::format("--baseline: there is no configuration {}, the results have {}", wanted,
                    fmt::join(names, ", ")));
  }
  Rules(&analysis).ApplyAll();
  analysis.recommendations = Recommend(analysis);
  return analysis;
}

}  // namespace firesteel
