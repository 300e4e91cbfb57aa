#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <map>
#include <memory>

#include "base/json.h"
#include "base/option_map.h"
#include "bench/yaml.h"

namespace firesteel {
namespace {

constexpr char kConfigFlag[] = "--config";

std::string Negated(const std::string& flag) { return "--no-" + flag.substr(2); }

// "--max_num_seqs=4" as "--max-num-seqs=4"; values stay as they are.
std::string WithDashes(std::string arg) {
  if (!arg.starts_with("--")) return arg;
  const size_t end = std::min(arg.find('='), arg.size());
  std::replace(arg.begin(), arg.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return arg;
}

// "-tp": CLI11 knows short names of one letter only, so these are spelled out before it parses.
bool IsLongShort(const std::string& name) { return name.size() > 2 && name[1] != '-'; }

std::string WithoutLongShort(std::string arg, const CommandSpec& command) {
  for (const FlagSpec& flag : command.flags) {
    for (const std::string& alias : flag.aliases) {
      if (!IsLongShort(alias) || !arg.starts_with(alias)) continue;
      if (arg.size() == alias.size() || arg[alias.size()] == '=')
        return flag.name + arg.substr(alias.size());
    }
  }
  return arg;
}

// One CLI11 application for one command. The table outlives it.
class Parser {
 public:
  explicit Parser(const CommandSpec& command)
      : command_(command), app_(command.summary, "firesteel " + command.name) {
    app_.allow_extras();
    if (!command.positional.empty()) {
      app_.add_option(command.positional, positional_, command.positional_help)->type_name("");
    }
    for (const FlagSpec& flag : command.flags) AddFlag(flag);
  }

  Result<FlagValues> Parse(const std::vector<std::string>& args) {
    FlagValues result;
    std::vector<std::string> words;
    for (const std::string& arg : args)
      words.push_back(WithoutLongShort(WithDashes(arg), command_));
    for (const std::string& word : words) result.help |= word == "--help" || word == "-h";
    if (result.help) return result;
    std::reverse(words.begin(), words.end());  // as CLI11 wants a vector
    app_.parse(words);
    for (const std::string& extra : app_.remaining()) FS_TRY(Refuse(extra));
    for (const FlagSpec& flag : command_.flags) FS_TRY(Take(flag, &result));
    result.positional = positional_;
    return result;
  }

 private:
  void AddFlag(const FlagSpec& flag) {
    std::string names = flag.name;
    for (const std::string& alias : flag.aliases) {
      if (!IsLongShort(alias)) names += "," + alias;
    }
    std::vector<std::string>& values = values_[flag.name];
    if (flag.kind == FlagKind::kSwitch) {
      names += "{true}," + Negated(flag.name) + "{false}";
      CLI::Option* option = app_.add_flag(names, values, "");
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      return;
    }
    CLI::Option* option = app_.add_option(names, values, "")->type_name(flag.value_name);
    // CLI11 would take "expected(1)" as the number over all occurrences, so a repeated flag asks
    // for one word at a time.
    if (flag.kind != FlagKind::kList) option->allow_extra_args(false);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  Status Refuse(const std::string& extra) const {
    if (!extra.starts_with("-") || extra == "-") {
      return InvalidArgument(command_.positional.empty() || positional_.empty()
                                 ? fmt::format("unexpected argument {}", extra)
                                 : fmt::format("unexpected argument {} after {} {}", extra,
                                               command_.positional, positional_));
    }
    const std::string name = extra.substr(0, extra.find('='));
    std::vector<std::string> known = {"--help"};
    for (const FlagSpec& flag : command_.flags) {
      known.push_back(flag.name);
      known.insert(known.end(), flag.aliases.begin(), flag.aliases.end());
      if (flag.kind == FlagKind::kSwitch) known.push_back(Negated(flag.name));
    }
    const std::string nearest = NearestName(name, known);
    return InvalidArgument(
        nearest.empty()
            ? fmt::format("unknown flag {}, see firesteel {} --help", name, command_.name)
            : fmt::format("unknown flag {}, did you mean {}?", name, nearest));
  }

  Status Take(const FlagSpec& flag, FlagValues* result) {
    std::vector<std::string>& values = values_[flag.name];
    if (values.empty()) return {};
    for (const std::string& value : values) {
      if (flag.kind == FlagKind::kSwitch) {
        if (value == "true" || value == "false") continue;
        return InvalidArgument(fmt::format("{} is {}, expected {} or {} alone", flag.name, value,
                                           flag.name, Negated(flag.name)));
      }
      // "--model --port 80": the value was forgotten, and the next flag is not it.
      if (value.starts_with("--") && value.find(' ') == std::string::npos) {
        return InvalidArgument(fmt::format("{} needs a value, found {}", flag.name, value));
      }
    }
    result->Set(flag.name, values);
    return {};
  }

  const CommandSpec& command_;
  CLI::App app_;
  std::string positional_;
  std::map<std::string, std::vector<std::string>> values_;
};

const FlagSpec* FindFlag(const CommandSpec& command, const std::string& name) {
  for (const FlagSpec& flag : command.flags) {
    if (flag.name == name ||
        std::find(flag.aliases.begin(), flag.aliases.end(), name) != flag.aliases.end())
      return &flag;
  }
  return nullptr;
}

std::string ScalarText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

// A value of the configuration file as the command line would have it.
Result<std::vector<std::string>> ConfigValues(const FlagSpec& flag, const Json& value,
                                              const std::string& where) {
  const std::string name = flag.name.substr(2);
  if (flag.kind == FlagKind::kSwitch) {
    if (!value.is_boolean())
      return InvalidArgument(
          fmt::format("{}: {} is {}, expected true or false", where, name, DumpJson(value)));
    return std::vector<std::string>{value.get<bool>() ? "true" : "false"};
  }
  if (value.is_null()) return InvalidArgument(fmt::format("{}: {} has no value", where, name));
  if (!value.is_array()) return std::vector<std::string>{ScalarText(value)};
  if (flag.kind == FlagKind::kValue)
    return InvalidArgument(fmt::format("{}: {} is a list, expected one value", where, name));
  std::vector<std::string> values;
  for (const Json& item : value) values.push_back(ScalarText(item));
  return values;
}

Status ApplyConfigFile(const CommandSpec& command, const std::string& path, FlagValues* values) {
  FS_ASSIGN(const Json document, ReadYaml(path));
  if (document.is_null()) return {};
  if (!document.is_object())
    return InvalidArgument(fmt::format("{}: is not a mapping of flags to values", path));
  std::vector<std::string> known;
  for (const FlagSpec& flag : command.flags) known.push_back(flag.name.substr(2));
  for (const auto& [raw_key, value] : document.items()) {
    std::string key = raw_key;
    std::replace(key.begin(), key.end(), '_', '-');
    const FlagSpec* flag = FindFlag(command, "--" + key);
    Json setting = value;
    if (flag == nullptr && key.starts_with("no-") && value.is_boolean()) {
      flag = FindFlag(command, "--" + key.substr(3));
      setting = !value.get<bool>();
    }
    if (flag == nullptr || flag->name == kConfigFlag) {
      const std::string nearest = NearestName(key, known);
      return InvalidArgument(
          fmt::format("{}: unknown key {}{}", path, raw_key,
                      nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest)));
    }
    FS_ASSIGN(std::vector<std::string> texts, ConfigValues(*flag, setting, path));
    if (!values->Has(flag->name)) values->Set(flag->name, std::move(texts));
  }
  return {};
}

Status CheckEffects(const CommandSpec& command, FlagValues* values) {
  for (const FlagSpec& flag : command.flags) {
    if (!values->Has(flag.name)) continue;
    if (flag.effect == FlagEffect::kLater) {
      return InvalidArgument(fmt::format("{} is not in this version: {}", flag.name, flag.help));
    }
    if (flag.effect == FlagEffect::kNone) {
      std::string names = flag.name;  // whichever of them was written
      for (const std::string& alias : flag.aliases) names += ", " + alias;
      values->notes.push_back(fmt::format("{} has no effect here: {}", names, flag.help));
    }
  }
  return {};
}

}  // namespace

CommandSpec WithConfigFlag(CommandSpec command) {
  if (command.has_config) {
    command.flags.push_back({.name = kConfigFlag,
                             .value_name = "FILE",
                             .default_text = "none",
                             .help = "YAML file that sets any of these flags, by name without "
                                     "dashes; the command line wins"});
  }
  return command;
}

Result<FlagValues> ParseCommandLine(const CommandSpec& caller_command,
                                    const std::vector<std::string>& args) {
  const CommandSpec command = WithConfigFlag(caller_command);
  Result<FlagValues> parsed = Internal("");
  try {
    parsed = Parser(command).Parse(args);
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string_view what = e.what();  // "--port: 1 required N missing"
    return InvalidArgument(fmt::format("{} needs a value", what.substr(0, what.find(": "))));
  } catch (const std::exception& e) {
    return InvalidArgument(e.what());
  }
  if (!parsed.ok() || parsed->help) return parsed;
  FlagValues values = *std::move(parsed);
  if (values.Has(kConfigFlag)) FS_TRY(ApplyConfigFile(command, values.Text(kConfigFlag), &values));
  FS_TRY(CheckEffects(command, &values));
  return values;
}

}  // namespace firesteel
