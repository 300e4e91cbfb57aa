// What the loaders of drafter checkpoints share: the tables that a drafter has in common with its
// target, and the checks that it was made for this target.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/packed_weight.h"
#include "model/model.h"
#include "model/weights.h"
#include "speculation/drafters.h"
#include "tensor/weight_view.h"

namespace firesteel {

// config.json of the checkpoint that the options name. kInvalidArgument, in the name of `method`,
// when they name none.
Result<Json> ReadDrafterConfig(const DrafterContext& context, std::string_view method);

// Embedding and head. Training copies both from the target and freezes them, so copies are normally
// equal and are not kept; many files leave them out.
struct SharedTables {
  WeightView embedding;                       // [V, h], the target's own when equal or absent
  const PackedWeight* shared_head = nullptr;  // the target's, unless the drafter brings another
  PackedWeight own_head;                      // [head rows, h]

  const PackedWeight& head() const { return shared_head != nullptr ? *shared_head : own_head; }
};

// Reads embed_tokens.weight and lm_head.weight where the file has them. `head_rows`: V, or the size
// of a reduced vocabulary, whose head must be in the file. kUnsupported when neither file nor
// target has one.
Result<SharedTables> LoadSharedTables(Exec& exec, WeightReader& reader, int64_t head_rows,
                                      int64_t hidden_size, const Model& target,
                                      const std::string& directory);

// kInvalidArgument: "<where>: <field> is <found>, the target has <target>".
Status RequireEqual(const char* field, int64_t found, int64_t target, const std::string& where);

// `ids` as stored under `key`: layers after which the residual stream is captured, 0-based, -1 for
// the embedding output. The target's last layer is refused: training sees it after the final norm.
Result<std::vector<int32_t>> CheckTargetLayers(const std::vector<int64_t>& ids, const char* key,
                                               const ModelInfo& target, const std::string& where);
// The same of `target_layer_ids`, which must be there.
Result<std::vector<int32_t>> ParseTargetLayers(const Json& config, const ModelInfo& target,
                                               const std::string& where);

}  // namespace firesteel
