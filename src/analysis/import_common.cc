#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "analysis/import_internal.h"

namespace firesteel {
namespace {

std::optional<double> NumberIn(std::string_view text) {
  if (text == "inf" || text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::optional<double>> ToolNumber(const Json& object, std::string_view key,
                                         std::string_view where) {
  const auto it = object.find(std::string(key));
  if (it == object.end() || it->is_null()) return std::optional<double>();
  if (it->is_number()) return std::optional<double>(it->get<double>());
  if (it->is_string()) {
    if (const auto value = NumberIn(it->get_ref<const std::string&>())) return value;
  }
  std::string found = DumpJson(*it);
  if (found.size() > 40) found = found.substr(0, 40) + "…";
  return InvalidArgument(fmt::format("{}: {} is {}, expected a number", where, key, found));
}

Result<std::optional<int64_t>> ToolInteger(const Json& object, std::string_view key,
                                           std::string_view where) {
  FS_ASSIGN(const std::optional<double> value, ToolNumber(object, key, where));
  if (!value || std::isnan(*value)) return std::optional<int64_t>();
  if (*value != std::trunc(*value) || std::abs(*value) > 0x1p62) {
    return InvalidArgument(fmt::format("{}: {} is {}, expected an integer", where, key, *value));
  }
  return std::optional<int64_t>(static_cast<int64_t>(*value));
}

Result<std::optional<int32_t>> ToolCount(const Json& object, std::string_view key, int32_t most,
                                         std::string_view where) {
  FS_ASSIGN(const std::optional<int64_t> value, ToolInteger(object, key, where));
  if (!value) return std::optional<int32_t>();
  if (*value < 0 || *value > most) {
    return InvalidArgument(fmt::format("{}: {} is {}, expected 0 to {}", where, key, *value, most));
  }
  return std::optional<int32_t>(static_cast<int32_t>(*value));
}

std::string ToolText(const Json& object, std::string_view key) {
  if (!object.is_object()) return "";
  const auto it = object.find(std::string(key));
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

Status ReadMeasures(const Json& object, std::string_view where, Run* run) {
  for (const auto& [key, unused] : object.items()) {
    const std::optional<Metric> metric = FindMetric(key);
    if (!metric) continue;
    FS_ASSIGN(const std::optional<double> value, ToolNumber(object, key, where));
    if (!value) continue;
    if (std::isfinite(*value) && *value >= 0) {
      run->measures.Set(*metric, value);
    } else {
      run->void_reasons.push_back(fmt::format("{} is {}", key, *value));
    }
  }
  if (run->work.completed == 0) run->void_reasons.emplace_back("completed is 0");
  return {};
}

std::string ConfigurationFromName(const std::string& name, Configuration* configuration) {
  if (name.ends_with("-none") || name == "none") {
    configuration->spec_tokens = 0;
    configuration->method = "none";
    return fmt::format("{}: the name ends in none, so it does not speculate", name);
  }
  const size_t at = name.rfind("-st");
  if (at == std::string::npos) return "";
  int32_t tokens = 0;
  const char* const begin = name.data() + at + 3;
  const auto r = std::from_chars(begin, name.data() + name.size(), tokens);
  if (r.ec != std::errc() || r.ptr != name.data() + name.size() || tokens < 0 ||
      tokens > kMaxSpecTokens)
    return "";
  configuration->spec_tokens = tokens;
  if (configuration->method.empty()) configuration->method = name.substr(0, at);
  return fmt::format("{}: the name ends in -st{}, so it drafts {} tokens", name, tokens, tokens);
}

Run NewRun(const RunOrigin& origin, ResultFormat format, const Results& results) {
  Run run;
  run.id = fmt::format("R{}", results.runs.size() + 1);
  run.origins = {origin};
  run.origins.front().format = format;
  return run;
}

Campaign& CampaignOf(const std::string& id, Results* results) {
  for (Campaign& campaign : results->campaigns) {
    if (campaign.id == id) return campaign;
  }
  results->campaigns.push_back({.id = id});
  return results->campaigns.back();
}

}  // namespace firesteel
