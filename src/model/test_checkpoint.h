// Small checkpoints with random weights, written and read by tests.
#pragma once

#include <stdlib.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "kernels/convert.h"
#include "tensor/dtype.h"

namespace firesteel {

// A directory that is removed with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "firesteel-XXXXXX").string();
    FS_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& file, std::string_view content) const {
    std::ofstream(path_ + "/" + file, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

struct TestTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};
using TestTensors = std::map<std::string, TestTensor>;

// A safetensors file: header length, header, data.
inline std::string SafetensorsFile(std::string_view header, std::string_view data) {
  const uint64_t size = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  return file.append(header).append(data);
}

inline std::string SafetensorsFile(const TestTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", Name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = DumpJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return SafetensorsFile(text, data);
}

// Uniform in mean ± scale, from the name: the same weights in every run and whatever else is
// written. kF32 or kBF16.
inline TestTensor RandomTensor(const std::string& name, std::vector<int64_t> shape, DType dtype,
                               float scale, float mean = 0) {
  int64_t n = 1;
  for (const int64_t dimension : shape) n *= dimension;
  TestTensor tensor{dtype, std::move(shape),
                    std::string(static_cast<size_t>(n) * SizeOf(dtype), '\0')};
  uint32_t key = 2166136261u;
  for (const char c : name) key = (key ^ static_cast<uint8_t>(c)) * 16777619u;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {key, 1})[0];
    const float value = mean + scale * static_cast<float>(2 * UniformOpen(bits) - 1);
    char* out = tensor.bytes.data() + static_cast<size_t>(i) * SizeOf(dtype);
    const uint16_t rounded = F32ToBF16(value);
    if (dtype == DType::kF32) std::memcpy(out, &value, 4);
    if (dtype == DType::kBF16) std::memcpy(out, &rounded, 2);
  }
  return tensor;
}

// vocab 512, hidden 64, 6 layers, 4 heads over 2 of dimension 32 (not hidden / heads), MLP 128,
// tied.
inline Json TinyQwen3Config() {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"vocab_size", 512},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 6},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 32},
          {"rope_theta", 1e6},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 512},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"},
          {"eos_token_id", 1}};
}

// The same as Llama 3 has it: no norms per head, scaled rotation.
inline Json TinyLlamaConfig() {
  Json config = TinyQwen3Config();
  config["architectures"] = {"LlamaForCausalLM"};
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  return config;
}

// The layers' tensors of a config like the above under `prefix` ("model.layers.", "layers.").
inline void AddRandomLayers(const Json& config, const std::string& prefix, DType dtype,
                            TestTensors* out) {
  const int64_t h = config["hidden_size"], f = config["intermediate_size"], d = config["head_dim"];
  const int64_t q = config["num_attention_heads"].get<int64_t>() * d;
  const int64_t kv = config["num_key_value_heads"].get<int64_t>() * d;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float mean = 0) {
    const float scale = mean == 0 ? 2.0f / std::sqrt(static_cast<float>(shape.back())) : 0.2f;
    (*out)[name] = RandomTensor(name, std::move(shape), dtype, scale, mean);
  };
  for (int64_t l = 0; l < config["num_hidden_layers"].get<int64_t>(); ++l) {
    const std::string p = prefix + std::to_string(l) + ".";
    add(p + "input_layernorm.weight", {h}, 1);
    add(p + "post_attention_layernorm.weight", {h}, 1);
    add(p + "self_attn.q_proj.weight", {q, h});
    add(p + "self_attn.k_proj.weight", {kv, h});
    add(p + "self_attn.v_proj.weight", {kv, h});
    add(p + "self_attn.o_proj.weight", {h, q});
    if (config["architectures"][0].get<std::string>().starts_with("Qwen3")) {
      add(p + "self_attn.q_norm.weight", {d}, 1);
      add(p + "self_attn.k_norm.weight", {d}, 1);
    }
    add(p + "mlp.gate_proj.weight", {f, h});
    add(p + "mlp.up_proj.weight", {f, h});
    add(p + "mlp.down_proj.weight", {h, f});
  }
}

// Of Qwen3 or Llama.
inline TestTensors RandomQwen3(const Json& config, DType dtype) {
  TestTensors tensors;
  const int64_t v = config["vocab_size"], h = config["hidden_size"];
  AddRandomLayers(config, "model.layers.", dtype, &tensors);
  tensors["model.norm.weight"] = RandomTensor("model.norm.weight", {h}, dtype, 0.2f, 1);
  tensors["model.embed_tokens.weight"] =
      RandomTensor("model.embed_tokens.weight", {v, h}, dtype, 1);
  if (!config["tie_word_embeddings"].get<bool>()) {
    tensors["lm_head.weight"] = RandomTensor("lm_head.weight", {v, h}, dtype, 1);
  }
  return tensors;
}

inline void WriteCheckpoint(const TempDir& directory, const Json& config,
                            const TestTensors& tensors) {
  directory.Write("config.json", DumpJson(config));
  directory.Write("model.safetensors", SafetensorsFile(tensors));
}

}  // namespace firesteel
