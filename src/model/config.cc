#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "base/mapped_file.h"
#include "kernels/paged_attention.h"

namespace firesteel {
namespace {

// Far above any published model and low enough that products of two stay within int64 and a wrong
// config cannot ask for the whole machine.
constexpr int64_t kMaxVocab = int64_t{1} << 22;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = kMaxAttentionHeadDim;
constexpr int64_t kMaxPositions = int64_t{1} << 22;

bool IsSet(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && !it->is_null();
}

Result<int64_t> IntOr(const Json& config, const char* key, int64_t lo, int64_t hi, int64_t absent,
                      const std::string& where) {
  if (!IsSet(config, key)) return absent;
  return RequireInt(config, key, lo, hi, where);
}

bool IsQwen3(const DecoderConfig& c) { return c.architecture.starts_with("Qwen3"); }

// A flag that this engine computes for `wanted` only.
Status RequireFlag(const Json& config, const char* key, bool wanted, const std::string& where) {
  FS_ASSIGN(const auto value, GetBool(config, key, where));
  if (value.value_or(wanted) == wanted) return {};
  return Unsupported(
      fmt::format("{}: {} is {}, this engine computes {} only", where, key, *value, wanted));
}

Result<double> RequireNumber(const Json& object, const char* key, double lo, double hi,
                             const std::string& where) {
  FS_ASSIGN(const auto value, GetDouble(object, key, where));
  if (value && *value >= lo && *value <= hi) return *value;
  return InvalidArgument(fmt::format("{}.{} is {}, expected a number from {} to {}", where, key,
                                     value ? fmt::to_string(*value) : "missing", lo, hi));
}

Result<RopeScaling> ParseLlama3Scaling(const Json& rope, const std::string& where) {
  RopeScaling s;
  FS_ASSIGN(s.factor, RequireNumber(rope, "factor", 1, 1e6, where));
  FS_ASSIGN(s.low_freq_factor, RequireNumber(rope, "low_freq_factor", 1e-6, 1e6, where));
  FS_ASSIGN(s.high_freq_factor, RequireNumber(rope, "high_freq_factor", 1e-6, 1e6, where));
  FS_ASSIGN(s.original_max_positions,
            RequireNumber(rope, "original_max_position_embeddings", 1, kMaxPositions, where));
  if (s.low_freq_factor < s.high_freq_factor) return s;
  return InvalidArgument(
      fmt::format("{}.low_freq_factor is {}, expected less than high_freq_factor, {}", where,
                  s.low_freq_factor, s.high_freq_factor));
}

// rope_theta stands at the top or, in newer files, within rope_parameters.
Status ParseRope(const Json& config, const std::string& where, DecoderConfig* c) {
  FS_ASSIGN(std::optional<double> theta, GetDouble(config, "rope_theta", where));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!IsSet(config, key)) continue;
    const Json& rope = config[key];
    if (!rope.is_object()) {
      return InvalidArgument(fmt::format("{}: {} is not an object or null", where, key));
    }
    for (const char* type_key : {"rope_type", "type"}) {
      FS_ASSIGN(const auto type, GetString(rope, type_key, fmt::format("{}: {}", where, key)));
      if (type == "llama3") {
        FS_ASSIGN(c->rope_scaling, ParseLlama3Scaling(rope, fmt::format("{}: {}", where, key)));
      } else if (type.value_or("default") != "default") {
        return Unsupported(fmt::format("{}: {}.{} is {}, this engine computes default and llama3",
                                       where, key, type_key, DumpJson(*type).substr(0, 42)));
      }
    }
    FS_ASSIGN(const auto inner, GetDouble(rope, "rope_theta", fmt::format("{}: {}", where, key)));
    if (inner) theta = inner;
    FS_ASSIGN(const auto factor, GetDouble(rope, "partial_rotary_factor", where));
    if (factor.value_or(1) != 1) {
      return Unsupported(fmt::format(
          "{}: {}.partial_rotary_factor is {}, this engine computes 1 only", where, key, *factor));
    }
  }
  if (!theta && !IsQwen3(*c)) theta = 10000;
  if (!theta)
    return InvalidArgument(
        fmt::format("{}: rope_theta is missing, expected a number above 1", where));
  if (!(std::isfinite(*theta) && *theta > 1)) {
    return InvalidArgument(
        fmt::format("{}: rope_theta is {}, expected a finite number above 1", where, *theta));
  }
  c->rope_theta = *theta;
  return {};
}

