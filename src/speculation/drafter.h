// What proposes tokens. `none` is a drafter too, so the step has no special case.
//
// Life of a sequence: Observe with every committed row (prefill chunks included), Propose when it
// decodes, Forget at its end or preemption. What Propose writes is scratch unless a later Observe
// names the tokens; hence no rollback call: the engine shortens the target's sequence, and the
// drafter follows in Observe. State per position lives in the cache groups, where prefix hits find
// it; other state is keyed by slot and rebuilt from `tokens`.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "firesteel/request.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kv/layout.h"
#include "kv/view.h"
#include "sampling/distribution.h"
#include "sampling/noise.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"

namespace firesteel {

// Rows of the last forward whose tokens are committed: positions [first_position, first_position +
// count) of a sequence. Their target features are rows [feature_row, feature_row + count) of the
// step's features.
struct CommittedRows {
  SequenceSlot slot = 0;
  int64_t first_position = 0;
  int32_t count = 0;
  int64_t feature_row = 0;
  // All committed tokens, the next anchor included: at least first_position + count.
  std::span<const int32_t> tokens;
  // Whose text it is: what is learned from it may serve this tenant's requests alone. Null:
  // nobody's, nothing may be kept of it.
  const std::string* tenant = nullptr;
  int32_t prompt_length = 0;  // of `tokens`
};

struct DraftQuery {
  SequenceSlot slot = 0;
  // All committed tokens; the last one is the anchor, its KV not yet in the cache.
  std::span<const int32_t> tokens;
  int32_t max_tokens = 0;  // >= 1: more would be thrown away; in a tree, nodes
  const SamplingParams* sampling = nullptr;
  NoiseKey noise;
  // Coupled drafts share the target's noise (kTargetGumbel), independent ones have their own
  // (kDraftGumbel).
  NoisePurpose purpose = NoisePurpose::kDraftGumbel;
  int32_t max_depth = 0;  // of a tree, >= 1 and <= max_tokens; max_tokens for a drafter of chains
  const std::string* tenant = nullptr;  // as CommittedRows::tenant
};

// A chain or a tree for one query; may be empty.
struct Draft {
  std::vector<int32_t> tokens;
  // A tree: the index among `tokens` of each token's parent, -1 for the children of the anchor.
  // Parents precede their children, and children of one parent differ. Empty: a chain, each token
  // behind the one before.
  std::vector<int32_t> parents;
  // q_k, the distribution tokens[k] was really drawn from; empty when the draft is one-hot (greedy,
  // n-gram). Of a tree they are ignored: it is verified by the rule kMatch, whatever it was drawn
  // from.
  std::vector<Distribution> probs;
  // P(tokens[k] accepted | those before it accepted), computed before tokens[k] was drawn; empty
  // without a confidence head. Deciding by it which tokens to verify keeps sampling lossless;
  // deciding by the tokens would not (docs/speculation.md). In a tree: P(tokens[k] accepted | its
  // parent accepted), and it may look at the token.
  std::vector<float> confidence;
};

struct DrafterInfo {
  std::string name;
  int32_t max_tokens = 0;               // the trained block, or the method's limit; nodes of a tree
  int32_t max_depth = 0;                // of its trees; 0: chains alone, as long as max_tokens
  std::vector<int32_t> feature_layers;  // target layers to capture, ForwardBatch::feature_layers
  int64_t weight_bytes = 0;             // read by one draft pass, shared head included
  // Checkpoint whose tokens must be the target's; "": it has none of its own.
  std::string tokenizer = "";
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual const DrafterInfo& info() const = 0;
  virtual std::vector<CacheGroup> CacheGroups(DType kv_dtype) const { return {}; }

  // features [rows, m * hidden], as captured. Called once a step, also when nothing was or will be
  // drafted.
  virtual Status Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                         const KvView& kv, Workspace& workspace) = 0;
  // One draft per query, in order. `workspace` is scratch of this call.
  virtual Status Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                         Workspace& workspace, std::vector<Draft>* drafts) = 0;
  virtual void Forget(SequenceSlot slot) {}
};

}  // namespace firesteel
