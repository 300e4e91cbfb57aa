// The rows of one step, laid out for Model::Forward: planned tokens first, then the sequence's
// draft. A tree in preorder: its first branch follows the anchor in the sequence's own slot, every
// other is rows of a slot of its own and shares the rows that it hangs from.
//
// Engine thread only. The vectors keep their memory from step to step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "model/forward.h"
#include "speculation/drafter.h"

namespace firesteel {

struct StepBatch {
  std::vector<int32_t> tokens;          // [T]
  std::vector<int32_t> positions;       // [T]
  std::vector<SequenceRows> sequences;  // one per planned sequence and branch
  std::vector<SequenceRows> shared;     // ForwardBatch::shared
  std::vector<int32_t> first_row;       // by planned sequence
  std::vector<int32_t> logit_rows;      // [L]
  // Index among the logit rows of a sequence's anchor, draft rows following; -1 when it does not
  // decide.
  std::vector<int32_t> first_logit;

  ForwardBatch View(std::span<const int32_t> feature_layers) const {
    return {tokens, positions, sequences, logit_rows, feature_layers, shared};
  }
};

// The slots of a tree's branches behind the first, in preorder, by planned sequence. What stands
// where the draft is no tree is not read.
using StepBranches = std::vector<std::vector<SequenceSlot>>;

// `drafts[i]` belongs to plan.sequences[i].
void BuildForwardBatch(const StepPlan& plan, std::span<const Draft> drafts,
                       const StepBranches& branches, StepBatch* batch);

}  // namespace firesteel
