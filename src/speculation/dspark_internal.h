// A DSpark checkpoint as DeepSpec writes it for Qwen3: config, weights, and what tests may ask of
// the drafter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
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
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace firesteel {

// Letters as in the shapes below: h hidden, V vocabulary, m target layers, r Markov rank, L draft
// layers.
struct DsparkConfig {
  DecoderConfig decoder;
  int32_t block_size = 0;  // input rows = draft tokens
  int32_t mask_token = 0;
  std::vector<int32_t>
      target_layers;  // residual stream after layer k, 0-based; -1: the embedding output
  int32_t markov_rank =
      0;  // 0: no Markov head, the rows of a block are independent (DFlash as DeepSpec trains it)
  bool confidence = false;
  bool confidence_with_markov =
      false;  // the confidence head also sees the previous token's Markov row
};

// kInvalidArgument or kUnsupported: names the field, what was found, and what the target has.
Result<DsparkConfig> ParseDsparkConfig(const Json& config, const ModelInfo& target,
                                       const std::string& where);

// Immutable after loading.
struct DsparkWeights {
  Safetensors tensors;
  SharedTables tables;
  PackedWeight fc;            // [h, m h]
  Buffer<float> hidden_norm;  // [h]
  std::vector<DecoderLayer> layers;
  std::vector<DecoderLayer> ballast;
  // All layers' k and v once more, stacked [L 2 Hkv D, h]: context rows are projected for all
  // layers in one pass, and they need no queries.
  PackedWeight context_kv;
  Buffer<float> norm;        // [h]
  WeightView markov_w1;      // [V, r]
  PackedWeight markov_w2;    // [V, r]
  Buffer<float> confidence;  // [h] or [h + r]
  float confidence_bias = 0;

  // Read by one draft pass: every layer, fc and context projections once, the head once, Markov's
  // w2 for every token.
  int64_t BytesPerPass(int32_t block_size) const;
};

Result<DsparkWeights> LoadDsparkWeights(Exec& exec, const std::string& directory,
                                        const DsparkConfig& config, const Model& target);

// Deliberate faults, which a golden comparison must catch. Tests only.
struct DsparkFaults {
  int32_t layer_shift = 0;    // added to every target layer id
  bool causal_block = false;  // row i of a block sees only rows 0 … i of it
  int32_t context_shift = 0;  // added to the position of every context key
};

// A test's look at what a block computed.
struct DsparkProbe {
  DsparkFaults faults;
  // Written by Propose, for each query its `steps` rows (the largest max_tokens, at most the
  // block).
  int32_t steps = 0;
  std::vector<float> hidden;  // [queries * steps, h] after the final norm
  std::vector<float> logits;  // [queries * steps, V] with the Markov bias
};

// `probe` may be null and must outlive the drafter.
Result<std::unique_ptr<Drafter>> MakeDsparkWithProbe(const DrafterContext& context,
                                                     DsparkProbe* probe);

}  // namespace firesteel
