// Advice is made from hits alone: what nobody measured is not recommended.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

std::string Where(const Hit& hit) {
  std::string where = hit.scenario;
  if (hit.concurrency > 0) where += fmt::format("@{}", hit.concurrency);
  if (!hit.configuration.empty()) where += fmt::format(" ({})", hit.configuration);
  return where;
}

class Advisor {
 public:
  explicit Advisor(const Analysis& analysis) : hits_(analysis.hits) {}

  std::vector<Recommendation> Run() {
    SpecLoss();
    Lengths();
    Group("competitor", {"BASELINE_HEALTH"}, Priority::kP0, First(0));
    Group("baseline", {"NO_BASELINE"}, Priority::kP0, First(0));
    Group("void", {"VOID_RUNS"}, Priority::kP0, First(0));
    Group("equal_work", {"NOT_RANKED", "UNEQUAL_WORKLOAD", "EARLY_EOS", "UNEQUAL_COUNT"},
          Any({"NOT_RANKED", "UNEQUAL_COUNT"}) ? Priority::kP0 : Priority::kP1, Campaigns());
    Cliffs();
    Warmup();
    Group("fixed_lengths", {"LEVELS_DIFFER", "REPEATED_PROMPTS", "LENGTH_BOUND"}, Priority::kP1,
          Campaigns());
    Group("jitter", {"TTFT_JITTER"}, Priority::kP1, Worst("ratio"));
    Group("tail", {"TAIL"}, Priority::kP1, Worst("ratio"));
    Group("step_jump", {"STEP_JUMP"}, Priority::kP1, Worst("step_growth_pct"));
    Group("count_output", {"OUTPUT_NOT_COUNTED"}, Priority::kP1, Campaigns());
    Group("repeats", {"REPLICATE_NOISE", "INSIGNIFICANT", "CROSS_REPORT_DRIFT"}, Priority::kP1,
          Campaigns());
    Group("units", {"MIXED_UNITS"}, Priority::kP2, Campaigns());
    Group("more_requests", {"P99_UNRESOLVED"}, Priority::kP2, Smallest("num_prompts"));
    Group("operate", {"KNEE"}, Priority::kP2, Places());
    std::stable_sort(
        made_.begin(), made_.end(),
        [](const Recommendation& a, const Recommendation& b) { return a.priority < b.priority; });
    return std::move(made_);
  }

 private:
  using Arguments = std::function<std::vector<std::string>(const std::vector<size_t>&)>;

