#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/demo_model.h"
#include "cli/drafter_fit.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "tensor/dtype.h"
#include "tensor/paged_view.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

std::string Bytes(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) * 1e-3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
}

std::string Count(int64_t n) {
  if (n < 1'000'000) return fmt::format("{}", n);
  if (n < 1'000'000'000) return fmt::format("{:.2f} million", static_cast<double>(n) * 1e-6);
  return fmt::format("{:.2f} billion", static_cast<double>(n) * 1e-9);
}

template <typename... Args>
void Line(std::string_view label, fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("  {:<14}{}\n", label, fmt::format(format, std::forward<Args>(args)...));
}

std::string Architecture(const Json& config) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array() || it->empty() || !it->front().is_string())
    return "not named";
  return it->front().get<std::string>();
}

void PrintDecoder(const DecoderConfig& c) {
  Line("layers", "{}, hidden {}, MLP {}", c.num_layers, c.hidden_size, c.intermediate_size);
  Line("attention", "{} heads and {} KV heads of {}", c.num_heads, c.num_kv_heads, c.head_dim);
  Line("vocabulary", "{}, {} head", c.vocab_size, c.tie_embeddings ? "tied" : "own");
  const std::string scaling = c.rope_scaling.factor == 1
                                  ? ""
                                  : fmt::format(", llama3 scaling by {}", c.rope_scaling.factor);
  Line("positions", "{}, rope theta {}{}", c.max_positions, c.rope_theta, scaling);
  const struct {
    const char* name;
    DType dtype;
  } kKinds[] = {{"float32", DType::kF32}, {"bfloat16", DType::kBF16}, {"fp8", DType::kF8E4M3}};
  std::vector<std::string> per_token, per_context;
  for (const auto& kind : kKinds) {
    const RowFormat row{.dtype = kind.dtype, .heads = c.num_kv_heads, .head_dim = c.head_dim};
    const int64_t bytes = 2 * c.num_layers * row.RowBytes();
    per_token.push_back(fmt::format("{} {}", kind.name, Bytes(bytes)));
    per_context.push_back(fmt::format("{} {}", kind.name, Bytes(bytes * c.max_positions)));
  }
  Line("KV per token", "{}", fmt::join(per_token, ", "));
  Line("KV, all", "{} at {} positions", fmt::join(per_context, ", "), c.max_positions);
}

void PrintDrafter(const Json& config) {
  if (const auto it = config.find("block_size"); it != config.end())
    Line("draft block", "{} tokens", DumpJson(*it));
  const auto dflash = config.find("dflash_config");
  const Json& drafting = dflash != config.end() && dflash->is_object() ? *dflash : config;
  if (const auto it = drafting.find("target_layer_ids"); it != drafting.end())
    Line("features", "target layers {}", DumpJson(*it));
  if (const auto it = config.find("aux_hidden_state_layer_ids"); it != config.end())
    Line("features", "what enters target layers {}", DumpJson(*it));
  if (const auto it = config.find("markov_rank"); it != config.end())
    Line("Markov head", "rank {}, {}", DumpJson(*it),
         config.contains("markov_head_type") ? DumpJson(config["markov_head_type"]) : "vanilla");
  if (const auto it = config.find("draft_vocab_size"); it != config.end())
    Line("draft tokens", "{} of the vocabulary", DumpJson(*it));
}

void PrintTensors(const Safetensors& tensors, bool list) {
  struct Group {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<std::string_view, Group> by_dtype;
  int64_t elements = 0, bytes = 0;
  for (const auto& [name, info] : tensors.tensors()) {
    const int64_t n = info.NumElements();
    const int64_t size = n * static_cast<int64_t>(SizeOf(info.dtype));
    Group& group = by_dtype[Name(info.dtype)];
    ++group.tensors;
    group.elements += n;
    group.bytes += size;
    elements += n;
    bytes += size;
  }
  Line("parameters", "{} in {} tensors, {}", Count(elements), tensors.tensors().size(),
       Bytes(bytes));
  for (const auto& [dtype, group] : by_dtype) {
    Line("", "{}: {} in {} tensors, {}", dtype, Count(group.elements), group.tensors,
         Bytes(group.bytes));
  }
  if (!list) return;
  for (const auto& [name, info] : tensors.tensors()) {
    fmt::print("  {:<60} {:<8} [{}]\n", name, Name(info.dtype), fmt::join(info.shape, ", "));
  }
}

void PrintFiles(const std::string& directory) {
  std::map<std::string, int64_t> sizes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_regular_file(error))
      sizes[entry.path().filename().string()] = static_cast<int64_t>(entry.file_size(error));
  }
  bool first = true;
  for (const auto& [name, size] : sizes) {
    Line(first ? "files" : "", "{} {}", name, Bytes(size));
    first = false;
  }
}

Status Inspect(const std::string& directory, const std::string& drafter, bool list_tensors) {
  FS_ASSIGN(const Json config, ReadConfigJson(directory));
  FS_ASSIGN(const Safetensors tensors, Safetensors::Open(directory));
  fmt::print("{}\n", directory);
  Line("architecture", "{}", Architecture(config));
  const Result<DecoderConfig> decoder = ParseDecoderConfig(config, directory + "/config.json");
  if (decoder.ok()) {
    PrintDecoder(*decoder);
  } else {
    Line("not runnable", "{}", decoder.status().message());
  }
  PrintDrafter(config);
  PrintTensors(tensors, list_tensors);
  PrintFiles(directory);
  if (drafter.empty()) return {};
  if (!decoder.ok()) return decoder.status();
  FS_ASSIGN(const Json drafter_config, ReadConfigJson(drafter));
  FS_TRY(CheckDrafterFits(*decoder, drafter_config, drafter + "/config.json"));
  FS_ASSIGN(const Safetensors drafter_tensors, Safetensors::Open(drafter));
  fmt::print("{}\n", drafter);
  Line("architecture", "{}", Architecture(drafter_config));
  PrintDrafter(drafter_config);
  PrintTensors(drafter_tensors, list_tensors);
  fmt::print("the drafter fits the target\n");
  return {};
}

}  // namespace

CommandSpec InspectCommandSpec() {
  return {.name = "inspect",
          .summary =
              "Say what a checkpoint is: architecture, parameters, types, memory, whether a "
              "drafter fits",
          .positional = "MODEL",
          .positional_help =
              "directory of a Hugging Face checkpoint; without it, the bundled demo model",
          .flags = {{"--spec-model",
                     FlagKind::kValue,
                     "DIR",
                     "none",
                     "drafter checkpoint to check against MODEL",
                     {}},
                    {"--tensors", FlagKind::kSwitch, "", "off", "list every tensor", {}}},
          .has_config = false};
}

int InspectCommand(const std::vector<std::string>& args) {
  const CommandSpec command = InspectCommandSpec();
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, args, &values)) return *exit_code;
  std::string directory = values.positional;
  if (directory.empty()) {
    const Result<std::string> demo = FindBundledModel("demo/target");
    if (!demo.ok()) return FinishCommand(command, demo.status());
    directory = *demo;
  }
  const bool list_tensors = values.Text("--tensors") == "true";
  return FinishCommand(command,
                       AsModelFault(Inspect(directory, values.Text("--spec-model"), list_tensors)));
}

}  // namespace firesteel
