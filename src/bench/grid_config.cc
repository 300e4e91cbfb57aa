#include "bench/grid_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/option_map.h"
#include "bench/grid_fields_internal.h"
#include "bench/yaml.h"

namespace firesteel {
namespace {

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

// Words, or one text that a shell splits.
Result<std::vector<std::string>> CommandWords(const Json& command, const std::string& where) {
  if (command.is_string() && !command.get<std::string>().empty()) {
    // `exec`: the signals that end the server reach it, not a shell around it.
    return std::vector<std::string>{"/bin/sh", "-c", "exec " + command.get<std::string>()};
  }
  std::vector<std::string> words;
  if (command.is_array()) {
    for (const Json& word : command) {
      if (!word.is_string() && !word.is_number()) break;
      words.push_back(word.is_string() ? word.get<std::string>() : DumpJson(word));
    }
  }
  if (words.empty() || words.size() != command.size())
    return InvalidArgument(fmt::format("{}: command is no text and no list of words", where));
  // A name without a slash is looked up by the shell, as on a command line.
  if (words.front().find('/') == std::string::npos)
    words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\""});
  return words;
}

Status ParseOtherServer(const Json& item, const std::string& place,
                        GridConfiguration* configuration) {
  FS_ASSIGN(const auto url, GetString(item, "url", place));
  if (!url || !url->starts_with("http")) {
    return InvalidArgument(fmt::format(
        "{}: url is {}, expected where the server answers, such as http://127.0.0.1:{{port}}",
        place, url ? "\"" + *url + "\"" : "missing"));
  }
  configuration->url = *url;
  while (configuration->url.ends_with('/')) configuration->url.pop_back();
  if (item.contains("command")) {
    FS_ASSIGN(configuration->command, CommandWords(item["command"], place));
  }
  FS_ASSIGN(const auto health, GetString(item, "health", place));
  if (health) configuration->health = *health;
  if (!configuration->health.starts_with('/'))
    return InvalidArgument(fmt::format("{}: health is \"{}\", expected a path such as /health",
                                       place, configuration->health));
  FS_ASSIGN(const auto key, GetString(item, "api_key_env", place));
  configuration->api_key_env = key.value_or("");
  FS_ASSIGN(const auto method, GetString(item, "spec_method", place));
  configuration->spec_method = method.value_or("");
  if (item.contains("spec_tokens")) {
    FS_ASSIGN(const int64_t tokens, RequireInt(item, "spec_tokens", 0, 1024, place));
    configuration->spec_tokens = static_cast<int32_t>(tokens);
  }
  return {};
}

Result<GridConfiguration> ParseConfiguration(const Json& item, const std::string& place) {
  FS_TRY(CheckGridKeys(item,
                       {"name", "flags", "command", "url", "health", "model", "api_key_env",
                        "spec_method", "spec_tokens", "gpus", "tags"},
                       place));
  GridConfiguration configuration;
  FS_ASSIGN(configuration.name, GridName(item, place));
  FS_ASSIGN(const auto model, GetString(item, "model", place));
  configuration.model = model.value_or("");
  if (item.contains("gpus")) {
    FS_ASSIGN(const int64_t gpus, RequireInt(item, "gpus", 1, 1'000'000, place));
    configuration.gpus = static_cast<int32_t>(gpus);
  }
  if (item.contains("tags")) {
    if (!item["tags"].is_object())
      return InvalidArgument(fmt::format("{}: tags is not a mapping of names to values", place));
    configuration.tags = item["tags"];
  }
  if (item.contains("command") || item.contains("url")) {
    if (item.contains("flags")) {
      return InvalidArgument(
          fmt::format("{}: holds flags, which are of our server, and {}, which is another's", place,
                      item.contains("url") ? "url" : "command"));
    }
    FS_TRY(ParseOtherServer(item, place, &configuration));
    return configuration;
  }
  for (const char* key : {"health", "api_key_env", "spec_method", "spec_tokens"}) {
    if (item.contains(key))
      return InvalidArgument(fmt::format("{}: holds {} without url", place, key));
  }
  if (item.contains("flags")) {
    FS_ASSIGN(configuration.flags, FlagWords(item["flags"], place + ": flags"));
  }
  return configuration;
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
    FS_ASSIGN(GridConfiguration configuration, ParseConfiguration(item, place));
    if (!names.insert(configuration.name).second) {
      return InvalidArgument(fmt::format("{}: name {} was used before", place, configuration.name));
    }
    configurations.push_back(std::move(configuration));
  }
  return configurations;
}

template <typename Item>
bool HasName(const std::vector<Item>& items, const std::string& name) {
  return std::any_of(items.begin(), items.end(),
                     [&](const Item& item) { return item.name == name; });
}

Status ParseExclusions(const Json& document, const std::string& where, GridConfig* config) {
  const auto list = document.find("exclude");
  if (list == document.end()) return {};
  if (!list->is_array())
    return InvalidArgument(fmt::format("{}: exclude is no list of mappings", where));
  for (const Json& item : *list) {
    const std::string place = fmt::format("{}: exclude[{}]", where, config->exclusions.size());
    FS_TRY(CheckGridKeys(item, {"configuration", "scenario", "concurrency"}, place));
    if (item.empty()) return InvalidArgument(fmt::format("{}: is empty", place));
    GridExclusion exclusion;
    FS_ASSIGN(const auto configuration, GetString(item, "configuration", place));
    FS_ASSIGN(const auto scenario, GetString(item, "scenario", place));
    FS_ASSIGN(const auto levels, GetIntList(item, "concurrency", place));
    exclusion.configuration = configuration.value_or("");
    exclusion.scenario = scenario.value_or("");
    // A name that nobody has would leave out nothing, silently.
    if (configuration && !HasName(config->configurations, *configuration)) {
      return InvalidArgument(
          fmt::format("{}: configuration is {}, which the grid has not", place, *configuration));
    }
    if (scenario && !HasName(config->scenarios, *scenario)) {
      return InvalidArgument(
          fmt::format("{}: scenario is {}, which the grid has not", place, *scenario));
    }
    for (const int64_t level : levels.value_or(std::vector<int64_t>{}))
      exclusion.concurrency.push_back(static_cast<int32_t>(level));
    config->exclusions.push_back(std::move(exclusion));
  }
  return {};
}

