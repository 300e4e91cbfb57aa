#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/log.h"
#include "model/weights.h"
#include "speculation/drafter_checkpoint_internal.h"
#include "speculation/medusa_internal.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxHeads = 64;
constexpr int32_t kMaxLayers = 64;

Result<Safetensors> OpenHeads(const std::string& directory) {
  const auto has = [&](const char* file) {
    return std::filesystem::exists(std::filesystem::path(directory) / file);
  };
  const std::string own = directory + "/medusa_lm_head.safetensors";
  if (has("medusa_lm_head.safetensors")) return Safetensors::OpenFile(own);
  if (has("medusa_lm_head.pt") && !has("model.safetensors") &&
      !has("model.safetensors.index.json")) {
    return Unsupported(fmt::format(
        "{0}/medusa_lm_head.pt: is a PyTorch pickle, expected safetensors; convert it once: "
        "python3 "
        "-c \"import torch; from safetensors.torch import save_file; "
        "save_file(torch.load('{0}/medusa_lm_head.pt', map_location='cpu', weights_only=True), "
        "'{1}')\"",
        directory, own));
  }
  return Safetensors::Open(directory);
}

// Optional fields that some writers add: they must not contradict the target.
Status CheckSizes(const Json& config, const ModelInfo& target, const std::string& where) {
  FS_ASSIGN(const auto vocab, GetInt(config, "vocab_size", where));
  if (vocab) FS_TRY(RequireEqual("vocab_size", *vocab, target.vocab_size, where));
  FS_ASSIGN(const auto hidden, GetInt(config, "hidden_size", where));
  if (hidden) FS_TRY(RequireEqual("hidden_size", *hidden, target.hidden_size, where));
  return {};
}

Result<int32_t> CountHeads(const Safetensors& tensors, const Json& config, int32_t num_layers,
                           const std::string& directory) {
  const std::string where = directory + "/config.json";
  int32_t found = 0;
  while (found < kMaxHeads &&
         tensors.tensors().contains(fmt::format("{}.{}.weight", found, num_layers))) {
    ++found;
  }
  if (found == 0) {
    return DataCorrupt(
        fmt::format("{}: tensor 0.{}.weight is missing, expected the heads of Medusa with "
                    "medusa_num_layers {}",
                    directory, num_layers, num_layers));
  }
  FS_ASSIGN(const auto said, GetInt(config, "medusa_num_heads", where));
  if (said && *said != found) {
    FS_LOG_INFO("{}: medusa_num_heads is {}, the file holds {} heads: all of them are used", where,
                *said, found);
  }
  return found;
}

}  // namespace

int64_t MedusaHead::bytes() const {
  int64_t sum = output.bytes();
  for (const MedusaBlock& block : blocks) {
    sum += block.weight.bytes() + block.bias.size() * int64_t{sizeof(float)};
  }
  return sum;
}

Result<std::vector<MedusaHead>> LoadMedusaHeads(Exec& exec, const std::string& directory,
                                                const Json& config, const ModelInfo& target) {
  const std::string where = directory + "/config.json";
  FS_TRY(CheckSizes(config, target, where));
  int32_t num_layers = 1;
  if (const auto it = config.find("medusa_num_layers"); it != config.end() && !it->is_null()) {
    FS_ASSIGN(num_layers, RequireInt(config, "medusa_num_layers", 0, kMaxLayers, where));
  }
  FS_ASSIGN(const Safetensors tensors, OpenHeads(directory));
  FS_TRY(CheckFitsMemory(tensors, directory));
  FS_ASSIGN(const int32_t num_heads, CountHeads(tensors, config, num_layers, directory));
  const int64_t h = target.hidden_size;
  WeightReader reader(tensors);
  std::vector<MedusaHead> heads;
  for (int32_t i = 0; i < num_heads; ++i) {
    MedusaHead head;
    for (int32_t j = 0; j < num_layers; ++j) {
      const std::string prefix = fmt::format("{}.{}.linear.", i, j);
      MedusaBlock block;
      FS_ASSIGN(const WeightSource weight, reader.Take(prefix + "weight", h, h));
      FS_ASSIGN(block.weight, reader.Pack(exec, {&weight, 1}));
      FS_ASSIGN(block.bias, reader.TakeVector(prefix + "bias", h));
      head.blocks.push_back(std::move(block));
    }
    FS_ASSIGN(const WeightSource output,
              reader.Take(fmt::format("{}.{}.weight", i, num_layers), target.vocab_size, h));
    FS_ASSIGN(head.output, reader.Pack(exec, {&output, 1}));
    heads.push_back(std::move(head));
  }
  FS_TRY(reader.CheckAllTaken());
  return heads;
}

}  // namespace firesteel
