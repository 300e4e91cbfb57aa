#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "speculation/drafter_checkpoint_internal.h"
#include "speculation/eagle3_internal.h"

namespace firesteel {
namespace {

constexpr const char* kDeepSpec = "Qwen3Eagle3Model";
constexpr const char* kArchitectures[] = {kDeepSpec, "LlamaForCausalLMEagle3",
                                          "Eagle3LlamaForCausalLM", "Eagle3Speculator",
                                          "Eagle3DraftModel"};
// What the published heads of those who do not say are run with.
constexpr int32_t kDefaultDepth = 5;
constexpr int32_t kMaxDepth = 64;
constexpr const char* kLayerIds = "eagle_aux_hidden_state_layer_ids";

Result<bool> Flag(const Json& config, const char* key, const std::string& where) {
  FS_ASSIGN(const auto flag, GetBool(config, key, where));
  return flag.value_or(false);
}

// An object of the config, empty when absent.
Result<Json> Part(const Json& config, const char* key, const std::string& where) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return Json::object();
  if (it->is_object()) return *it;
  return InvalidArgument(
      fmt::format("{}: {} is {}, expected an object", where, key, DumpJson(*it).substr(0, 100)));
}

// The speculators format keeps the layer's own config in an object.
Result<Json> LayerConfig(const Json& config, const std::string& where) {
  FS_ASSIGN(const auto type, GetString(config, "speculators_model_type", where));
  if (!type) return config;
  if (*type != "eagle3") {
    return Unsupported(
        fmt::format("{}: speculators_model_type is {}, the eagle3 drafter reads "
                    "\"eagle3\"",
                    where, DumpJson(*type).substr(0, 100)));
  }
  FS_ASSIGN(Json layer, Part(config, "transformer_layer_config", where));
  if (config.contains("architectures")) layer["architectures"] = config["architectures"];
  return layer;
}

// Theirs count the layers' inputs: id j is the output of layer j - 1, and 0 the embedding.
Result<std::vector<int32_t>> InputLayers(const Json& config, const Json& eagle,
                                         const ModelInfo& target, const std::string& where) {
  FS_ASSIGN(auto ids, GetIntList(eagle, kLayerIds, where));
  if (!ids) {
    FS_ASSIGN(ids, GetIntList(config, kLayerIds, where));
  }
  const int64_t n = target.num_layers;
  std::vector<int64_t> outputs = ids.value_or(std::vector<int64_t>{2, n / 2, n - 3});
  for (int64_t& id : outputs) --id;
  return CheckTargetLayers(
      outputs, ids ? "eagle_aux_hidden_state_layer_ids, less one," : "the default of three layers",
      target, where);
}

Result<int32_t> Depth(const Json& config, const std::string& where) {
  if (config.contains("ttt_length")) {
    FS_ASSIGN(const int64_t steps, RequireInt(config, "ttt_length", 1, kMaxDepth, where));
    return static_cast<int32_t>(steps);
  }
  FS_ASSIGN(const Json speculators, Part(config, "speculators_config", where));
  const auto methods = speculators.find("proposal_methods");
  if (methods != speculators.end() && methods->is_array() && !methods->empty() &&
      (*methods)[0].is_object()) {
    FS_ASSIGN(const auto tokens, GetInt((*methods)[0], "speculative_tokens", where));
    if (tokens) return static_cast<int32_t>(std::clamp<int64_t>(*tokens, 1, kMaxDepth));
  }
  return kDefaultDepth;
}

}  // namespace

Result<Eagle3Config> ParseEagle3Config(const Json& config, const ModelInfo& target,
                                       const std::string& where) {
  Eagle3Config c;
  FS_ASSIGN(const Json layer, LayerConfig(config, where));
  FS_ASSIGN(c.decoder, ParseDecoderConfig(layer, where));
  const std::string& architecture = c.decoder.architecture;
  if (std::ranges::find(kArchitectures, architecture) == std::end(kArchitectures)) {
    return Unsupported(fmt::format("{}: architecture is {}, the eagle3 drafter reads {}", where,
                                   DumpJson(architecture).substr(0, 100),
                                   fmt::join(kArchitectures, ", ")));
  }
  if (c.decoder.num_layers != 1) {
    return Unsupported(fmt::format("{}: num_hidden_layers is {}, the eagle3 drafter computes 1",
                                   where, c.decoder.num_layers));
  }
  FS_TRY(RequireEqual("vocab_size", c.decoder.vocab_size, target.vocab_size, where));
  FS_ASSIGN(const auto target_hidden, GetInt(config, "target_hidden_size", where));
  if (target_hidden) {
    FS_TRY(RequireEqual("target_hidden_size", *target_hidden, target.hidden_size, where));
  } else {
    FS_TRY(RequireEqual("hidden_size", c.decoder.hidden_size, target.hidden_size, where));
  }
  FS_ASSIGN(const Json eagle, Part(config, "eagle_config", where));
  FS_ASSIGN(const auto aux, GetBool(eagle, "use_aux_hidden_state", where));
  FS_ASSIGN(const bool fc_norm, Flag(config, "fc_norm", where));
  if (!aux.value_or(true) || fc_norm) {
    return Unsupported(
        fmt::format("{}: {}, which the eagle3 drafter does not compute", where,
                    fc_norm ? "fc_norm is true" : "eagle_config.use_aux_hidden_state is false"));
  }
  if (architecture == kDeepSpec) {
    FS_ASSIGN(const int64_t layers, RequireInt(config, "num_target_layers", 1, 1 << 20, where));
    FS_TRY(RequireEqual("num_target_layers", layers, target.num_layers, where));
    FS_ASSIGN(c.target_layers, ParseTargetLayers(config, target, where));
  } else {
    FS_ASSIGN(c.target_layers, InputLayers(config, eagle, target, where));
  }
  c.draft_vocab = c.decoder.vocab_size;
  if (config.contains("draft_vocab_size") && !config["draft_vocab_size"].is_null()) {
    FS_ASSIGN(c.draft_vocab,
              RequireInt(config, "draft_vocab_size", 1, c.decoder.vocab_size, where));
  }
  FS_ASSIGN(c.norm_before_residual, Flag(config, "norm_before_residual", where));
  FS_ASSIGN(const bool inner, Flag(eagle, "norm_before_fc", where));
  FS_ASSIGN(const bool outer, Flag(config, "norm_before_fc", where));
  c.norm_before_fc = inner || outer;
  FS_ASSIGN(c.norm_output, Flag(config, "norm_output", where));
  FS_ASSIGN(c.depth, Depth(config, where));
  return c;
}

}  // namespace firesteel
