#include "model/architectures.h"

#include <fmt/format.h>

#include "model/architectures_internal.h"
#include "model/config.h"

namespace firesteel {
namespace {

constexpr ArchitectureEntry kArchitectures[] = {
    {"Qwen3ForCausalLM", &MakeQwen3},
};

constexpr int32_t kMaxPositions = 1 << 22;

}  // namespace

std::span<const ArchitectureEntry> Architectures() { return kArchitectures; }

Result<std::optional<DType>> PackDType(const LoadOptions& options) {
  if (options.weight_dtype == "auto") return std::optional<DType>();
  if (options.weight_dtype == "float32") return std::optional(DType::kF32);
  if (options.weight_dtype == "bfloat16") return std::optional(DType::kBF16);
  return InvalidArgument(fmt::format("weight dtype is \"{}\", expected auto, float32 or bfloat16",
                                     options.weight_dtype));
}

Result<std::unique_ptr<Model>> LoadModel(Exec& exec, const std::string& directory,
                                         const LoadOptions& options) {
  if (options.max_positions < 0 || options.max_positions > kMaxPositions) {
    return InvalidArgument(
        fmt::format("max_positions is {}, expected 0 to {}", options.max_positions, kMaxPositions));
  }
  FS_ASSIGN(const Json config, ReadConfigJson(directory));
  FS_ASSIGN(const std::string architecture, ReadArchitecture(config, directory + "/config.json"));
  std::string known;
  for (const ArchitectureEntry& entry : kArchitectures) {
    if (entry.name == architecture) return entry.make(exec, directory, config, options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Unsupported(fmt::format("{}/config.json: architecture is {}, this build knows {}",
                                 directory, DumpJson(architecture).substr(0, 100), known));
}

}  // namespace firesteel
