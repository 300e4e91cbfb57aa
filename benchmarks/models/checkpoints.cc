#include "models/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "kernels/convert.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "models/safetensors_writer.h"

namespace firesteel {
namespace {

using Source = std::function<void(int64_t r, std::span<uint16_t> row)>;

Source Constant(float value) {
  return [bits = F32ToBF16(value)](int64_t, std::span<uint16_t> row) {
    std::fill(row.begin(), row.end(), bits);
  };
}

// Uniform of standard deviation 1 / sqrt(inputs), so that activations keep their size.
Source Random(uint64_t seed, int64_t inputs) {
  return [=](int64_t r, std::span<uint16_t> row) {
    const float scale = std::sqrt(12.0f / static_cast<float>(inputs)) / 65536;
    uint64_t state = (seed << 32) + static_cast<uint64_t>(r);
    for (size_t i = 0; i < row.size(); i += 4) {
      // SplitMix64: four elements from each number.
      state += 0x9e3779b97f4a7c15;
      uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
      z = (z ^ z >> 27) * 0x94d049bb133111eb;
      z ^= z >> 31;
      for (size_t j = i; j < std::min(i + 4, row.size()); ++j, z >>= 16) {
        row[j] = F32ToBF16(static_cast<float>(static_cast<int16_t>(z & 0xffff)) * scale);
      }
    }
  };
}

// Rows and columns beyond those of `tensor` are zero.
Source Padded(const TensorInfo& tensor) {
  const int64_t cols = tensor.shape.back(), rows = tensor.NumElements() / cols;
  return [data = tensor.data, rows, cols](int64_t r, std::span<uint16_t> row) {
    std::fill(row.begin(), row.end(), uint16_t{0});
    if (r < rows) std::memcpy(row.data(), data + r * cols * 2, static_cast<size_t>(cols) * 2);
  };
}

struct LayerShapes {
  int64_t hidden, q, kv, head_dim, mlp;
};

struct LayerTensor {
  const char* name;
  std::vector<int64_t> shape;
};

std::vector<LayerTensor> LayerTensors(const LayerShapes& s) {
  return {{"input_layernorm", {s.hidden}},        {"post_attention_layernorm", {s.hidden}},
          {"self_attn.q_norm", {s.head_dim}},     {"self_attn.k_norm", {s.head_dim}},
          {"self_attn.q_proj", {s.q, s.hidden}},  {"self_attn.k_proj", {s.kv, s.hidden}},
          {"self_attn.v_proj", {s.kv, s.hidden}}, {"self_attn.o_proj", {s.hidden, s.q}},
          {"mlp.gate_proj", {s.mlp, s.hidden}},   {"mlp.up_proj", {s.mlp, s.hidden}},
          {"mlp.down_proj", {s.hidden, s.mlp}}};
}

// A layer of random weights; `silent`: one that adds nothing.
void AddLayer(int64_t l, const LayerShapes& shapes, bool silent,
              std::vector<TensorToWrite>* tensors) {
  for (LayerTensor& m : LayerTensors(shapes)) {
    const std::string name = m.name;
    const bool output = name == "self_attn.o_proj" || name == "mlp.down_proj";
    Source source = m.shape.size() == 1 ? Constant(1)
                    : silent && output  ? Constant(0)
                                        : Random(tensors->size() + 1, m.shape.back());
    tensors->push_back(
        {fmt::format("model.layers.{}.{}.weight", l, name), m.shape, std::move(source)});
  }
}

Status WriteConfig(const std::string& directory, const Json& config) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return InvalidArgument(fmt::format("{}: {}", directory, error.message()));
  return WriteFileAtomically(directory + "/config.json", DumpJson(config, 2));
}

}  // namespace

Status WriteRandomQwen3(const std::string& directory) {
  const LayerShapes shapes{.hidden = 1024, .q = 2048, .kv = 1024, .head_dim = 128, .mlp = 3072};
  constexpr int64_t kLayers = 28, kVocabulary = 151936;
  FS_TRY(WriteConfig(directory, {{"architectures", {"Qwen3ForCausalLM"}},
                                 {"vocab_size", kVocabulary},
                                 {"hidden_size", shapes.hidden},
                                 {"intermediate_size", shapes.mlp},
                                 {"num_hidden_layers", kLayers},
                                 {"num_attention_heads", shapes.q / shapes.head_dim},
                                 {"num_key_value_heads", shapes.kv / shapes.head_dim},
                                 {"head_dim", shapes.head_dim},
                                 {"rope_theta", 1e6},
                                 {"rms_norm_eps", 1e-6},
                                 {"max_position_embeddings", 40960},
                                 {"tie_word_embeddings", true},
                                 {"hidden_act", "silu"},
                                 {"eos_token_id", 151645},
                                 {"torch_dtype", "bfloat16"}}));
  std::vector<TensorToWrite> tensors;
  tensors.push_back(
      {"model.embed_tokens.weight", {kVocabulary, shapes.hidden}, Random(0, shapes.hidden)});
  for (int64_t l = 0; l < kLayers; ++l) AddLayer(l, shapes, false, &tensors);
  tensors.push_back({"model.norm.weight", {shapes.hidden}, Constant(1)});
  return WriteSafetensors(directory + "/model.safetensors", tensors);
}

Status WriteBallasted(const std::string& checkpoint, int32_t layers, int32_t width,
                      const std::string& directory) {
  FS_ASSIGN(Json json, ReadConfigJson(checkpoint));
  FS_ASSIGN(const DecoderConfig config, ParseDecoderConfig(json, checkpoint + "/config.json"));
  FS_ASSIGN(const Safetensors stored, Safetensors::Open(checkpoint));
  if (width < config.intermediate_size) {
    return InvalidArgument(fmt::format("ballast: width {}, expected at least the model's {}", width,
                                       config.intermediate_size));
  }
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : stored.tensors()) {
    if (tensor.dtype != DType::kBF16) {
      return Unsupported(
          fmt::format("{}: tensor {} is {}, expected BF16", tensor.file, name, Name(tensor.dtype)));
    }
    std::vector<int64_t> shape = tensor.shape;
    if (name.ends_with("gate_proj.weight") || name.ends_with("up_proj.weight")) shape[0] = width;
    if (name.ends_with("down_proj.weight")) shape[1] = width;
    tensors.push_back({name, std::move(shape), Padded(tensor)});
  }
  const int64_t head_dim = config.head_dim;
  const LayerShapes shapes{.hidden = config.hidden_size,
                           .q = config.num_heads * head_dim,
                           .kv = config.num_kv_heads * head_dim,
                           .head_dim = head_dim,
                           .mlp = width};
  for (int32_t l = 0; l < layers; ++l) AddLayer(config.num_layers + l, shapes, true, &tensors);
  json["num_hidden_layers"] = config.num_layers + layers;
  json["intermediate_size"] = width;
  if (json.contains("max_window_layers")) json["max_window_layers"] = config.num_layers + layers;
  FS_TRY(WriteConfig(directory, json));
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    std::error_code error;  // a file that is not there is no fault
    std::filesystem::copy_file(checkpoint + "/" + file, directory + "/" + file,
                               std::filesystem::copy_options::overwrite_existing, error);
  }
  return WriteSafetensors(directory + "/model.safetensors", tensors);
}

}  // namespace firesteel