// FP8 with a scale for each block of 128 x 128 is all that is read. Activations stay float32,
// whatever scheme is named for them; one with stored scales leaves tensors that nobody takes.
Status CheckQuantization(const Json& config, const std::string& where) {
  if (!IsSet(config, "quantization_config")) return {};
  const Json& quantization = config["quantization_config"];
  const Json expected = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  for (const auto& [key, value] : expected.items()) {
    const bool found = quantization.is_object() && quantization.contains(key);
    if (found && quantization[key] == value) continue;
    return Unsupported(fmt::format(
        "{}: quantization_config.{} is {}, this engine reads {} only", where, key,
        found ? DumpJson(quantization[key]).substr(0, 42) : "missing", DumpJson(value)));
  }
  return {};
}

Status RefuseWhatWeDoNotCompute(const Json& config, const std::string& where) {
  FS_TRY(RequireFlag(config, "use_sliding_window", false, where));
  FS_TRY(RequireFlag(config, "attention_bias", false, where));
  FS_TRY(RequireFlag(config, "mlp_bias", false, where));
  FS_ASSIGN(const auto activation, GetString(config, "hidden_act", where));
  if (activation.value_or("silu") != "silu") {
    return Unsupported(fmt::format("{}: hidden_act is {}, this engine computes silu only", where,
                                   DumpJson(*activation)));
  }
  FS_TRY(CheckQuantization(config, where));
  if (IsSet(config, "layer_types")) {
    const Json& types = config["layer_types"];
    if (!types.is_array())
      return InvalidArgument(fmt::format("{}: layer_types is not a list", where));
    for (const Json& type : types) {
      if (type != "full_attention") {
        return Unsupported(
            fmt::format("{}: layer_types holds {}, this engine computes full_attention only", where,
                        DumpJson(type).substr(0, 42)));
      }
    }
  }
  return {};
}

Result<std::vector<int32_t>> ParseEos(const Json& object, int64_t vocab_size,
                                      const std::string& where) {
  std::vector<int64_t> ids;
  const auto it = object.find("eos_token_id");
  if (it != object.end() && it->is_array()) {
    FS_ASSIGN(auto list, GetIntList(object, "eos_token_id", where));
    ids = std::move(list).value_or(ids);
  } else {
    FS_ASSIGN(const auto id, GetInt(object, "eos_token_id", where));
    if (id) ids.push_back(*id);
  }
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return InvalidArgument(
          fmt::format("{}: eos_token_id is {}, expected 0 to {}", where, id, vocab_size - 1));
    }
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

std::string GenerationConfigPath(const std::string& directory) {
  return directory + "/generation_config.json";
}

// An empty object when there is no such file.
Result<Json> ReadGenerationConfig(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return Json::object();
  if (!text.ok()) return text.status();
  FS_ASSIGN(Json generation, ParseJson(*text, path));
  if (generation.is_object()) return generation;
  return InvalidArgument(fmt::format("{}: is not a JSON object", path));
}

}  // namespace

Result<Json> ReadConfigJson(const std::string& directory) {
  if (!std::filesystem::is_directory(directory)) {
    return NotFound(
        fmt::format("{}: is no directory, expected one that holds a Hugging Face checkpoint; "
                    "nothing is downloaded",
                    directory));
  }
  const std::string path = directory + "/config.json";
  FS_ASSIGN(const std::string text, ReadFile(path));
  FS_ASSIGN(Json config, ParseJson(text, path));
  if (!config.is_object()) return InvalidArgument(fmt::format("{}: is not a JSON object", path));
  return config;
}

Result<std::string> ReadArchitecture(const Json& config, const std::string& where) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array() || it->size() != 1 || !(*it)[0].is_string()) {
    return InvalidArgument(
        fmt::format("{}: architectures is missing or not a list of one name, expected such as "
                    "[\"Qwen3ForCausalLM\"]",
                    where));
  }
  return (*it)[0].get<std::string>();
}

