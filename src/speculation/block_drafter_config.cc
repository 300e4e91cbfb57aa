#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "speculation/block_drafter_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxBlock = 64;
constexpr int32_t kMaxWindow = 1 << 30;

bool IsSet(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && !it->is_null();
}

std::string Quoted(const Json& json) { return DumpJson(json).substr(0, 100); }

// The object under `key`, or an empty one.
Result<Json> Object(const Json& config, const char* key, const std::string& where) {
  if (!IsSet(config, key)) return Json::object();
  if (config[key].is_object()) return config[key];
  return InvalidArgument(
      fmt::format("{}: {} is {}, expected an object", where, key, Quoted(config[key])));
}

// Whether the rows of a block are causal: what the checkpoint says of all layers, else what its
// format means by a sliding layer.
struct Causality {
  std::optional<bool> all;
  bool sliding = false;
};

Result<Causality> ReadCausality(const Json& config, const Json& dflash, bool sliding,
                                const std::string& where) {
  FS_ASSIGN(std::optional<bool> all, GetBool(config, "is_causal", where));
  if (!all) {
    FS_ASSIGN(all, GetBool(dflash, "causal", where + ": dflash_config"));
  }
  return Causality{all, sliding};
}

Status ParseMasks(const Json& decoder, const Causality& causality, const std::string& where,
                  BlockDrafterConfig* c) {
  c->masks.assign(static_cast<size_t>(c->decoder.num_layers), {});
  for (BlockMask& mask : c->masks) mask.causal = causality.all.value_or(false);
  if (!IsSet(decoder, "layer_types")) return {};
  const Json& types = decoder["layer_types"];
  if (!types.is_array() || types.size() != c->masks.size()) {
    return InvalidArgument(fmt::format("{}: layer_types is {}, expected a list of {} names", where,
                                       Quoted(types), c->masks.size()));
  }
  for (size_t l = 0; l < types.size(); ++l) {
    if (types[l] == "full_attention") continue;
    if (types[l] != "sliding_attention") {
      return Unsupported(fmt::format(
          "{}: layer_types holds {}, this engine computes full_attention and sliding_attention",
          where, Quoted(types[l])));
    }
    FS_ASSIGN(const auto used, GetBool(decoder, "use_sliding_window", where));
    if (!used.value_or(true)) {
      return InvalidArgument(fmt::format(
          "{}: layer_types holds sliding_attention, but use_sliding_window is false", where));
    }
    FS_ASSIGN(const int64_t window, RequireInt(decoder, "sliding_window", 1, kMaxWindow, where));
    c->masks[l] = {static_cast<int32_t>(window), causality.all.value_or(causality.sliding)};
  }
  return {};
}

// The fields that every format shares with Qwen3, wherever it keeps them: its drafters are layers
// of that family whatever their class is called.
Status ParseBackbone(const Json& fields, const Causality& causality, const ModelInfo& target,
                     const std::string& where, BlockDrafterConfig* c) {
  Json decoder = fields;
  decoder["architectures"] = {"Qwen3DSparkModel"};
  decoder.erase("layer_types");
  if (IsSet(fields, "layer_types")) decoder.erase("use_sliding_window");
  FS_ASSIGN(c->decoder, ParseDecoderConfig(decoder, where));
  FS_TRY(RequireEqual("vocab_size", c->decoder.vocab_size, target.vocab_size, where));
  FS_TRY(RequireEqual("hidden_size", c->decoder.hidden_size, target.hidden_size, where));
  c->draft_vocab_size = c->decoder.vocab_size;
  return ParseMasks(fields, causality, where, c);
}

Status ParseBlock(const Json& config, const std::string& where, BlockDrafterConfig* c) {
  FS_ASSIGN(c->block_size, RequireInt(config, "block_size", 1 + c->first_row, kMaxBlock, where));
  FS_ASSIGN(c->mask_token,
            RequireInt(config, "mask_token_id", 0, c->decoder.vocab_size - 1, where));
  return {};
}

// DeepSpec: DSpark, and what it calls DFlash, which is the same without heads. Every row predicts
// what follows it, the anchor's included; no layer is ever causal.
Result<BlockDrafterConfig> ParseDeepSpec(const Json& config, const ModelInfo& target,
                                         const std::string& where) {
  BlockDrafterConfig c;
  FS_TRY(ParseBackbone(config, {}, target, where, &c));
  FS_ASSIGN(const int64_t target_layers,
            RequireInt(config, "num_target_layers", 1, 1 << 20, where));
  FS_TRY(RequireEqual("num_target_layers", target_layers, target.num_layers, where));
  FS_TRY(ParseBlock(config, where, &c));
  FS_ASSIGN(c.target_layers, ParseTargetLayers(config, target, where));
  FS_ASSIGN(c.head, ParseMarkovHead(config, where));
  return c;
}

