#include <fmt/format.h>

#include <utility>

#include "model/weights.h"
#include "speculation/block_drafter_internal.h"
#include "speculation/draft_vocabulary_internal.h"

namespace firesteel {
namespace {

Status LoadLayers(Exec& exec, WeightReader& reader, const DecoderConfig& c,
                  BlockDrafterWeights* w) {
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

}  // namespace

Result<BlockDrafterWeights> LoadBlockDrafterWeights(Exec& exec, const std::string& directory,
                                                    const BlockDrafterConfig& config,
                                                    const Model& target) {
  const DecoderConfig& c = config.decoder;
  const int64_t h = c.hidden_size;
  BlockDrafterWeights w;
  FS_ASSIGN(w.tensors, Safetensors::Open(directory));
  FS_TRY(CheckFitsMemory(w.tensors, directory));
  WeightReader reader(w.tensors);
  FS_ASSIGN(w.draft_vocab, LoadDraftVocabulary(w.tensors, reader, config.draft_vocab_size,
                                               c.vocab_size, directory));
  FS_ASSIGN(w.tables,
            LoadSharedTables(exec, reader, config.draft_vocab_size, h, target, directory));
  FS_ASSIGN(const WeightSource fc,
            reader.Take("fc.weight", h, static_cast<int64_t>(config.target_layers.size()) * h));
  FS_ASSIGN(w.fc, reader.Pack(exec, {&fc, 1}));
  FS_ASSIGN(w.hidden_norm, reader.TakeVector("hidden_norm.weight", h));
  FS_TRY(LoadLayers(exec, reader, c, &w));
  FS_ASSIGN(w.norm, reader.TakeVector("norm.weight", h));
  FS_ASSIGN(w.head,
            MarkovHead::Load(exec, reader, config.head, c.vocab_size, config.draft_vocab_size, h));
  // Exports carry it for other engines; masks are embedded as the token that the config names.
  reader.Ignore("mask_embedding");
  FS_TRY(reader.CheckAllTaken());
  return w;
}

int64_t BlockDrafterWeights::BytesPerPass(int32_t max_tokens) const {
  int64_t bytes =
      fc.bytes() + context_kv.bytes() + tables.head().bytes() + head.BytesPerToken() * max_tokens;
  for (const DecoderLayer& layer : layers) bytes += layer.bytes();
  for (const DecoderLayer& layer : ballast) bytes += layer.bytes();
  return bytes + (hidden_norm.size() + norm.size()) * int64_t{sizeof(float)};
}

}  // namespace firesteel
