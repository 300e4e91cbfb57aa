#include "speculation/drafters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/option_map.h"
#include "model/architectures.h"
#include "model/config.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

constexpr DrafterEntry kDrafters[] = {
    {"none", "one token per step, no speculation", &MakeNone},
    {"ngram", "what followed the last tokens earlier in the same request; needs no weights",
     &MakeNgram},
    {"suffix", "what followed in the same request and in past outputs of the same tenant",
     &MakeSuffix},
    {"draft_model", "a small model of the same vocabulary drafts token by token", &MakeDraftModel},
    {"medusa", "heads over the target's last state, one for each later token", &MakeMedusa},
    {"dspark", "block drafter over the target's features, from a DSpark checkpoint", &MakeDspark},
    {"dflash", "block drafter whose tokens are drawn each by itself, from a DFlash checkpoint",
     &MakeDflash},
    {"eagle", "one layer that continues the target's last hidden state, from an EAGLE checkpoint",
     &MakeEagle},
    {"eagle3", "one layer over several of the target's features, from an EAGLE-3 checkpoint",
     &MakeEagle3},
};

// Which drafter reads a checkpoint, by what its config.json calls itself.
struct NameOfCheckpoint {
  std::string_view name;
  std::string_view method;
};
constexpr NameOfCheckpoint kArchitectures[] = {
    {"Qwen3DSparkModel", "dspark"},
    {"DFlashDraftModel", "dflash"},
    {"MedusaModel", "medusa"},
    {"EagleLlamaForCausalLM", "eagle"},
    {"LlamaForCausalLMEagle", "eagle"},
    {"Qwen3Eagle3Model", "eagle3"},
    {"LlamaForCausalLMEagle3", "eagle3"},
    {"Eagle3LlamaForCausalLM", "eagle3"},
    {"Eagle3Speculator", "eagle3"},
    {"Eagle3DraftModel", "eagle3"},
};
constexpr NameOfCheckpoint kSpeculators[] = {
    {"dspark", "dspark"},
    {"dflash", "dflash"},
    {"eagle3", "eagle3"},
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

std::span<const NameOfCheckpoint> NamesUnder(std::string_view key) {
  if (key == "speculators_model_type") return kSpeculators;
  return kArchitectures;
}

std::string MethodOf(std::string_view key, std::string_view value) {
  for (const auto& [name, method] : NamesUnder(key)) {
    if (name == value) return std::string(method);
  }
  return "";
}

// DeepSpec's DFlash is its DSpark class without a head.
bool HasDsparkHeads(const Json& config) {
  const Result<std::optional<int64_t>> rank = GetInt(config, "markov_rank", "");
  const Result<std::optional<bool>> confidence = GetBool(config, "enable_confidence_head", "");
  // What is not readable is for the drafter to complain about.
  return !rank.ok() || rank->value_or(0) != 0 || !confidence.ok() || confidence->value_or(false);
}

Result<std::string> ChooseMethod(const std::string& directory) {
  if (directory.empty()) return std::string("none");
  FS_ASSIGN(const Json config, ReadConfigJson(directory));
  const std::string where = directory + "/config.json";
  FS_ASSIGN(const CheckpointKind kind, IdentifyCheckpoint(config, where));
  if (kind.method.empty()) return WrongCheckpoint(kind, "auto", where);
  return kind.method;
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

Result<CheckpointKind> IdentifyCheckpoint(const Json& config, const std::string& where) {
  FS_ASSIGN(const auto speculators, GetString(config, "speculators_model_type", where));
  if (speculators) {
    return CheckpointKind{"speculators_model_type", *speculators,
                          MethodOf("speculators_model_type", *speculators)};
  }
  const auto dflash = config.find("dflash_config");
  if (!config.contains("architectures") && dflash != config.end() && dflash->is_object()) {
    return CheckpointKind{"dflash_config", "", "dflash"};
  }
  // Medusa's own configs name no architecture.
  if (!config.contains("architectures") && config.contains("medusa_num_heads")) {
    return CheckpointKind{"medusa_num_heads", "", "medusa"};
  }
  FS_ASSIGN(const std::string architecture, ReadArchitecture(config, where));
  CheckpointKind kind{"architecture", architecture, MethodOf("architecture", architecture)};
  const auto is_target = [&](const ArchitectureEntry& e) { return e.name == architecture; };
  if (kind.method.empty() && std::ranges::any_of(Architectures(), is_target)) {
    kind.method = "draft_model";
  }
  if (architecture == "Qwen3DSparkModel" && !HasDsparkHeads(config)) kind.method = "dflash";
  return kind;
}

Status WrongCheckpoint(const CheckpointKind& kind, std::string_view method,
                       const std::string& where) {
  const std::string found = kind.value.empty()
                                ? "has " + kind.key
                                : fmt::format("{} is {}", kind.key, Quoted(kind.value));
  if (!kind.method.empty()) {
    return Unsupported(
        fmt::format("{}: {}, which method {} does not read: expected method {}, or auto", where,
                    found, method, kind.method));
  }
  std::vector<std::string> known;
  for (const NameOfCheckpoint& entry : NamesUnder(kind.key)) known.emplace_back(entry.name);
  if (kind.key == "architecture") {
    for (const ArchitectureEntry& entry : Architectures()) known.emplace_back(entry.name);
  }
  return Unsupported(fmt::format("{}: {}, no drafter of this build reads it: {}", where, found,
                                 Expected(kind.value, known)));
}

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
