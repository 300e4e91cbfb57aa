#include "cli/drafter_fit.h"

#include <fmt/format.h>

namespace firesteel {

Status CheckDrafterFits(const DecoderConfig& target, const Json& drafter,
                        const std::string& where) {
  const auto same = [&](const char* key, int64_t wanted) -> Status {
    FS_ASSIGN(const int64_t found, RequireInt(drafter, key, 0, INT32_MAX, where));
    if (found == wanted) return {};
    return InvalidArgument(
        fmt::format("{}: {} is {}, the target has {}", where, key, found, wanted));
  };
  FS_TRY(same("vocab_size", target.vocab_size));
  FS_TRY(same("hidden_size", target.hidden_size));
  if (drafter.contains("num_target_layers")) FS_TRY(same("num_target_layers", target.num_layers));
  FS_ASSIGN(const auto layers, GetIntList(drafter, "target_layer_ids", where));
  if (!layers || layers->empty())
    return InvalidArgument(fmt::format("{}: target_layer_ids is missing", where));
  for (const int64_t layer : *layers) {
    // -1 is the embedding; the last layer is never a feature, since it was stored behind the final
    // norm in training.
    if (layer < -1 || layer > target.num_layers - 2) {
      return InvalidArgument(
          fmt::format("{}: target_layer_ids holds {}, expected -1 to {} for a target of {} layers",
                      where, layer, target.num_layers - 2, target.num_layers));
    }
  }
  FS_ASSIGN(const std::optional<int64_t> mask, GetInt(drafter, "mask_token_id", where));
  if (mask && (*mask < 0 || *mask >= target.vocab_size)) {
    return InvalidArgument(fmt::format("{}: mask_token_id is {}, the vocabulary ends at {}", where,
                                       *mask, target.vocab_size - 1));
  }
  return {};
}

}  // namespace firesteel
