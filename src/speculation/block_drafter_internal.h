// Block drafters: config and weights of every file format, and what tests may ask of the drafter.
//
// All of them read the target's features through one projection and predict a block in one pass.
// What the formats differ in is data, below: which row of the block predicts first, what a layer
// sees, which vocabulary the head has, what stands behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/matmul.h"
#include "model/config.h"
#include "model/decoder_layer.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "speculation/drafter_checkpoint_internal.h"
#include "speculation/drafters.h"
#include "speculation/markov_head_internal.h"
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace firesteel {

// What a row of a block sees in one layer.
struct BlockMask {
  int32_t window = 0;   // the keys less than `window` positions away; 0: all
  bool causal = false;  // nothing behind itself
};

// Letters as in the shapes below: h hidden, V vocabulary, m target layers, r Markov rank, L draft
// layers.
struct BlockDrafterConfig {
  DecoderConfig decoder;
  std::vector<BlockMask> masks;  // [L]
  int32_t block_size = 0;        // input rows: the anchor, then masks
  // The row whose output is the token behind the anchor. 0: row i predicts the position after its
  // own. 1: it predicts its own, so the anchor's row predicts nothing. Read the other way, a
  // checkpoint still works, and almost nothing is accepted.
  int32_t first_row = 0;
  int32_t mask_token = 0;
  std::vector<int32_t>
      target_layers;             // residual stream after layer k, 0-based; -1: the embedding output
  int32_t draft_vocab_size = 0;  // rows of the head; below V the file holds d2t
  MarkovHeadConfig head;

  int32_t max_tokens() const { return block_size - first_row; }
};

// `method`: dspark or dflash. kInvalidArgument or kUnsupported: names the field, what was found,
// and what the target has; or the method that reads such a checkpoint. `options`: the keys of
// --speculative-config, of which sample_from_anchor overrules what an export says of itself.
Result<BlockDrafterConfig> ParseBlockDrafterConfig(const Json& config, std::string_view method,
                                                   const ModelInfo& target, const Json& options,
                                                   const std::string& where);

// Immutable after loading.
struct BlockDrafterWeights {
  Safetensors tensors;
  SharedTables tables;
  std::vector<int32_t> draft_vocab;  // [head rows] ids of the target's; empty: the same vocabulary
  PackedWeight fc;                   // [h, m h]
  Buffer<float> hidden_norm;         // [h]
  std::vector<DecoderLayer> layers;
  std::vector<DecoderLayer> ballast;
  // All layers' k and v once more, stacked [L 2 Hkv D, h]: context rows are projected for all
  // layers in one pass, and they need no queries.
  PackedWeight context_kv;
  Buffer<float> norm;  // [h]
  MarkovHead head;

  // Read by one draft pass: every layer, fc and context projections once, the head once, the Markov
  // head for every token.
  int64_t BytesPerPass(int32_t max_tokens) const;
};

Result<BlockDrafterWeights> LoadBlockDrafterWeights(Exec& exec, const std::string& directory,
                                                    const BlockDrafterConfig& config,
                                                    const Model& target);

// Deliberate faults, which a comparison with a reference must catch. Tests only.
struct BlockDrafterFaults {
  int32_t layer_shift = 0;    // added to every target layer id
  bool causal_block = false;  // row i of a block sees only rows 0 … i of it
  int32_t context_shift = 0;  // added to the position of every context key
  bool swap_anchor = false;   // the other convention of first_row
  int32_t window_shift = 0;   // added to every window
  bool reset_state = false;   // the RNN head forgets its state before every token
};

// A test's look at what a block computed.
struct BlockDrafterProbe {
  BlockDrafterFaults faults;
  // Written by Propose, for each query its `steps` rows (the largest max_tokens, at most the
  // block's).
  int32_t steps = 0;
  std::vector<float> hidden;  // [queries * steps, h] after the final norm
  std::vector<float> logits;  // [queries * steps, head rows] with the Markov bias
};

// `method` is the drafter's name too. `probe` may be null and must outlive the drafter.
Result<std::unique_ptr<Drafter>> MakeBlockDrafter(const DrafterContext& context,
                                                  std::string_view method,
                                                  BlockDrafterProbe* probe = nullptr);

}  // namespace firesteel
