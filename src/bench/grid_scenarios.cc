#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bench/grid_fields_internal.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxConcurrency = 4096;
constexpr int32_t kMaxPrompts = 1'000'000;
constexpr int32_t kMaxLength = 10'000'000;

// {per_concurrency: 10, min: 300}: as many for each client, but not fewer.
Status ApplyRule(const Json& rule, const std::string& where, std::vector<GridLevel>* levels) {
  FS_TRY(CheckGridKeys(rule, {"per_concurrency", "min"}, where));
  FS_ASSIGN(const int64_t each, RequireInt(rule, "per_concurrency", 1, kMaxPrompts, where));
  FS_ASSIGN(const int64_t least, GridInt(rule, "min", 1, 1, kMaxPrompts, where));
  for (GridLevel& level : *levels) {
    level.num_prompts = static_cast<int32_t>(
        std::min<int64_t>(kMaxPrompts, std::max(least, each * level.concurrency)));
  }
  return {};
}

Status ApplyCounts(const Json& document, const std::string& where, std::vector<GridLevel>* levels) {
  const auto counts = document.find("num_prompts");
  if (counts == document.end() || counts->is_null()) return {};
  if (!counts->is_object()) {
    FS_ASSIGN(const int64_t count, RequireInt(document, "num_prompts", 1, kMaxPrompts, where));
    for (GridLevel& level : *levels) level.num_prompts = static_cast<int32_t>(count);
    return {};
  }
  const std::string place = where + ": num_prompts";
  if (counts->contains("per_concurrency")) return ApplyRule(*counts, place, levels);
  for (GridLevel& level : *levels) {
    FS_ASSIGN(const int64_t count,
              RequireInt(*counts, std::to_string(level.concurrency), 1, kMaxPrompts, place));
    level.num_prompts = static_cast<int32_t>(count);
  }
  return {};
}

Result<std::vector<GridLevel>> ParseLevels(const Json& document, const std::string& where) {
  FS_ASSIGN(const auto concurrency, GetIntList(document, "concurrency", where));
  if (!concurrency || concurrency->empty()) {
    return InvalidArgument(
        fmt::format("{}: concurrency is missing, expected a list such as [1, 8, 32]", where));
  }
  std::vector<GridLevel> levels;
  for (const int64_t c : *concurrency) {
    if (c < 1 || c > kMaxConcurrency) {
      return InvalidArgument(fmt::format("{}: concurrency holds {}, expected integers from 1 to {}",
                                         where, c, kMaxConcurrency));
    }
    if (!levels.empty() && c <= levels.back().concurrency) {
      return InvalidArgument(
          fmt::format("{}: concurrency holds {} after {}, expected ascending levels", where, c,
                      levels.back().concurrency));
    }
    levels.push_back({.concurrency = static_cast<int32_t>(c)});
  }
  FS_TRY(ApplyCounts(document, where, &levels));
  return levels;
}

// Counts for levels that no scenario has are misspelt.
Status CheckCounts(const Json& document, const std::string& where) {
  const auto counts = document.find("num_prompts");
  if (counts == document.end() || !counts->is_object() || counts->contains("per_concurrency"))
    return {};
  std::set<std::string> known;
  const auto add = [&](const Json& object) -> Status {
    FS_ASSIGN(const auto concurrency, GetIntList(object, "concurrency", where));
    for (const int64_t c : concurrency.value_or(std::vector<int64_t>{}))
      known.insert(std::to_string(c));
    return {};
  };
  FS_TRY(add(document));
  if (const auto list = document.find("scenarios"); list != document.end() && list->is_array()) {
    for (const Json& item : *list) {
      if (item.is_object()) FS_TRY(add(item));
    }
  }
  return CheckGridKeys(*counts, {known.begin(), known.end()}, where + ": num_prompts");
}

// One length instead of a range: `bound` or half of it, which is the mean of lengths from 1.
Status FixLengths(const Json& document, const std::string& where, GridScenario* scenario) {
  FS_ASSIGN(const auto lengths, GetString(document, "lengths", where));
  if (!lengths || *lengths == "uniform") return {};
  if (*lengths != "bound" && *lengths != "mean") {
    return InvalidArgument(
        fmt::format("{}: lengths is {}, expected uniform, bound or mean", where, *lengths));
  }
  if (*lengths == "mean") {
    scenario->random_input_len = (scenario->random_input_len + 1) / 2;
    scenario->random_output_len = (scenario->random_output_len + 1) / 2;
  }
  scenario->random_range_ratio = 1;
  return {};
}

