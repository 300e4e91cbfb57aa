// config.json and generation_config.json of an HF checkpoint, checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "firesteel/request.h"
#include "firesteel/status.h"
#include "kernels/row_ops.h"

namespace firesteel {

// The fields of a dense decoder of the Qwen3 and Llama families; also of the drafters that copy
// them.
struct DecoderConfig {
  std::string architecture;
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;  // read, never derived: Qwen3-4B has 128 with hidden / heads = 80
  bool qk_norms = true;  // an RMSNorm for each head of q and k: Qwen3's, by the architecture's name
  double rope_theta = 0;
  RopeScaling rope_scaling;
  float norm_eps = 0;
  int32_t max_positions = 0;
  bool tie_embeddings = false;
  std::vector<int32_t> eos_ids;
};

// Reads `directory`/config.json. kNotFound without one; kInvalidArgument names the field, what was
// found and expected.
Result<Json> ReadConfigJson(const std::string& directory);
// The one name in `architectures`. `where` prefixes messages, here and below.
Result<std::string> ReadArchitecture(const Json& config, const std::string& where);
// Refuses what this engine does not compute: sliding windows in use, rope scaling other than
// llama3, attention biases, another activation than silu, quantized weights. Only Qwen3's configs
// must name rope_theta: Llama's may leave it out, and mean 10000.
Result<DecoderConfig> ParseDecoderConfig(const Json& config, const std::string& where);
// End tokens of generation_config.json (eos_token_id: a number or a list), else the config's.
Result<std::vector<int32_t>> ReadEosIds(const std::string& directory, const Json& config);
// SamplingParams' defaults, replaced by what generation_config.json holds of temperature, top_p,
// top_k, min_p and repetition_penalty (vLLM's choice of keys; do_sample is no parameter). Ranges
// are not checked.
Result<SamplingParams> ReadSamplingDefaults(const std::string& directory);

}  // namespace firesteel
