// A target model. Immutable after loading; Forward writes only to the cache, the workspace and its
// output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/matmul.h"
#include "kv/layout.h"
#include "kv/view.h"
#include "model/forward.h"
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace firesteel {

struct ModelInfo {
  std::string architecture;  // as in config.json: "Qwen3ForCausalLM"
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t max_positions = 0;
  int64_t num_parameters = 0;    // of the checkpoint, ballast not counted
  int64_t weight_bytes = 0;      // read by one step with logits, ballast included
  int64_t ballast_bytes = 0;     // of these, ballast
  std::vector<int32_t> eos_ids;  // generation_config.json, else config.json
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // What the model keeps per position; its groups come first in the cache's layout (group indices 0
  // …).
  virtual std::vector<CacheGroup> CacheGroups(DType kv_dtype) const = 0;

  // Writes the rows' keys and values into the cache, then attends through the cache, so that a row
  // sees the same (rounded) keys whichever step wrote them. The caller resets the workspace between
  // steps. Errors: none that a request could cause; kInternal for a batch that breaks its contract.
  virtual Status Forward(Exec& exec, const ForwardBatch& batch, const KvView& kv,
                         Workspace& workspace, ForwardOutput& out) const = 0;

  // What a drafter may share. Null when the model has none (a fake).
  virtual const WeightView* embedding() const = 0;  // [V, h]
  virtual const PackedWeight* lm_head() const = 0;  // [V, h]
};

}  // namespace firesteel
