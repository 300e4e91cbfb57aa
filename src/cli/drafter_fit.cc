#include "cli/drafter_fit.h"

#include <fmt/format.h>

namespace firesteel {
namespace {

// The object under `key`, or `json` itself: formats differ in where they keep a field.
const Json& Within(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_object() ? *it : json;
}

}  // namespace

Status CheckDrafterFits(const DecoderConfig& target, const Json& drafter,
                        const std::string& where) {
  const Json& decoder = Within(drafter, "transformer_layer_config");
  const auto same = [&](const char* key, int64_t wanted) -> Status {
    FS_ASSIGN(const int64_t found, RequireInt(decoder, key, 0, INT32_MAX, where));
    if (found == wanted) return {};
    return InvalidArgument(
        fmt::format("{}: {} is {}, the target has {}", where, key, found, wanted));
  };
  FS_TRY(same("vocab_size", target.vocab_size));
  FS_TRY(same("hidden_size", target.hidden_size));
  if (decoder.contains("num_target_layers")) FS_TRY(same("num_target_layers", target.num_layers));
  // Exports of speculators count what enters a layer, all others what leaves it.
  const bool aux = drafter.contains("aux_hidden_state_layer_ids");
  const char* key = aux ? "aux_hidden_state_layer_ids" : "target_layer_ids";
  const int64_t first = aux ? 0 : -1, last = target.num_layers - (aux ? 1 : 2);
  const Json& drafting = Within(drafter, "dflash_config");
  FS_ASSIGN(const auto layers, GetIntList(drafting, key, where));
  // DFlash has layers that it takes when none are named.
  if ((!layers || layers->empty()) && &drafting == &drafter)
    return InvalidArgument(fmt::format("{}: {} is missing", where, key));
  for (const int64_t layer : layers.value_or(std::vector<int64_t>{})) {
    // -1 is the embedding; the last layer is never a feature, since it was stored behind the final
    // norm in training.
    if (layer < first || layer > last) {
      return InvalidArgument(
          fmt::format("{}: {} holds {}, expected {} to {} for a target of {} layers", where, key,
                      layer, first, last, target.num_layers));
    }
  }
  FS_ASSIGN(const std::optional<int64_t> mask, GetInt(drafting, "mask_token_id", where));
  if (mask && (*mask < 0 || *mask >= target.vocab_size)) {
    return InvalidArgument(fmt::format("{}: mask_token_id is {}, the vocabulary ends at {}", where,
                                       *mask, target.vocab_size - 1));
  }
  return {};
}

}  // namespace firesteel