// Features from the whole depth, but for the last layers, when a config names none: as DFlash
// trains them.
std::vector<int64_t> DefaultTargetLayers(int32_t target_layers, int32_t count) {
  if (count == 1) return {target_layers / 2};
  std::vector<int64_t> ids;
  for (int32_t i = 0; i < count; ++i) {
    const double id = 1 + static_cast<double>(i) * (target_layers - 4) / (count - 1);
    ids.push_back(std::llrint(id));  // halves to even, as Python rounds
  }
  return ids;
}

// What later models of the family compute and this one does not.
Status RefuseExtensions(const Json& dflash, const std::string& where) {
  const std::pair<const char*, double> plain[] = {
      {"input_embedding_scale", 1}, {"output_multiplier", 1}, {"final_logit_softcapping", 0}};
  for (const auto& [key, value] : plain) {
    FS_ASSIGN(const auto found, GetDouble(dflash, key, where));
    if (found.value_or(value) != value) {
      return Unsupported(fmt::format("{}: dflash_config.{} is {}, this engine computes {} only",
                                     where, key, *found, value));
    }
  }
  for (const char* key : {"attention_sink_bias", "fc_layernorm"}) {
    FS_ASSIGN(const auto found, GetBool(dflash, key, where));
    if (found.value_or(false)) {
      return Unsupported(
          fmt::format("{}: dflash_config.{} is true, this engine computes false only", where, key));
    }
  }
  return {};
}

// z-lab's DFlash: a row predicts its own position, so the anchor's none. What is particular to
// drafting stands in dflash_config, else at the top. Sliding layers are causal unless the file says
// otherwise, as its authors and the engines that serve it agree.
Result<BlockDrafterConfig> ParseZLab(const Json& config, const ModelInfo& target,
                                     const std::string& where) {
  FS_ASSIGN(const Json dflash, Object(config, "dflash_config", where));
  FS_TRY(RefuseExtensions(dflash, where));
  FS_ASSIGN(const Causality causality, ReadCausality(config, dflash, true, where));
  BlockDrafterConfig c;
  c.first_row = 1;
  FS_TRY(ParseBackbone(config, causality, target, where, &c));
  if (IsSet(config, "num_target_layers")) {
    FS_ASSIGN(const int64_t layers, RequireInt(config, "num_target_layers", 1, 1 << 20, where));
    FS_TRY(RequireEqual("num_target_layers", layers, target.num_layers, where));
  }
  Json drafting = config;
  for (const char* key : {"block_size", "mask_token_id", "target_layer_ids"}) {
    if (IsSet(dflash, key)) drafting[key] = dflash[key];
  }
  if (!IsSet(drafting, "block_size")) drafting["block_size"] = 16;
  FS_TRY(ParseBlock(drafting, where, &c));
  if (!IsSet(drafting, "target_layer_ids")) {
    drafting["target_layer_ids"] = DefaultTargetLayers(target.num_layers, c.decoder.num_layers);
  }
  FS_ASSIGN(c.target_layers, ParseTargetLayers(drafting, target, where));
  return c;
}

// How many tokens a block of the export proposes, by its proposal method; nullopt: not said.
Result<std::optional<int64_t>> SpeculativeTokens(const Json& config, const std::string& where) {
  const std::string inner = where + ": speculators_config";
  FS_ASSIGN(const Json speculators, Object(config, "speculators_config", where));
  FS_ASSIGN(const auto wanted, GetString(speculators, "default_proposal_method", inner));
  if (!IsSet(speculators, "proposal_methods")) return std::optional<int64_t>();
  const Json& methods = speculators["proposal_methods"];
  if (!methods.is_array() ||
      !std::ranges::all_of(methods, [](const Json& m) { return m.is_object(); })) {
    return InvalidArgument(fmt::format("{}: proposal_methods is {}, expected a list of objects",
                                       inner, Quoted(methods)));
  }
  std::optional<int64_t> tokens;
  for (const Json& method : methods) {
    FS_ASSIGN(const auto type, GetString(method, "proposal_type", inner));
    const bool is_default = wanted && type == wanted;
    if (tokens && !is_default) continue;
    FS_ASSIGN(tokens, GetInt(method, "speculative_tokens", inner));
    if (is_default) break;
  }
  return tokens;
}

// Exporters disagree on what an absent sample_from_anchor means, but not on how many tokens a block
// is good for: as many as it has rows, or one less.
Result<int32_t> FirstRow(const Json& config, const Json& options, int64_t block_size,
                         const std::string& where) {
  FS_ASSIGN(const auto forced, GetBool(options, "sample_from_anchor", "speculative config"));
  if (forced) return *forced ? 0 : 1;
  FS_ASSIGN(const auto said, GetBool(config, "sample_from_anchor", where));
  FS_ASSIGN(const auto tokens, SpeculativeTokens(config, where));
  if (!tokens) {
    if (said) return *said ? 0 : 1;
    return InvalidArgument(
        fmt::format("{}: neither speculative_tokens nor sample_from_anchor says which row of a "
                    "block predicts first, expected one (--speculative-config "
                    "sample_from_anchor: true or false decides)",
                    where));
  }
  const int64_t row = block_size - *tokens;
  if (row != 0 && row != 1) {
    return InvalidArgument(
        fmt::format("{}: speculative_tokens is {}, expected block_size, {}, or "
                    "one less",
                    where, *tokens, block_size));
  }
  if (said && *said != (row == 0)) {
    return InvalidArgument(
        fmt::format("{}: sample_from_anchor is {}, but speculative_tokens is {} of a block of {}: "
                    "expected them to agree (--speculative-config sample_from_anchor: true or "
                    "false decides)",
                    where, *said, *tokens, block_size));
  }
  return static_cast<int32_t>(row);
}

