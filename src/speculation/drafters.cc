#include "speculation/drafters.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/option_map.h"
#include "model/config.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

constexpr DrafterEntry kDrafters[] = {
    {"none", "one token per step, no speculation", &MakeNone},
    {"ngram", "what followed the last tokens earlier in the same request; needs no weights",
     &MakeNgram},
    {"dspark", "block drafter over the target's features, from a DSpark checkpoint", &MakeDspark},
};

// Which drafter reads a checkpoint, by its config.json.
struct ArchitectureOfDrafter {
  std::string_view architecture;
  std::string_view method;
};
constexpr ArchitectureOfDrafter kArchitectures[] = {
    {"Qwen3DSparkModel", "dspark"},
};

// The names of a table for a message, and the one that was perhaps meant.
std::string Expected(std::string_view found, std::span<const std::string> names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    list += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    list += names[i];
  }
  const std::string nearest = NearestName(found, names);
  return fmt::format("expected {}{}", list,
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

std::string Quoted(const std::string& name) { return DumpJson(name).substr(0, 100); }

Result<std::string> ChooseMethod(const std::string& directory) {
  if (directory.empty()) return std::string("none");
  FS_ASSIGN(const Json config, ReadConfigJson(directory));
  const std::string where = directory + "/config.json";
  FS_ASSIGN(const std::string found, ReadArchitecture(config, where));
  std::vector<std::string> known;
  for (const auto& [architecture, method] : kArchitectures) {
    if (architecture == found) return std::string(method);
    known.emplace_back(architecture);
  }
  return Unsupported(fmt::format("{}: architecture is {}, no drafter of this build reads it: {}",
                                 where, Quoted(found), Expected(found, known)));
}

Status CheckOptions(const SpeculationOptions& options) {
  const std::vector<std::string> rules = {"auto", "match", "rejection", "block"};
  if (std::ranges::find(rules, options.verify) == rules.end()) {
    return InvalidArgument(fmt::format("speculation verify is {}, {}", Quoted(options.verify),
                                       Expected(options.verify, rules)));
  }
  if (options.tokens < 0) {
    return InvalidArgument(
        fmt::format("speculation tokens is {}, expected 0 (automatic) or more", options.tokens));
  }
  if (!(options.confidence_threshold >= 0 && options.confidence_threshold <= 1)) {
    return InvalidArgument(fmt::format("speculation confidence threshold is {}, expected 0 to 1",
                                       options.confidence_threshold));
  }
  return {};
}

}  // namespace

std::span<const DrafterEntry> Drafters() { return kDrafters; }

Result<std::unique_ptr<Drafter>> MakeDrafter(const DrafterContext& context) {
  FS_TRY(CheckOptions(context.options));
  std::string method = context.options.method;
  if (method == "auto") {
    FS_ASSIGN(method, ChooseMethod(context.options.model));
  }
  std::vector<std::string> names = {"auto"};
  for (const DrafterEntry& entry : kDrafters) {
    if (entry.name == method) return entry.make(context);
    names.emplace_back(entry.name);
  }
  return InvalidArgument(
      fmt::format("speculation method is {}, {}", Quoted(method), Expected(method, names)));
}

}  // namespace firesteel
