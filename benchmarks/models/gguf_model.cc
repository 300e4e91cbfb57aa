#include "models/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/convert.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "models/gguf_vocabulary.h"
#include "models/gguf_writer.h"

namespace firesteel {
namespace {

struct TensorName {
  const char* hugging_face;
  const char* gguf;
};
constexpr TensorName kLayerTensors[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

class Converter {
 public:
  Converter(const Safetensors& tensors, GgufTypes types, GgufWriter* writer)
      : tensors_(tensors), types_(types), writer_(writer) {}

  Status Layer(int32_t l) {
    for (const TensorName& name : kLayerTensors) {
      FS_TRY(Add(fmt::format("model.layers.{}.{}.weight", l, name.hugging_face),
                 fmt::format("blk.{}.{}.weight", l, name.gguf), types_.matrices));
    }
    return {};
  }

  Status Add(const std::string& from, const std::string& to, GgmlType matrix_type) {
    const auto it = tensors_.tensors().find(from);
    if (it == tensors_.tensors().end()) {
      return DataCorrupt(fmt::format("checkpoint: tensor {} is missing", from));
    }
    const TensorInfo& tensor = it->second;
    if (tensor.shape.empty() || tensor.shape.size() > 2) {
      return Unsupported(fmt::format("{}: tensor {} has {} dimensions, expected 1 or 2",
                                     tensor.file, from, tensor.shape.size()));
    }
    const int64_t cols = tensor.shape.back();
    const WeightView view{tensor.data, tensor.dtype, tensor.NumElements() / cols, cols, from};
    std::vector<float> probe(static_cast<size_t>(cols));
    if (!WidenToF32(RowOf(view, 0), probe)) {
      return Unsupported(fmt::format("{}: tensor {} is {}", tensor.file, from, Name(tensor.dtype)));
    }
    writer_->AddTensor(
        to, tensor.shape.size() == 1 ? GgmlType::kF32 : matrix_type, view.rows, cols,
        [view](int64_t r, std::span<float> row) { WidenToF32(RowOf(view, r), row); });
    return {};
  }

 private:
  static WeightView RowOf(const WeightView& view, int64_t r) {
    const int64_t bytes = view.cols * static_cast<int64_t>(SizeOf(view.dtype));
    return {view.data + r * bytes, view.dtype, 1, view.cols, view.name};
  }

  const Safetensors& tensors_;
  GgufTypes types_;
  GgufWriter* writer_;
};

void AddConfig(const DecoderConfig& config, GgufWriter* writer) {
  const auto add = [&](const char* key, int32_t value) {
    writer->Add(fmt::format("qwen3.{}", key), static_cast<uint32_t>(value));
  };
  writer->Add("general.architecture", "qwen3");
  add("block_count", config.num_layers);
  add("context_length", config.max_positions);
  add("embedding_length", config.hidden_size);
  add("feed_forward_length", config.intermediate_size);
  add("attention.head_count", config.num_heads);
  add("attention.head_count_kv", config.num_kv_heads);
  add("attention.key_length", config.head_dim);
  add("attention.value_length", config.head_dim);
  writer->Add("qwen3.attention.layer_norm_rms_epsilon", config.norm_eps);
  writer->Add("qwen3.rope.freq_base", static_cast<float>(config.rope_theta));
}

}  // namespace

Status WriteGguf(const std::string& checkpoint, GgufTypes types, const std::string& path) {
  FS_ASSIGN(const Json json, ReadConfigJson(checkpoint));
  FS_ASSIGN(const DecoderConfig config, ParseDecoderConfig(json, checkpoint + "/config.json"));
  if (config.architecture != "Qwen3ForCausalLM") {
    return Unsupported(fmt::format("{}: architecture {}, expected Qwen3ForCausalLM", checkpoint,
                                   config.architecture));
  }
  FS_ASSIGN(const std::vector<int32_t> eos_ids, ReadEosIds(checkpoint, json));
  FS_ASSIGN(const Safetensors tensors, Safetensors::Open(checkpoint));
  GgufWriter writer;
  AddConfig(config, &writer);
  FS_TRY(AddVocabulary(checkpoint, config.vocab_size, eos_ids.empty() ? 0 : eos_ids[0], &writer));
  Converter converter(tensors, types, &writer);
  FS_TRY(converter.Add("model.embed_tokens.weight", "token_embd.weight", types.embedding));
  for (int32_t l = 0; l < config.num_layers; ++l) FS_TRY(converter.Layer(l));
  FS_TRY(converter.Add("model.norm.weight", "output_norm.weight", GgmlType::kF32));
  if (!config.tie_embeddings) {
    FS_TRY(converter.Add("lm_head.weight", "output.weight", types.embedding));
  }
  return writer.Write(path);
}

}  // namespace firesteel
