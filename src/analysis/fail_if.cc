#include "analysis/fail_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "analysis/rules_internal.h"
#include "base/option_map.h"

namespace firesteel {
namespace {

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Every rule has a headline in the table of texts.
std::set<std::string> RuleNames() {
  constexpr std::string_view kPrefix = "rule.";
  std::set<std::string> names;
  for (const StringRow& row : StringTable()) {
    const std::string key = row.key;
    if (!key.starts_with(kPrefix)) continue;
    const std::string name = key.substr(kPrefix.size());
    names.insert(name.substr(0, name.find('.')));
  }
  return names;
}

bool Holds(double value, const std::string& comparison, double limit) {
  if (comparison == ">") return value > limit;
  if (comparison == ">=") return value >= limit;
  if (comparison == "<") return value < limit;
  return value <= limit;
}

std::string CellText(const CellRuns& cell) {
  return fmt::format("{} {}", cell.configuration, CellName(cell));
}

Result<std::optional<std::string>> MetricMeets(const FailCondition& condition,
                                               const Analysis& analysis) {
  bool any = false;
  for (const CellRuns& cell : analysis.cells->cells()) {
    const auto value = analysis.cells->Value(cell, condition.metric);
    if (!value) continue;
    any = true;
    if (!Holds(*value, condition.comparison, condition.value)) continue;
    return std::optional(fmt::format("{}: {} is {:.2f}, the limit is {} {:g}", CellText(cell),
                                     Info(condition.metric).name, *value, condition.comparison,
                                     condition.value));
  }
  if (any) return std::optional<std::string>();
  return InvalidArgument(fmt::format("--fail-if: no run has {}", Info(condition.metric).name));
}

Result<std::optional<std::string>> BaselineMeets(const FailCondition& condition,
                                                 const Analysis& analysis) {
  bool any = false;
  for (const CellRuns& cell : analysis.cells->cells()) {
    const auto baseline = analysis.baselines.find(cell.campaign);
    if (baseline == analysis.baselines.end() || baseline->second == cell.configuration) continue;
    const CellRuns* base =
        analysis.cells->Find(cell.campaign, cell.scenario, baseline->second, cell.concurrency);
    if (base == nullptr) continue;
    const auto ratio = analysis.cells->Compare(cell, *base, Metric::kOutputThroughput);
    if (!ratio) continue;
    any = true;
    const bool regression =
        ratio->high < 1 && ratio->ratio < 1 - analysis.options.thresholds.min_effect;
    const bool met = condition.kind == FailCondition::Kind::kRegression
                         ? regression
                         : Holds(ratio->ratio, condition.comparison, condition.value);
    if (!met) continue;
    return std::optional(
        fmt::format("{}: {:.3f} times the output of {}, 95 % interval {:.3f} to "
                    "{:.3f}",
                    CellText(cell), ratio->ratio, baseline->second, ratio->low, ratio->high));
  }
  if (any) return std::optional<std::string>();
  return InvalidArgument(
      "--fail-if: no cell can be compared with a baseline, expected --baseline "
      "NAME of a configuration measured in the same cells");
}

}  // namespace

Result<FailCondition> ParseFailCondition(const std::string& text) {
  FailCondition condition;
  const std::string trimmed = Trim(text);
  if (trimmed == "void") return condition;
  if (trimmed == "regression") {
    condition.kind = FailCondition::Kind::kRegression;
    return condition;
  }
  const size_t at = trimmed.find_first_of("<>");
  const std::string name = Trim(trimmed.substr(0, at));
  if (at == std::string::npos) {
    const std::set<std::string> rules = RuleNames();
    if (rules.contains(name)) {
      condition.kind = FailCondition::Kind::kRule;
      condition.rule = name;
      return condition;
    }
    std::vector<std::string> known(rules.begin(), rules.end());
    known.insert(known.end(), {"void", "regression"});
    const std::string nearest = NearestName(name, known);
    return InvalidArgument(fmt::format(
        "--fail-if is {}, expected METRIC > NUMBER (or >=, <, <=), speedup < NUMBER, regression, "
        "void or the name of a rule{}",
        text, nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  const size_t digits = trimmed.find_first_not_of("<>=", at);
  condition.comparison = trimmed.substr(at, digits == std::string::npos ? digits : digits - at);
  const std::string number = digits == std::string::npos ? "" : Trim(trimmed.substr(digits));
  const auto r = std::from_chars(number.data(), number.data() + number.size(), condition.value);
  const bool known_comparison = condition.comparison == ">" || condition.comparison == ">=" ||
                                condition.comparison == "<" || condition.comparison == "<=";
  if (!known_comparison || r.ec != std::errc() || r.ptr != number.data() + number.size() ||
      !std::isfinite(condition.value)) {
    return InvalidArgument(
        fmt::format("--fail-if is {}, expected a number behind >, >=, < or <=", text));
  }
  if (name == "speedup") {
    condition.kind = FailCondition::Kind::kSpeedup;
    return condition;
  }
  const auto metric = FindMetric(name);
  if (!metric) {
    std::vector<std::string> names = {"speedup"};
    for (const MetricInfo& info : AllMetrics()) names.emplace_back(info.name);
    const std::string nearest = NearestName(name, names);
    return InvalidArgument(
        fmt::format("--fail-if: there is no metric {}{}", name,
                    nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest)));
  }
  condition.kind = FailCondition::Kind::kMetric;
  condition.metric = *metric;
  return condition;
}

Result<std::optional<std::string>> MeetsFailCondition(const FailCondition& condition,
                                                      const Analysis& analysis) {
  switch (condition.kind) {
    case FailCondition::Kind::kMetric:
      return MetricMeets(condition, analysis);
    case FailCondition::Kind::kSpeedup:
    case FailCondition::Kind::kRegression:
      return BaselineMeets(condition, analysis);
    case FailCondition::Kind::kVoid:
      for (const Run& run : analysis.results->runs) {
        if (!run.valid())
          return std::optional(fmt::format("{}: {}", run.id, run.void_reasons.front()));
      }
      break;
    case FailCondition::Kind::kRule:
      for (const Hit& hit : analysis.hits) {
        if (hit.rule != condition.rule) continue;
        return std::optional(fmt::format("{}: {} {}@{}", hit.rule, hit.configuration, hit.scenario,
                                         hit.concurrency));
      }
      break;
  }
  return std::optional<std::string>();
}

}  // namespace firesteel
