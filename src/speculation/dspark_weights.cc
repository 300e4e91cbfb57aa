#include <fmt/format.h>

#include <utility>

#include "model/weights.h"
#include "speculation/drafter_checkpoint_internal.h"
#include "speculation/dspark_internal.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxBlock = 64;
constexpr int32_t kMaxRank = 1 << 16;

Status LoadLayers(Exec& exec, WeightReader& reader, const DecoderConfig& c, DsparkWeights* w) {
  std::vector<WeightSource> context;
  const int64_t kv_width = int64_t{c.num_kv_heads} * c.head_dim;
  for (int32_t l = 0; l < c.num_layers; ++l) {
    const std::string prefix = fmt::format("layers.{}.", l);
    FS_ASSIGN(DecoderLayer layer, LoadDecoderLayer(exec, reader, prefix, c));
    w->layers.push_back(std::move(layer));
    for (const char* which : {"self_attn.k_proj.weight", "self_attn.v_proj.weight"}) {
      FS_ASSIGN(WeightSource view, reader.Take(prefix + which, kv_width, c.hidden_size));
      context.push_back(std::move(view));
    }
  }
  FS_ASSIGN(w->context_kv, reader.Pack(exec, context));
  return {};
}

Status LoadHeads(Exec& exec, WeightReader& reader, const DsparkConfig& config, DsparkWeights* w) {
  const int64_t v = config.decoder.vocab_size, h = config.decoder.hidden_size,
                r = config.markov_rank;
  if (r > 0) {
    FS_ASSIGN(w->markov_w1, reader.TakeTable("markov_head.markov_w1.weight", v, r));
    FS_ASSIGN(const WeightSource w2, reader.Take("markov_head.markov_w2.weight", v, r));
    FS_ASSIGN(w->markov_w2, reader.Pack(exec, {&w2, 1}));
  }
  if (config.confidence) {
    const int64_t width = config.confidence_with_markov ? h + r : h;
    FS_ASSIGN(w->confidence, reader.TakeRow("confidence_head.proj.weight", width));
    FS_ASSIGN(const Buffer<float> bias, reader.TakeVector("confidence_head.proj.bias", 1));
    w->confidence_bias = *bias.data();
  }
  return {};
}

}  // namespace

Result<DsparkConfig> ParseDsparkConfig(const Json& config, const ModelInfo& target,
                                       const std::string& where) {
  DsparkConfig c;
  FS_ASSIGN(c.decoder, ParseDecoderConfig(config, where));
  if (c.decoder.architecture != "Qwen3DSparkModel") {
    return Unsupported(
        fmt::format("{}: architecture is {}, the dspark drafter reads Qwen3DSparkModel", where,
                    DumpJson(c.decoder.architecture).substr(0, 100)));
  }
  FS_TRY(RequireEqual("vocab_size", c.decoder.vocab_size, target.vocab_size, where));
  FS_TRY(RequireEqual("hidden_size", c.decoder.hidden_size, target.hidden_size, where));
  FS_ASSIGN(const int64_t target_layers,
            RequireInt(config, "num_target_layers", 1, 1 << 20, where));
  FS_TRY(RequireEqual("num_target_layers", target_layers, target.num_layers, where));
  FS_ASSIGN(c.block_size, RequireInt(config, "block_size", 1, kMaxBlock, where));
  FS_ASSIGN(c.mask_token, RequireInt(config, "mask_token_id", 0, c.decoder.vocab_size - 1, where));
  FS_ASSIGN(c.target_layers, ParseTargetLayers(config, target, where));
  if (const auto rank = config.find("markov_rank"); rank != config.end() && !rank->is_null()) {
    FS_ASSIGN(c.markov_rank, RequireInt(config, "markov_rank", 0, kMaxRank, where));
  }
  FS_ASSIGN(const auto type, GetString(config, "markov_head_type", where));
  if (c.markov_rank > 0 && type.value_or("vanilla") != "vanilla") {
    return Unsupported(fmt::format("{}: markov_head_type is {}, this build computes vanilla only",
                                   where, DumpJson(*type).substr(0, 100)));
  }
  FS_ASSIGN(const auto confidence, GetBool(config, "enable_confidence_head", where));
  FS_ASSIGN(const auto with_markov, GetBool(config, "confidence_head_with_markov", where));
  c.confidence = confidence.value_or(false);
  c.confidence_with_markov = c.confidence && with_markov.value_or(false);
  if (c.confidence_with_markov && c.markov_rank == 0) {
    return InvalidArgument(
        fmt::format("{}: confidence_head_with_markov is true, but markov_rank is 0", where));
  }
  return c;
}

Result<DsparkWeights> LoadDsparkWeights(Exec& exec, const std::string& directory,
                                        const DsparkConfig& config, const Model& target) {
  const DecoderConfig& c = config.decoder;
  const int64_t h = c.hidden_size;
  DsparkWeights w;
  FS_ASSIGN(w.tensors, Safetensors::Open(directory));
  FS_TRY(CheckFitsMemory(w.tensors, directory));
  WeightReader reader(w.tensors);
  FS_ASSIGN(w.tables,
            LoadSharedTables(exec, reader, c.vocab_size, c.hidden_size, target, directory));
  FS_ASSIGN(const WeightSource fc,
            reader.Take("fc.weight", h, static_cast<int64_t>(config.target_layers.size()) * h));
  FS_ASSIGN(w.fc, reader.Pack(exec, {&fc, 1}));
  FS_ASSIGN(w.hidden_norm, reader.TakeVector("hidden_norm.weight", h));
  FS_TRY(LoadLayers(exec, reader, c, &w));
  FS_ASSIGN(w.norm, reader.TakeVector("norm.weight", h));
  FS_TRY(LoadHeads(exec, reader, config, &w));
  FS_TRY(reader.CheckAllTaken());
  return w;
}

int64_t DsparkWeights::BytesPerPass(int32_t block_size) const {
  int64_t bytes =
      fc.bytes() + context_kv.bytes() + tables.head().bytes() + markov_w2.bytes() * block_size;
  for (const DecoderLayer& layer : layers) bytes += layer.bytes();
  for (const DecoderLayer& layer : ballast) bytes += layer.bytes();
  return bytes + (hidden_norm.size() + norm.size() + confidence.size()) * int64_t{sizeof(float)};
}

}  // namespace firesteel
