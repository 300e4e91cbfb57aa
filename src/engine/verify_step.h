// From the logits of a step to the tokens that come out of it, for all its sequences in parallel.
//
// Engine thread only; the results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "engine/step_stats.h"
#include "firesteel/request.h"
#include "kernels/exec.h"
#include "sampling/distribution.h"
#include "tensor/matrix.h"

namespace firesteel {

// What the target says about one sequence. Empty tokens: it did not decide.
struct SequenceVerdict {
  int32_t accepted = 0;
  std::vector<int32_t> path;    // the accepted tokens' places in the draft
  std::vector<int32_t> tokens;  // the accepted draft tokens, then the correction or bonus
  std::vector<TokenLogprob>
      logprobs;  // one per token when asked for, from the raw logits of the row that decided it

  // Which of the sequence's logit rows decided tokens[k]: its anchor is row 0.
  int32_t RowOf(size_t k) const { return k == 0 ? 0 : path[k - 1] + 1; }
};

DraftRound RoundOf(const Draft& draft, const SequenceVerdict& verdict);

// What VerifySequences works in, so that it does not allocate in steady state.
struct VerifyScratch {
  struct OfThread {
    std::vector<float> processed;  // logits of a row after penalties [V]
    Distribution distribution;
    DistributionScratch of_distribution;
    std::vector<int32_t> prefix;  // of a tree: the tokens kept so far
  };
  std::vector<OfThread> threads;
};

// `logits` [L, V] as batch.logit_rows asked. A verdict reads a sequence's own logits only.
void VerifySequences(Exec& exec, const StepPlan& plan, std::span<const Draft> drafts,
                     const StepBatch& batch, ConstMatrix logits, VerifyScratch* scratch,
                     std::vector<SequenceVerdict>* verdicts);

// A planted fault (EngineOptions::plant_wrong_accepts): in up to `count` verdicts that refused a
// draft token, that token replaces the correction. Returns how many. For before logprobs are taken.
int32_t PlantWrongAccepts(int32_t count, std::span<const Draft> drafts,
                          std::vector<SequenceVerdict>* verdicts);

// Fills the logprobs of the verdicts whose requests ask for them.
void TakeLogprobs(Exec& exec, const StepPlan& plan, const StepBatch& batch, ConstMatrix logits,
                  std::vector<SequenceVerdict>* verdicts);

}  // namespace firesteel