Result<DecoderConfig> ParseDecoderConfig(const Json& config, const std::string& where) {
  if (!config.is_object()) return InvalidArgument(fmt::format("{}: is not a JSON object", where));
  DecoderConfig c;
  FS_ASSIGN(c.architecture, ReadArchitecture(config, where));
  FS_TRY(RefuseWhatWeDoNotCompute(config, where));
  FS_ASSIGN(c.vocab_size, RequireInt(config, "vocab_size", 1, kMaxVocab, where));
  FS_ASSIGN(c.hidden_size, RequireInt(config, "hidden_size", 1, kMaxWidth, where));
  FS_ASSIGN(c.intermediate_size, RequireInt(config, "intermediate_size", 1, kMaxWidth, where));
  FS_ASSIGN(c.num_layers, RequireInt(config, "num_hidden_layers", 1, kMaxLayers, where));
  FS_ASSIGN(c.num_heads, RequireInt(config, "num_attention_heads", 1, kMaxHeads, where));
  FS_ASSIGN(c.num_kv_heads, IntOr(config, "num_key_value_heads", 1, kMaxHeads, c.num_heads, where));
  if (c.num_heads % c.num_kv_heads != 0) {
    return InvalidArgument(
        fmt::format("{}: num_attention_heads is {}, expected a multiple of num_key_value_heads, {}",
                    where, c.num_heads, c.num_kv_heads));
  }
  FS_ASSIGN(c.head_dim,
            IntOr(config, "head_dim", 2, kMaxHeadDim, c.hidden_size / c.num_heads, where));
  if (c.head_dim < 2 || c.head_dim > kMaxHeadDim || c.head_dim % 2 != 0) {
    return InvalidArgument(fmt::format("{}: head_dim is {}, expected an even number from 2 to {}",
                                       where, c.head_dim, kMaxHeadDim));
  }
  c.qk_norms = IsQwen3(c);
  FS_TRY(ParseRope(config, where, &c));
  FS_ASSIGN(const auto eps, GetDouble(config, "rms_norm_eps", where));
  if (eps && !(*eps >= 1e-12 && *eps <= 1)) {
    return InvalidArgument(fmt::format("{}: rms_norm_eps is {}, expected 1e-12 to 1", where, *eps));
  }
  c.norm_eps = static_cast<float>(eps.value_or(1e-6));
  FS_ASSIGN(c.max_positions,
            RequireInt(config, "max_position_embeddings", 1, kMaxPositions, where));
  FS_ASSIGN(const auto tie, GetBool(config, "tie_word_embeddings", where));
  c.tie_embeddings = tie.value_or(false);
  FS_ASSIGN(c.eos_ids, ParseEos(config, c.vocab_size, where));
  return c;
}

Result<std::vector<int32_t>> ReadEosIds(const std::string& directory, const Json& config) {
  FS_ASSIGN(const int64_t vocab_size,
            RequireInt(config, "vocab_size", 1, kMaxVocab, directory + "/config.json"));
  const std::string path = GenerationConfigPath(directory);
  FS_ASSIGN(const Json generation, ReadGenerationConfig(path));
  if (IsSet(generation, "eos_token_id")) return ParseEos(generation, vocab_size, path);
  return ParseEos(config, vocab_size, directory + "/config.json");
}

Result<SamplingParams> ReadSamplingDefaults(const std::string& directory) {
  const std::string path = GenerationConfigPath(directory);
  FS_ASSIGN(const Json generation, ReadGenerationConfig(path));
  SamplingParams params;
  const std::pair<const char*, double*> doubles[] = {
      {"temperature", &params.temperature},
      {"top_p", &params.top_p},
      {"min_p", &params.min_p},
      {"repetition_penalty", &params.repetition_penalty}};
  for (const auto& [key, value] : doubles) {
    FS_ASSIGN(const auto found, GetDouble(generation, key, path));
    if (found) *value = *found;
  }
  FS_ASSIGN(const int64_t top_k, IntOr(generation, "top_k", -1, kMaxVocab, params.top_k, path));
  params.top_k = static_cast<int32_t>(top_k);
  return params;
}

}  // namespace firesteel
