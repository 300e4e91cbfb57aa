// How many draft tokens the target keeps, and which token follows: docs/speculation.md.
//
// Pure functions of their input: the engine and the statistical tests call the same code.
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "sampling/distribution.h"
#include "sampling/noise.h"

namespace firesteel {

enum class VerifyRule {
  // Draw y_k from p_k with the position's own noise, accept while x_k == y_k; at temperature 0 that
  // is the argmax. Lossless for every draft and every choice of what to verify; the text does not
  // depend on the draft.
  kMatch,
  // Accept with min(1, p/q), correct from norm(max(p - q, 0)). Lossless when x_k was drawn from q_k
  // with independent noise and what is verified was decided without looking at it.
  kRejection,
  // Accepts the longest beginning that the draft as a whole allows (Sun et al. 2024): at least as
  // much as kRejection in expectation, lossless under the same conditions. Needs the draft's
  // distributions; a one-hot draft goes by kRejection, which is the same there.
  kBlock,
  // kMatch for a one-hot draft, else kBlock. The rounds of one request may differ: each decides
  // its positions once, and both rules draw the token behind a whole draft with the same noise.
  kByDraft,
};

struct VerifyInput {
  std::span<const int32_t> draft;             // x_1 … x_l
  std::span<const Distribution> draft_probs;  // q_1 … q_l, or empty: one-hot
  // p_{k+1}, the processed target distribution of row k in [0, l]; asked for in order, each at most
  // once, none after the first refusal. The reference must stay valid until the next call.
  FunctionRef<const Distribution&(int32_t row)> target;
  NoiseKey noise;
  int64_t anchor_position = 0;  // row k decides position anchor_position + 1 + k
};

struct Verdict {
  int32_t accepted = 0;    // A: draft tokens kept
  int32_t next_token = 0;  // correction (A < l) or bonus (A == l)
};

Verdict Verify(VerifyRule rule, const VerifyInput& input);

struct TreeVerifyInput {
  std::span<const int32_t> draft;
  std::span<const int32_t> parents;  // Draft::parents
  // The processed target distribution behind a node, -1 the anchor; asked for along the accepted
  // path alone, each at most once. The reference must stay valid until the next call.
  FunctionRef<const Distribution&(int32_t node)> target;
  NoiseKey noise;
  int64_t anchor_position = 0;
};

// kMatch on a tree: at a node draw y from p with the position's own noise; where a child holds y go
// on from there, else y is the correction. Lossless for every tree, and the text does not depend on
// it. `path`: the nodes kept, from the top.
Verdict VerifyTree(const TreeVerifyInput& input, std::vector<int32_t>* path);

// The rule for a request. `setting` auto: greedy and seeded requests match, unseeded ones go by the
// draft. match: always. rejection, block: always but for greedy ones, also with a seed, whose text
// then depends on the drafts.
VerifyRule ChooseRule(std::string_view setting, bool greedy, bool seeded);

}  // namespace firesteel
