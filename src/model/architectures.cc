#include "model/architectures.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/architectures_internal.h"
#include "model/config.h"

namespace firesteel {
namespace {

constexpr ArchitectureEntry kArchitectures[] = {
    {"Qwen3ForCausalLM", &MakeDenseDecoder},
    {"LlamaForCausalLM", &MakeDenseDecoder},
};

constexpr int32_t kMaxPositions = 1 << 22;

}  // namespace

std::span<const ArchitectureEntry> Architectures() { return kArchitectures; }

Result<PackFormats> FormatsOf(const LoadOptions& options) {
  const std::string& dtype = options.weight_dtype;
  if (dtype == "auto" || dtype == "fp8") return PackFormats{};
  if (dtype == "float32") return PackFormats{WeightFormat::kF32, WeightFormat::kF32};
  if (dtype == "bfloat16") return PackFormats{WeightFormat::kBF16, WeightFormat::kBF16};
  if (dtype == "int8") return PackFormats{WeightFormat::kInt8, WeightFormat::kInt8};
  if (dtype == "int4") return PackFormats{WeightFormat::kInt4, WeightFormat::kInt8};
  return InvalidArgument(fmt::format(
      "weight dtype is \"{}\", expected auto, float32, bfloat16, fp8, int8 or int4", dtype));
}

Status CheckStoredFormat(const LoadOptions& options, const std::string& directory,
                         const Safetensors& tensors) {
  const auto is_fp8 = [](const auto& entry) { return entry.second.dtype == DType::kF8E4M3; };
  if (options.weight_dtype != "fp8" || std::ranges::any_of(tensors.tensors(), is_fp8)) return {};
  return Unsupported(
      fmt::format("{}: weight dtype is fp8, but no tensor is F8_E4M3 (fp8 is read, not made): "
                  "expected auto, float32, bfloat16, int8 or int4",
                  directory));
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
