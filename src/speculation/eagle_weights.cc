#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/option_map.h"
#include "speculation/draft_token_internal.h"
#include "speculation/eagle_internal.h"

namespace firesteel {
namespace {

constexpr const char* kWhere = "speculative config";
constexpr int32_t kMaxDepth = 64;
constexpr int32_t kMaxTopk = 32;
constexpr int32_t kMaxNodes = 256;
// A tree's nodes where nobody says how many: the count EAGLE-2 was published with.
constexpr int32_t kDefaultNodes = 59;

Result<std::optional<int32_t>> GetCount(const Json& config, const char* key, int32_t least,
                                        int32_t most) {
  FS_ASSIGN(const auto count, GetInt(config, key, kWhere));
  if (!count) return std::optional<int32_t>();
  if (*count < least || *count > most) {
    return InvalidArgument(fmt::format("{}: {} is {}, expected an integer from {} to {}", kWhere,
                                       key, *count, least, most));
  }
  return std::optional<int32_t>(static_cast<int32_t>(*count));
}

Status CheckKeys(const Json& config) {
  static constexpr const char* kKnown[] = {"draft_sample_method", "topk", "num_steps",
                                           "num_draft_tokens"};
  const std::vector<std::string> known(std::begin(kKnown), std::end(kKnown));
  for (const auto& [key, value] : config.items()) {
    // vLLM's launch lines carry the second; there is nothing here to split.
    if (std::ranges::find(known, key) != known.end() || key == "draft_tensor_parallel_size")
      continue;
    const std::string nearest = NearestName(key, known);
    return InvalidArgument(
        fmt::format("{}: {} is no key of the EAGLE drafters{}, expected {}", kWhere,
                    DumpJson(key).substr(0, 100),
                    nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
                    fmt::join(known, ", ")));
  }
  return {};
}

}  // namespace

Result<EagleOptions> ReadEagleOptions(const DrafterContext& context, int32_t depth) {
  // No config at all is an empty one.
  const Json config = context.config.is_null() ? Json::object() : context.config;
  FS_TRY(CheckKeys(config));
  EagleOptions options;
  FS_ASSIGN(options.always_greedy, ReadAlwaysGreedy(config));
  FS_ASSIGN(const auto topk, GetCount(config, "topk", 1, kMaxTopk));
  FS_ASSIGN(const auto steps, GetCount(config, "num_steps", 1, kMaxDepth));
  FS_ASSIGN(const auto with_root, GetCount(config, "num_draft_tokens", 2, kMaxNodes + 1));
  options.topk = topk.value_or(1);
  options.depth = steps.value_or(std::min(depth, kMaxDepth));
  std::optional<int32_t> tokens;
  if (context.options.tokens > 0) tokens = context.options.tokens;
  if (with_root) tokens = *with_root - 1;
  if (options.topk > 1) {
    options.max_tokens = std::min(tokens.value_or(kDefaultNodes), kMaxNodes);
    return options;
  }
  if (tokens && steps && *tokens != *steps) {
    return InvalidArgument(
        fmt::format("{}: num_steps is {} and {} tokens are drafted, expected the same, for with "
                    "topk 1 a draft is a chain",
                    kWhere, *steps, *tokens));
  }
  if (tokens) options.depth = std::min(*tokens, kMaxDepth);
  options.max_tokens = options.depth;
  return options;
}

Status LoadEagleLayer(Exec& exec, WeightReader& reader, const std::string& prefix,
                      const DecoderConfig& config, int64_t width, EagleWeights* weights) {
  const int64_t h = config.hidden_size, f = config.intermediate_size, d = config.head_dim;
  const int64_t q_width = config.num_heads * d, kv_width = config.num_kv_heads * d;
  const std::string attn = prefix + "self_attn.", mlp = prefix + "mlp.";
  DecoderLayer& layer = weights->layer;
  FS_ASSIGN(const WeightSource q, reader.Take(attn + "q_proj.weight", q_width, width));
  FS_ASSIGN(weights->q, reader.Pack(exec, {&q, 1}));
  FS_ASSIGN(WeightSource k, reader.Take(attn + "k_proj.weight", kv_width, width));
  FS_ASSIGN(WeightSource v, reader.Take(attn + "v_proj.weight", kv_width, width));
  FS_ASSIGN(weights->kv, reader.Pack(exec, std::vector{k, v}));
  if (config.qk_norms) {
    FS_ASSIGN(layer.q_norm, reader.TakeVector(attn + "q_norm.weight", d));
    FS_ASSIGN(layer.k_norm, reader.TakeVector(attn + "k_norm.weight", d));
  }
  FS_ASSIGN(const WeightSource o, reader.Take(attn + "o_proj.weight", h, q_width));
  FS_ASSIGN(layer.o, reader.Pack(exec, {&o, 1}));
  FS_ASSIGN(layer.mlp_norm, reader.TakeVector(prefix + "post_attention_layernorm.weight", h));
  FS_ASSIGN(WeightSource gate, reader.Take(mlp + "gate_proj.weight", f, h));
  FS_ASSIGN(WeightSource up, reader.Take(mlp + "up_proj.weight", f, h));
  FS_ASSIGN(layer.gate_up, reader.Pack(exec, std::vector{gate, up}));
  FS_ASSIGN(const WeightSource down, reader.Take(mlp + "down_proj.weight", h, f));
  FS_ASSIGN(layer.down, reader.Pack(exec, {&down, 1}));
  return {};
}

int64_t EagleWeights::BytesPerPass(int32_t depth) const {
  int64_t row = q.bytes() + kv.bytes() + layer.bytes() + tables.head().bytes();
  for (const DecoderLayer& l : ballast) row += l.bytes();
  return depth * row + fc.bytes();
}

}  // namespace firesteel