// A number, or {per_concurrency: 2, min: 16}.
Status ParseWarmups(const Json& document, const std::string& where, GridConfig* config) {
  const auto warmups = document.find("warmups");
  if (warmups == document.end() || !warmups->is_object()) {
    FS_ASSIGN(const int64_t count, GridInt(document, "warmups", config->warmups, 0, 10'000, where));
    config->warmups = static_cast<int32_t>(count);
    return {};
  }
  const std::string place = where + ": warmups";
  FS_TRY(CheckGridKeys(*warmups, {"per_concurrency", "min"}, place));
  FS_ASSIGN(const int64_t each, RequireInt(*warmups, "per_concurrency", 1, 100, place));
  FS_ASSIGN(const int64_t least, GridInt(*warmups, "min", 0, 0, 10'000, place));
  config->warmups_per_concurrency = static_cast<int32_t>(each);
  config->warmups = static_cast<int32_t>(least);
  return {};
}

Status ParseCache(const Json& document, const std::string& where, GridConfig* config) {
  FS_ASSIGN(const auto cache, GetString(document, "cache", where));
  if (!cache || *cache == "as-is") return {};
  if (*cache != "cold")
    return InvalidArgument(fmt::format("{}: cache is {}, expected cold or as-is", where, *cache));
  config->cold_cache = true;
  return {};
}

}  // namespace

int32_t GridConfig::WarmupsAt(const GridLevel& level) const {
  return std::max(warmups, warmups_per_concurrency * level.concurrency);
}

Status CheckGridKeys(const Json& object, const std::vector<std::string>& known,
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

Result<int64_t> GridInt(const Json& object, const char* key, int64_t fallback, int64_t lo,
                        int64_t hi, const std::string& where) {
  if (!object.contains(key)) return fallback;
  return RequireInt(object, key, lo, hi, where);
}

Result<double> GridDouble(const Json& object, const char* key, double fallback, double lo,
                          double hi, const std::string& where) {
  FS_ASSIGN(const auto value, GetDouble(object, key, where));
  if (!value) return fallback;
  if (!(*value >= lo && *value <= hi)) {
    return InvalidArgument(
        fmt::format("{}: {} is {}, expected a number from {} to {}", where, key, *value, lo, hi));
  }
  return *value;
}

Result<std::string> GridName(const Json& object, const std::string& where) {
  FS_ASSIGN(const std::optional<std::string> name, GetString(object, "name", where));
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name || name->empty() || name->front() == '.' ||
      !std::all_of(name->begin(), name->end(), is_plain)) {
    return InvalidArgument(fmt::format("{}: name is {}, expected letters, digits, '-', '_' and '.'",
                                       where, name ? "\"" + *name + "\"" : "missing"));
  }
  return *name;
}

Result<GridConfig> ParseGridConfig(const Json& document, const std::string& where) {
  std::vector<std::string> known = GridScenarioKeys();
  known.insert(known.end(), {"model", "server", "configurations", "scenarios", "exclude", "repeats",
                             "warmups", "seed", "start_timeout_s", "min_window_s",
                             "max_client_lag_ms", "cache", "tokenizer"});
  FS_TRY(CheckGridKeys(document, known, where));
  GridConfig config;
  FS_ASSIGN(const std::optional<std::string> model, GetString(document, "model", where));
  config.model = model.value_or("");
  if (document.contains("server")) {
    FS_ASSIGN(config.server_flags, FlagWords(document["server"], where + ": server"));
  }
  FS_ASSIGN(config.scenarios, ParseGridScenarios(document, where));
  FS_ASSIGN(config.configurations, ParseConfigurations(document, where));
  FS_TRY(ParseExclusions(document, where, &config));
  FS_ASSIGN(const int64_t repeats, GridInt(document, "repeats", config.repeats, 1, 1000, where));
  FS_TRY(ParseWarmups(document, where, &config));
  FS_TRY(ParseCache(document, where, &config));
  FS_ASSIGN(const auto tokenizer, GetString(document, "tokenizer", where));
  config.tokenizer = tokenizer.value_or("");
  FS_ASSIGN(const int64_t seed,
            GridInt(document, "seed", static_cast<int64_t>(config.seed), 0, INT64_MAX, where));
  FS_ASSIGN(config.start_timeout_s,
            GridInt(document, "start_timeout_s", config.start_timeout_s, 1, 86'400, where));
  FS_ASSIGN(config.min_window_s,
            GridDouble(document, "min_window_s", config.min_window_s, 0, 86'400, where));
  FS_ASSIGN(config.max_client_lag_ms,
            GridDouble(document, "max_client_lag_ms", config.max_client_lag_ms, 0, 10'000, where));
  config.repeats = static_cast<int32_t>(repeats);
  config.seed = static_cast<uint64_t>(seed);
  return config;
}

Result<GridConfig> ReadGridConfig(const std::string& path) {
  FS_ASSIGN(const Json document, ReadYaml(path));
  return ParseGridConfig(document, path);
}

}  // namespace firesteel
