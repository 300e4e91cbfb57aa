// The rows of one step, laid out for Model::Forward: planned tokens first, then the sequence's
// draft.
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
  std::vector<SequenceRows> sequences;  // one per planned sequence
  std::vector<int32_t> logit_rows;      // [L]
  // Index among the logit rows of a sequence's anchor, draft rows following; -1 when it does not
  // decide.
  std::vector<int32_t> first_logit;

  ForwardBatch View(std::span<const int32_t> feature_layers) const {
    return {tokens, positions, sequences, logit_rows, feature_layers};
  }
};

// `drafts[i]` belongs to plan.sequences[i].
void BuildForwardBatch(const StepPlan& plan, std::span<const Draft> drafts, StepBatch* batch);

}  // namespace firesteel