// Its ids count what enters a layer: 0 is the embedding, k what leaves layer k - 1.
Result<std::vector<int32_t>> ParseAuxLayers(const Json& config, const ModelInfo& target,
                                            const std::string& where) {
  constexpr char kKey[] = "aux_hidden_state_layer_ids";
  FS_ASSIGN(const auto found, GetIntList(config, kKey, where));
  std::vector<int64_t> ids = found.value_or(std::vector<int64_t>{});
  for (int64_t& id : ids) {
    if (id < 0 || id >= target.num_layers) {
      return InvalidArgument(
          fmt::format("{}: {} holds {}, expected 0 to {}", where, kKey, id, target.num_layers - 1));
    }
    --id;
  }
  return CheckTargetLayers(ids, kKey, target, where);
}

// Exports of vLLM's speculators: the backbone within transformer_layer_config, either anchor
// convention, perhaps a reduced vocabulary.
Result<BlockDrafterConfig> ParseSpeculators(const Json& config, const ModelInfo& target,
                                            const Json& options, const std::string& where) {
  FS_ASSIGN(Json fields, Object(config, "transformer_layer_config", where));
  if (fields.empty()) {
    return InvalidArgument(fmt::format("{}: transformer_layer_config is missing", where));
  }
  const std::string inner = where + ": transformer_layer_config";
  FS_ASSIGN(const auto type, GetString(fields, "model_type", inner));
  if (type.value_or("qwen3") != "qwen3") {
    return Unsupported(
        fmt::format("{}: model_type is {}, expected qwen3", inner, Quoted(Json(*type))));
  }
  for (const char* key : {"layer_types", "sliding_window", "use_sliding_window"}) {
    if (IsSet(config, key)) fields[key] = config[key];
  }
  FS_ASSIGN(const Json dflash, Object(config, "dflash_config", where));
  FS_ASSIGN(const auto both_ways, GetBool(config, "sliding_window_non_causal", where));
  FS_ASSIGN(const Causality causality,
            ReadCausality(config, dflash, !both_ways.value_or(false), where));
  BlockDrafterConfig c;
  FS_TRY(ParseBackbone(fields, causality, target, inner, &c));
  if (IsSet(config, "target_hidden_size")) {
    FS_ASSIGN(const int64_t hidden, RequireInt(config, "target_hidden_size", 1, 1 << 20, where));
    FS_TRY(RequireEqual("target_hidden_size", hidden, target.hidden_size, where));
  }
  FS_TRY(ParseBlock(config, where, &c));
  FS_ASSIGN(c.first_row, FirstRow(config, options, c.block_size, where));
  FS_TRY(ParseBlock(config, where, &c));  // a block of one row has an anchor alone
  FS_ASSIGN(c.target_layers, ParseAuxLayers(config, target, where));
  if (IsSet(config, "draft_vocab_size")) {
    FS_ASSIGN(c.draft_vocab_size,
              RequireInt(config, "draft_vocab_size", 1, c.decoder.vocab_size, where));
  }
  FS_ASSIGN(c.head, ParseMarkovHead(config, where));
  return c;
}

}  // namespace

Result<BlockDrafterConfig> ParseBlockDrafterConfig(const Json& config, std::string_view method,
                                                   const ModelInfo& target, const Json& options,
                                                   const std::string& where) {
  FS_ASSIGN(const CheckpointKind kind, IdentifyCheckpoint(config, where));
  if (kind.key == "speculators_model_type") {
    if (kind.method != method) return WrongCheckpoint(kind, method, where);
    return ParseSpeculators(config, target, options, where);
  }
  if (kind.value == "Qwen3DSparkModel") {
    FS_ASSIGN(BlockDrafterConfig c, ParseDeepSpec(config, target, where));
    if (method == "dflash" && c.head.rank > 0) {
      return Unsupported(
          fmt::format("{}: markov_rank is {}, a Markov head, which method dflash does not compute: "
                      "expected method dspark, or auto",
                      where, c.head.rank));
    }
    return c;
  }
  if (kind.method != "dflash" || method != "dflash") return WrongCheckpoint(kind, method, where);
  return ParseZLab(config, target, where);
}

}  // namespace firesteel
