// Drawing one token of a draft, for every drafter that has logits.
#pragma once

#include <cstdint>
#include <span>

#include "base/json.h"
#include "firesteel/status.h"
#include "speculation/drafter.h"

namespace firesteel {

// `draft_sample_method` of --speculative-config: whether drafts are the argmax at any temperature
// ("greedy"), or drawn as the request samples ("auto", "probabilistic").
Result<bool> ReadAlwaysGreedy(const Json& config);

// Appends the next token of `draft`, a chain behind the query's anchor, drawn from `logits` [V] as
// the request samples, with the noise of the token's position; and its distribution unless the
// token is the argmax. Returns the token. `target_ids`: of a reduced vocabulary, the target's id of
// each logit, ascending; empty: logits are of the target's vocabulary.
int32_t DrawDraftToken(const DraftQuery& query, std::span<const float> logits, bool always_greedy,
                       Draft* draft, std::span<const int32_t> target_ids = {});

}  // namespace firesteel