  std::vector<size_t> HitsOf(const std::vector<std::string>& rules) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < hits_.size(); ++i) {
      if (std::find(rules.begin(), rules.end(), hits_[i].rule) != rules.end()) found.push_back(i);
    }
    return found;
  }

  bool Any(const std::vector<std::string>& rules) const { return !HitsOf(rules).empty(); }

  void Group(const char* key, const std::vector<std::string>& rules, Priority priority,
             const Arguments& arguments) {
    const std::vector<size_t> found = HitsOf(rules);
    if (!found.empty()) made_.push_back({key, priority, arguments(found), found});
  }

  // {0}: the hit's own argument, of all hits.
  Arguments First(size_t index) const {
    return [this, index](const std::vector<size_t>& found) -> std::vector<std::string> {
      std::set<std::string> texts;
      for (const size_t i : found) {
        if (index < hits_[i].arguments.size()) texts.insert(hits_[i].arguments[index]);
      }
      return {fmt::format("{}", fmt::join(texts, ", "))};
    };
  }

  Arguments Campaigns() const {
    return [this](const std::vector<size_t>& found) -> std::vector<std::string> {
      std::set<std::string> names;
      for (const size_t i : found) {
        if (!hits_[i].campaign.empty()) names.insert(hits_[i].campaign);
      }
      return {fmt::format("{}", fmt::join(names, ", "))};
    };
  }

  Arguments Places() const {
    return [this](const std::vector<size_t>& found) -> std::vector<std::string> {
      std::vector<std::string> places;
      for (const size_t i : found) places.push_back(Where(hits_[i]));
      return {fmt::format("{}", fmt::join(places, ", "))};
    };
  }

  // {0}: the place of the largest (or smallest) figure, {1}: the figure, {2}: how many there are.
  Arguments Extreme(const char* key, bool largest) const {
    return [this, key, largest](const std::vector<size_t>& found) -> std::vector<std::string> {
      size_t at = found.front();
      const auto figure = [&](size_t i) { return hits_[i].Find(key)->value.value_or(0); };
      for (const size_t i : found) {
        if (largest ? figure(i) > figure(at) : figure(i) < figure(at)) at = i;
      }
      const EvidenceItem& item = *hits_[at].Find(key);
      return {Where(hits_[at]), Fixed(*item.value, item.decimals), std::to_string(found.size())};
    };
  }
  Arguments Worst(const char* key) const { return Extreme(key, true); }
  Arguments Smallest(const char* key) const { return Extreme(key, false); }

  void SpecLoss() {
    const std::vector<size_t> found = HitsOf({"SPEC_LOSS"});
    if (found.empty()) return;
    std::vector<std::string> places;
    double low = 1, high = 0;
    for (const size_t i : found) {
      places.push_back(Where(hits_[i]));
      low = std::min(low, *hits_[i].Find("speedup")->value);
      high = std::max(high, *hits_[i].Find("speedup")->value);
    }
    made_.push_back(
        {"spec_off",
         Priority::kP0,
         {fmt::format("{}", fmt::join(places, ", ")), Percent(1 / high - 1), Percent(1 / low - 1)},
         found});
  }

  // One recommendation per campaign: the length for each level, and what the others cost.
  void Lengths() {
    std::map<std::string, std::vector<size_t>> by_campaign;
    for (const size_t i : HitsOf({"LENGTH_CHOICE"})) by_campaign[hits_[i].campaign].push_back(i);
    for (const auto& [campaign, found] : by_campaign) {
      std::vector<std::string> choices;
      double low = 1e9, high = 0;
      for (const size_t i : found) {
        const Hit& hit = hits_[i];
        choices.push_back(fmt::format("{}@{}: {:.0f}", hit.scenario, hit.concurrency,
                                      *hit.Find("choice")->value));
        const double gain = *hit.Find("gain_over_worst_pct")->value;
        low = std::min(low, gain);
        high = std::max(high, gain);
      }
      const Priority priority = high >= 20  ? Priority::kP0
                                : high >= 5 ? Priority::kP1
                                            : Priority::kP2;
      made_.push_back({"length",
                       priority,
                       {campaign, fmt::format("{}", fmt::join(choices, ", ")),
                        fmt::format("{:+.1f}", low), fmt::format("{:+.1f}", high)},
                       found});
    }
  }

  void Cliffs() {
    const std::vector<size_t> found = HitsOf({"CLIFF"});
    if (found.empty()) return;
    std::vector<std::string> places;
    double most = 0;
    bool open = false;
    for (const size_t i : found) {
      const Hit& hit = hits_[i];
      places.push_back(fmt::format("{} {}→{}", hit.scenario,
                                   Fixed(*hit.Find("from_level")->value, 0), hit.concurrency));
      most = std::max(most, *hit.Find("throughput_before")->value / *hit.Find("throughput")->value);
      open |= hit.variant.empty();
    }
    made_.push_back({"cliff",
                     open ? Priority::kP0 : Priority::kP1,
                     {fmt::format("{}", fmt::join(places, ", ")), Percent(most - 1)},
                     found});
  }

  void Warmup() {
    const std::vector<size_t> found = HitsOf({"COLD_START", "TTFT_INVERSION"});
    if (found.empty()) return;
    std::vector<std::string> places;
    for (const size_t i : found) {
      places.push_back(fmt::format("{} {:.2f} → {:.2f} ms", Where(hits_[i]),
                                   *hits_[i].Find("ttft")->value,
                                   *hits_[i].Find("ttft_next")->value));
    }
    made_.push_back({"warmup",
                     HitsOf({"COLD_START"}).empty() ? Priority::kP1 : Priority::kP0,
                     {fmt::format("{}", fmt::join(places, ", "))},
                     found});
  }

  const std::vector<Hit>& hits_;
  std::vector<Recommendation> made_;
};

}  // namespace

std::vector<Recommendation> Recommend(const Analysis& analysis) { return Advisor(analysis).Run(); }

}  // namespace firesteel
