#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

// Configurations of one engine and method that differ in the number of drafted tokens are one
// side, so that a point is not won by having been tried more often without anybody's saying so.
std::map<std::string, std::string> Sides(const CellTable& cells, const std::string& campaign) {
  struct Member {
    std::string name, engine, method;
    bool baseline;
  };
  std::vector<Member> members;
  for (const std::string& name : cells.Configurations(campaign)) {
    for (const CellRuns& cell : cells.cells()) {
      if (cell.campaign != campaign || cell.configuration != name) continue;
      const Configuration& c = cells.ConfigurationOf(cell);
      members.push_back({name, c.engine, c.method, c.IsBaseline()});
      break;
    }
  }
  std::map<std::string, std::string> sides;
  for (const Member& member : members) {
    std::set<std::string> engines;
    int same = 0;
    for (const Member& other : members) {
      if (other.method != member.method) continue;
      engines.insert(other.engine);
      same += other.engine == member.engine ? 1 : 0;
    }
    const bool alone = member.baseline || member.method.empty() ||
                       (same == 1 && member.name != member.method && engines.size() > 1);
    if (alone) {
      sides[member.name] = member.name;
    } else {
      sides[member.name] =
          engines.size() == 1 ? member.method : member.method + " (" + member.engine + ")";
    }
  }
  return sides;
}

}  // namespace

Comparison CompareSides(const CellTable& cells, const std::string& campaign,
                        const Thresholds& limits) {
  Comparison comparison;
  comparison.campaign = campaign;
  comparison.side_of = Sides(cells, campaign);
  for (const std::string& name : cells.Configurations(campaign)) {
    const std::string& side = comparison.side_of.at(name);
    if (std::find(comparison.sides.begin(), comparison.sides.end(), side) == comparison.sides.end())
      comparison.sides.push_back(side);
  }
  for (const std::string& scenario : cells.Scenarios(campaign)) {
    for (const int32_t level : cells.Levels(campaign, scenario)) {
      std::vector<const CellRuns*> here;
      for (const CellRuns* cell : cells.CellsOf(campaign, scenario, level)) {
        if (cells.Valid(*cell)) here.push_back(cell);
      }
      const auto metric = cells.CommonThroughput(here);
      if (!metric) continue;
      const auto better = [&](const CellRuns* a, const CellRuns* b) {
        return *cells.Value(*a, *metric) > *cells.Value(*b, *metric);
      };
      WinnerCell cell{.scenario = scenario, .concurrency = level, .metric = *metric};
      std::stable_sort(here.begin(), here.end(), better);
      cell.best = here.front();
      for (const CellRuns* other : here) {
        if (comparison.side_of.at(other->configuration) ==
            comparison.side_of.at(cell.best->configuration))
          continue;
        cell.runner_up = other;
        break;
      }
      if (cell.runner_up != nullptr) {
        const auto ratio = cells.Compare(*cell.best, *cell.runner_up, *metric);
        if (ratio) cell.ratio = *ratio;
        const auto ours = cells.OutputPerRequest(*cell.best);
        const auto theirs = cells.OutputPerRequest(*cell.runner_up);
        if (ours && theirs && *theirs > 0) cell.work_difference = *ours / *theirs - 1;
        const bool small = std::abs(cell.ratio.ratio - 1) < limits.min_effect;
        cell.verdict = Verdict::kWinner;
        if (!cell.ratio.significant() || small) cell.verdict = Verdict::kTie;
        if (std::abs(cell.work_difference) > limits.refuse_work) cell.verdict = Verdict::kUnequal;
      }
      comparison.cells.push_back(cell);
    }
  }
  return comparison;
}

}  // namespace firesteel
