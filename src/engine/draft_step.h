// The drafts of one step: asks the drafter, and cuts what must not or need not be verified.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "engine/step_stats.h"
#include "firesteel/status.h"
#include "speculation/drafter.h"

namespace firesteel {

struct DraftLimits {
  int32_t vocab_size = 0;
  double confidence_threshold = 0;  // 0: no trimming
  std::span<const int32_t> eos;
};

// Cuts `draft` to what is sent to the target and returns how many tokens that is; what is cut is
// counted in `counts`. Removed as invalid, all under the reason that came first: tokens above
// `max_tokens` (limit), from the first id outside the vocabulary on (malformed), behind a token
// that would end the text (eos); the whole draft when probabilities or confidences do not match the
// tokens (malformed). Then trimmed by confidence.
int32_t CutDraft(const DraftLimits& limits, const SamplingParams& sampling, int32_t max_tokens,
                 Draft* draft, DraftCounts* counts);

// The same for a tree, whose nodes go with their descendants: those of a higher index or level than
// asked for (limit), an id outside the vocabulary or the token of an earlier brother (malformed),
// behind a token that ends the text (eos), a confidence below the threshold (trimmed). Parents out
// of order, or parts of different sizes, make the whole tree malformed. What stays is in preorder.
int32_t CutTree(const DraftLimits& limits, const SamplingParams& sampling, int32_t max_tokens,
                int32_t max_depth, Draft* draft, DraftCounts* counts);

// Cuts a draft to its first `length` tokens. Of a tree: in preorder.
void Shorten(int32_t length, Draft* draft);

// Fills `drafts[i]` for plan.sequences[i]; empty where max_draft is 0. Nobody asking, the drafter
// is not called.
Status ProposeDrafts(Exec& exec, const StepPlan& plan, const KvView& kv, Workspace& workspace,
                     Drafter& drafter, const DraftLimits& limits, std::vector<Draft>* drafts,
                     DraftCounts* counts);

}  // namespace firesteel
