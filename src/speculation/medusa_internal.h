// Medusa heads as they are published: config, weights, and the trees over them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/matmul.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "speculation/drafters.h"
#include "tensor/buffer.h"

namespace firesteel {

// x + silu(W x + b)
struct MedusaBlock {
  PackedWeight weight;  // [h, h]
  Buffer<float> bias;   // [h]
};

// Head i (0-based) reads the state behind the target's final norm, of the token before the anchor,
// and speaks of the i + 1st token behind the anchor: offset i + 2 from the token it reads.
struct MedusaHead {
  std::vector<MedusaBlock> blocks;
  PackedWeight output;  // [V, h]

  int64_t bytes() const;
};

// Checks `config` against the target and reads the heads of `directory`: as many as the file holds,
// whatever medusa_num_heads says, since published configs are wrong there.
Result<std::vector<MedusaHead>> LoadMedusaHeads(Exec& exec, const std::string& directory,
                                                const Json& config, const ModelInfo& target);

// A node of a static tree: the rank-th most likely token of head `depth` behind its parent.
struct MedusaNode {
  int32_t parent = -1;  // index, -1: the anchor
  int32_t depth = 0;    // of the head that proposes it, 0-based
  int32_t rank = 0;
};

// A candidate tree; of it Propose takes the nodes with the most likely paths. Empty: a chain.
struct MedusaTree {
  std::vector<MedusaNode> nodes;  // parents before children
  int32_t depth = 0;              // levels
  int32_t ranks = 0;              // largest rank + 1
};

// `medusa_choices` of --speculative-config: "chain", "small" (the default: 10 nodes),
// "mc_sim_7b_63" (Medusa's published tree of 63), or a list of paths of ranks, [[0], [1], [0, 0]].
// Named trees are cut to `num_heads` levels.
Result<MedusaTree> ReadMedusaTree(const Json& config, int32_t num_heads);

}  // namespace firesteel
