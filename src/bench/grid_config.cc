#include "bench/grid_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/option_map.h"
#include "bench/yaml.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxConcurrency = 4096;

Status CheckKeys(const Json& object, const std::vector<std::string>& known,
                 const std::string& where) {
  if (!object.is_object())
    return InvalidArgument(fmt::format("{}: is not a mapping of keys to values", where));
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = NearestName(key, known);
    return InvalidArgument(
        fmt::format("{}: unknown key {}{}", where, key,
                    nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest)));
  }
  return {};
}

Result<int64_t> IntOr(const Json& object, const char* key, int64_t fallback, int64_t lo, int64_t hi,
                      const std::string& where) {
  if (!object.contains(key)) return fallback;
  return RequireInt(object, key, lo, hi, where);
}

// {spec-method: dspark, warmup: false, served-model-name: [a, b]} as command-line words.
Result<std::vector<std::string>> FlagWords(const Json& flags, const std::string& where) {
  std::vector<std::string> words;
  if (flags.is_null()) return words;
  if (!flags.is_object())
    return InvalidArgument(fmt::format("{}: is not a mapping of flags to values", where));
  for (const auto& [key, value] : flags.items()) {
    if (value.is_boolean()) {
      words.push_back((value.get<bool>() ? "--" : "--no-") + key);
      continue;
    }
    words.push_back("--" + key);
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& item : list) {
      if (item.is_null()) return InvalidArgument(fmt::format("{}: {} has no value", where, key));
      words.push_back(item.is_string() ? item.get<std::string>() : DumpJson(item));
    }
  }
  return words;
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
  const auto counts = document.find("num_prompts");
  if (counts == document.end() || counts->is_null()) return levels;
  if (!counts->is_object()) {
    FS_ASSIGN(const int64_t count, RequireInt(document, "num_prompts", 1, 1'000'000, where));
    for (GridLevel& level : levels) level.num_prompts = static_cast<int32_t>(count);
    return levels;
  }
  std::vector<std::string> known;
  for (const GridLevel& level : levels) known.push_back(std::to_string(level.concurrency));
  FS_TRY(CheckKeys(*counts, known, where + ": num_prompts"));
  for (GridLevel& level : levels) {
    FS_ASSIGN(const int64_t count, RequireInt(*counts, std::to_string(level.concurrency), 1,
                                              1'000'000, where + ": num_prompts"));
    level.num_prompts = static_cast<int32_t>(count);
  }
  return levels;
}

Result<std::vector<GridConfiguration>> ParseConfigurations(const Json& document,
                                                           const std::string& where) {
  const auto list = document.find("configurations");
  if (list == document.end() || !list->is_array() || list->empty()) {
    return InvalidArgument(
        fmt::format("{}: configurations is missing, expected a list of {{name, flags}}", where));
  }
  std::vector<GridConfiguration> configurations;
  std::set<std::string> names;
  for (const Json& item : *list) {
    const std::string place = fmt::format("{}: configurations[{}]", where, configurations.size());
    FS_TRY(CheckKeys(item, {"name", "flags"}, place));
    GridConfiguration configuration;
    FS_ASSIGN(const std::optional<std::string> name, GetString(item, "name", place));
    const auto is_plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_' || c == '.';
    };
    // The name becomes part of file names.
    if (!name || name->empty() || name->front() == '.' ||
        !std::all_of(name->begin(), name->end(), is_plain)) {
      return InvalidArgument(
          fmt::format("{}: name is {}, expected letters, digits, '-', '_' and '.'", place,
                      name ? "\"" + *name + "\"" : "missing"));
    }
    if (!names.insert(*name).second)
      return InvalidArgument(fmt::format("{}: name {} was used before", place, *name));
    configuration.name = *name;
    if (item.contains("flags")) {
      FS_ASSIGN(configuration.flags, FlagWords(item["flags"], place + ": flags"));
    }
    configurations.push_back(std::move(configuration));
  }
  return configurations;
}

}  // namespace

Result<GridConfig> ParseGridConfig(const Json& document, const std::string& where) {
  FS_TRY(CheckKeys(document,
                   {"model", "prompts", "server", "configurations", "concurrency", "num_prompts",
                    "max_tokens", "repeats", "warmups", "request", "start_timeout_s"},
                   where));
  GridConfig config;
  FS_ASSIGN(const std::optional<std::string> model, GetString(document, "model", where));
  config.model = model.value_or("");
  FS_ASSIGN(const std::optional<std::string> prompts, GetString(document, "prompts", where));
  if (!prompts || prompts->empty())
    return InvalidArgument(fmt::format("{}: prompts is missing, expected a file", where));
  config.prompts = *prompts;
  if (document.contains("server")) {
    FS_ASSIGN(config.server_flags, FlagWords(document["server"], where + ": server"));
  }
  FS_ASSIGN(config.configurations, ParseConfigurations(document, where));
  FS_ASSIGN(config.levels, ParseLevels(document, where));
  FS_ASSIGN(const int64_t max_tokens,
            IntOr(document, "max_tokens", config.max_tokens, 1, 1'000'000, where));
  FS_ASSIGN(const int64_t repeats, IntOr(document, "repeats", config.repeats, 1, 1000, where));
  FS_ASSIGN(const int64_t warmups, IntOr(document, "warmups", config.warmups, 0, 10'000, where));
  FS_ASSIGN(config.start_timeout_s,
            IntOr(document, "start_timeout_s", config.start_timeout_s, 1, 86'400, where));
  config.max_tokens = static_cast<int32_t>(max_tokens);
  config.repeats = static_cast<int32_t>(repeats);
  config.warmups = static_cast<int32_t>(warmups);
  if (document.contains("request") && !document["request"].is_null()) {
    if (!document["request"].is_object()) {
      return InvalidArgument(
          fmt::format("{}: request is not a mapping of parameters to values", where));
    }
    config.request = document["request"];
  }
  return config;
}

Result<GridConfig> ReadGridConfig(const std::string& path) {
  FS_ASSIGN(const Json document, ReadYaml(path));
  return ParseGridConfig(document, path);
}

}  // namespace firesteel
