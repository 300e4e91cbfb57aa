// What a step does besides when drafts are trees. Every path from the root to a leaf is a branch: a
// block table that shares what lies below the anchor and has room of its own behind it
// (KvCache::Fork). So a row of a tree sees what it would see in a chain, in the same order, and
// computes the same bits; and what is accepted is kept by keeping its branch's table.
//
// Engine thread only.
#pragma once

#include <span>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "engine/step_stats.h"
#include "engine/verify_step.h"
#include "kv/kv_cache.h"
#include "speculation/drafter.h"
#include "tensor/matrix.h"

namespace firesteel {

// Opens the branches of all trees. A tree for which blocks are short loses its end in preorder,
// counted as trimmed instead of verified: nobody gives way to it. REQUIRES: preorder.
void ForkBranches(const StepPlan& plan, KvCache& cache, std::vector<Draft>* drafts,
                  StepBranches* branches, DraftCounts* counts);

// Ends the branches; the accepted path's rows become the sequence's. `plant_wrong`: another
// branch's, a planted fault.
void JoinBranches(const StepPlan& plan, std::span<const Draft> drafts,
                  std::span<const SequenceVerdict> verdicts, const StepBranches& branches,
                  bool plant_wrong, KvCache& cache);

// Moves the accepted nodes' rows of features up to the anchor's, so that they follow each other as
// a chain's do.
void GatherFeatures(const StepPlan& plan, std::span<const Draft> drafts,
                    std::span<const SequenceVerdict> verdicts, const StepBatch& batch,
                    Matrix<float> features);

}  // namespace firesteel
