#include "speculation/verifier.h"

#include <algorithm>

#include "base/check.h"
#include "speculation/draft_tree.h"

namespace firesteel {
namespace {

// Below this the residual is rounding errors of two equal distributions.
constexpr double kNoResidual = 1e-8;

Verdict Match(const VerifyInput& input) {
  const auto length = static_cast<int32_t>(input.draft.size());
  for (int32_t k = 0;; ++k) {
    const int32_t token = SampleWithNoise(
        input.target(k), input.noise, input.anchor_position + 1 + k, NoisePurpose::kTargetGumbel);
    if (k == length || token != input.draft[static_cast<size_t>(k)]) return {k, token};
  }
}

// norm(max(p - q, 0)), or p itself where nothing is left.
Distribution Residual(const Distribution& p, const Distribution& q) {
  Distribution r;
  std::vector<double> excess;
  double mass = 0;
  size_t j = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    while (j < q.ids.size() && q.ids[j] < p.ids[i]) ++j;
    const bool shared = j < q.ids.size() && q.ids[j] == p.ids[i];
    const double e = double{p.probs[i]} - (shared ? double{q.probs[j]} : 0.0);
    if (e <= 0) continue;
    r.ids.push_back(p.ids[i]);
    excess.push_back(e);
    mass += e;
  }
  if (mass < kNoResidual) return p;
  r.probs.reserve(excess.size());
  for (double e : excess) r.probs.push_back(static_cast<float>(e / mass));
  return r;
}

Verdict Reject(const VerifyInput& input) {
  const auto length = static_cast<int32_t>(input.draft.size());
  for (int32_t k = 0; k < length; ++k) {
    const auto at = static_cast<size_t>(k);
    const int32_t token = input.draft[at];
    const bool one_hot = input.draft_probs.empty();
    const double q = one_hot ? 1.0 : input.draft_probs[at].Prob(token);
    const Distribution& p = input.target(k);
    const int64_t position = input.anchor_position + 1 + k;
    const double u = UniformNoise(input.noise, position, NoisePurpose::kAcceptUniform);
    // q is 0 only for a token that was not drawn from it, and such a one has no claim.
    if (q > 0 && u * q < p.Prob(token)) continue;
    const Distribution residual =
        Residual(p, one_hot ? Distribution::OneHot(token) : input.draft_probs[at]);
    return {k, SampleWithNoise(residual, input.noise, position, NoisePurpose::kResidual)};
  }
  return {length, SampleWithNoise(input.target(length), input.noise,
                                  input.anchor_position + 1 + length, NoisePurpose::kTargetGumbel)};
}

}  // namespace

Verdict Verify(VerifyRule rule, const VerifyInput& input) {
  FS_CHECK(input.draft_probs.empty() || input.draft_probs.size() == input.draft.size(),
           "{} draft tokens with {} distributions", input.draft.size(), input.draft_probs.size());
  const bool match =
      rule == VerifyRule::kMatch || (rule == VerifyRule::kByDraft && input.draft_probs.empty());
  return match ? Match(input) : Reject(input);
}

Verdict VerifyTree(const TreeVerifyInput& input, std::vector<int32_t>* path) {
  path->clear();
  for (int32_t node = -1;;) {
    const auto accepted = static_cast<int32_t>(path->size());
    const int32_t token =
        SampleWithNoise(input.target(node), input.noise, input.anchor_position + 1 + accepted,
                        NoisePurpose::kTargetGumbel);
    node = ChildOf(input.draft, input.parents, node, token);
    if (node < 0) return {accepted, token};
    path->push_back(node);
  }
}

VerifyRule ChooseRule(std::string_view setting, bool greedy, bool seeded) {
  if (greedy || setting == "match") return VerifyRule::kMatch;
  if (setting == "rejection") return VerifyRule::kRejection;
  return seeded ? VerifyRule::kMatch : VerifyRule::kByDraft;
}

}  // namespace firesteel