Status ParseWork(const Json& document, const std::string& where, GridScenario* scenario) {
  FS_ASSIGN(const std::optional<std::string> prompts, GetString(document, "prompts", where));
  const bool random = document.contains("random_input_len");
  if (random && prompts) {
    return InvalidArgument(
        fmt::format("{}: holds prompts and random_input_len, expected one of them", where));
  }
  if (!random) {
    if (!prompts || prompts->empty())
      return InvalidArgument(fmt::format("{}: prompts is missing, expected a file", where));
    scenario->prompts = *prompts;
    for (const char* key : {"random_output_len", "random_range_ratio", "lengths"}) {
      if (document.contains(key))
        return InvalidArgument(fmt::format("{}: holds {} without random_input_len", where, key));
    }
    FS_ASSIGN(const int64_t max_tokens,
              GridInt(document, "max_tokens", scenario->max_tokens, 1, kMaxPrompts, where));
    scenario->max_tokens = static_cast<int32_t>(max_tokens);
    return {};
  }
  if (document.contains("max_tokens")) {
    return InvalidArgument(fmt::format(
        "{}: holds max_tokens, expected random_output_len with random_input_len", where));
  }
  FS_ASSIGN(const int64_t in, RequireInt(document, "random_input_len", 1, kMaxLength, where));
  FS_ASSIGN(const int64_t out, RequireInt(document, "random_output_len", 1, kMaxLength, where));
  FS_ASSIGN(scenario->random_range_ratio,
            GridDouble(document, "random_range_ratio", 0, 0, 1, where));
  scenario->random_input_len = static_cast<int32_t>(in);
  scenario->random_output_len = static_cast<int32_t>(out);
  return FixLengths(document, where, scenario);
}

Result<GridScenario> ParseScenario(const Json& document, const std::string& where) {
  GridScenario scenario;
  FS_TRY(ParseWork(document, where, &scenario));
  FS_ASSIGN(scenario.levels, ParseLevels(document, where));
  if (document.contains("request") && !document["request"].is_null()) {
    if (!document["request"].is_object()) {
      return InvalidArgument(
          fmt::format("{}: request is not a mapping of parameters to values", where));
    }
    scenario.request = document["request"];
  }
  return scenario;
}

}  // namespace

const std::vector<std::string>& GridScenarioKeys() {
  static const std::vector<std::string> kKeys = {
      "prompts",    "random_input_len", "random_output_len", "random_range_ratio", "lengths",
      "max_tokens", "request",          "concurrency",       "num_prompts"};
  return kKeys;
}

Result<std::vector<GridScenario>> ParseGridScenarios(const Json& document,
                                                     const std::string& where) {
  FS_TRY(CheckCounts(document, where));
  const auto list = document.find("scenarios");
  if (list == document.end()) {
    FS_ASSIGN(GridScenario scenario, ParseScenario(document, where));
    return std::vector<GridScenario>{std::move(scenario)};
  }
  if (!list->is_array() || list->empty()) {
    return InvalidArgument(
        fmt::format("{}: scenarios is empty or no list, expected a list of {{name, …}}", where));
  }
  std::vector<GridScenario> scenarios;
  std::set<std::string> names;
  for (const Json& item : *list) {
    const std::string place = fmt::format("{}: scenarios[{}]", where, scenarios.size());
    std::vector<std::string> known = GridScenarioKeys();
    known.emplace_back("name");
    FS_TRY(CheckGridKeys(item, known, place));
    FS_ASSIGN(const std::string name, GridName(item, place));
    if (!names.insert(name).second)
      return InvalidArgument(fmt::format("{}: name {} was used before", place, name));
    // What the scenario does not say, the top of the file does. Where its prompts come from is one
    // answer, not two.
    Json merged = item;
    const bool has_work = item.contains("prompts") || item.contains("random_input_len");
    for (const std::string& key : GridScenarioKeys()) {
      const bool is_work =
          key == "prompts" || key.starts_with("random_") || key == "lengths" || key == "max_tokens";
      // How lengths are taken may be said once for all random scenarios.
      const bool shared = key == "lengths" && item.contains("random_input_len");
      if (document.contains(key) && !merged.contains(key) && (shared || !(is_work && has_work)))
        merged[key] = document[key];
    }
    if (item.contains("num_prompts")) FS_TRY(CheckCounts(merged, place));
    FS_ASSIGN(GridScenario scenario, ParseScenario(merged, place));
    scenario.name = name;
    scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

}  // namespace firesteel
