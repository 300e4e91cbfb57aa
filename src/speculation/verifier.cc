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

struct Residual {
  Distribution distribution;  // norm(max(scale p - q, 0)), or p itself where nothing is left
  double mass = 0;            // before the norm
};

Residual ResidualOf(double scale, const Distribution& p, const Distribution& q) {
  Residual r;
  std::vector<double> excess;
  size_t j = 0;
  for (size_t i = 0; i < p.ids.size(); ++i) {
    while (j < q.ids.size() && q.ids[j] < p.ids[i]) ++j;
    const bool shared = j < q.ids.size() && q.ids[j] == p.ids[i];
    const double e = scale * double{p.probs[i]} - (shared ? double{q.probs[j]} : 0.0);
    if (e <= 0) continue;
    r.distribution.ids.push_back(p.ids[i]);
    excess.push_back(e);
    r.mass += e;
  }
  if (r.mass < kNoResidual) return {p, r.mass};
  r.distribution.probs.reserve(excess.size());
  for (double e : excess) r.distribution.probs.push_back(static_cast<float>(e / r.mass));
  return r;
}

double AcceptUniform(const VerifyInput& input, int32_t k) {
  return UniformNoise(input.noise, RoundPosition(input.anchor_position, k),
                      NoisePurpose::kAcceptUniform);
}

Verdict Reject(const VerifyInput& input) {
  const auto length = static_cast<int32_t>(input.draft.size());
  for (int32_t k = 0; k < length; ++k) {
    const auto at = static_cast<size_t>(k);
    const int32_t token = input.draft[at];
    const bool one_hot = input.draft_probs.empty();
    const double q = one_hot ? 1.0 : input.draft_probs[at].Prob(token);
    const Distribution& p = input.target(k);
    // q is 0 only for a token that was not drawn from it, and such a one has no claim.
    if (q > 0 && AcceptUniform(input, k) * q < p.Prob(token)) continue;
    const Residual residual =
        ResidualOf(1, p, one_hot ? Distribution::OneHot(token) : input.draft_probs[at]);
    return {k, SampleWithNoise(residual.distribution, input.noise, input.anchor_position + 1 + k,
                               NoisePurpose::kResidual)};
  }
  return {length, SampleWithNoise(input.target(length), input.noise,
                                  input.anchor_position + 1 + length, NoisePurpose::kTargetGumbel)};
}

// Walks the draft with rho = the chance that the tokens so far are kept, were the draft to end here
// (arXiv 2403.10444, Algorithm 2). Each length that its own test allows replaces the one before; a
// shorter one stays when no longer one comes. By induction from the end, a beginning of i tokens is
// kept with chance rho_i exactly, whatever ends the draft, as long as that was decided before the
// token behind its end was drawn.
Verdict VerifyBlock(const VerifyInput& input) {
  const auto length = static_cast<int32_t>(input.draft.size());
  Verdict verdict;
  double rho = 1;
  for (int32_t i = 0;; ++i) {
    const Distribution& p = input.target(i);
    if (i == length) {
      if (length > 0 && AcceptUniform(input, i - 1) > rho) return verdict;
      return {length, SampleWithNoise(p, input.noise, input.anchor_position + 1 + length,
                                      NoisePurpose::kTargetGumbel)};
    }
    const auto at = static_cast<size_t>(i);
    const Residual residual = ResidualOf(rho, p, input.draft_probs[at]);
    const double rest = residual.mass + 1 - rho;
    const double keep = rest > 0 ? residual.mass / rest : 1;
    if (i == 0 || AcceptUniform(input, i - 1) <= keep) {
      verdict = {i, SampleWithNoise(residual.distribution, input.noise,
                                    input.anchor_position + 1 + i, NoisePurpose::kResidual)};
    }
    const int32_t token = input.draft[at];
    const double q = input.draft_probs[at].Prob(token);
    rho = q > 0 ? std::min(1.0, rho * p.Prob(token) / q) : 0;
    if (rho == 0) return verdict;  // and so is all that follows
  }
}

}  // namespace

Verdict Verify(VerifyRule rule, const VerifyInput& input) {
  FS_CHECK(input.draft_probs.empty() || input.draft_probs.size() == input.draft.size(),
           "{} draft tokens with {} distributions", input.draft.size(), input.draft_probs.size());
  const bool match =
      rule == VerifyRule::kMatch || (rule == VerifyRule::kByDraft && input.draft_probs.empty());
  if (match) return Match(input);
  const bool block = rule != VerifyRule::kRejection && !input.draft_probs.empty();
  return block ? VerifyBlock(input) : Reject(input);
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
  if (setting == "block") return VerifyRule::kBlock;
  return seeded ? VerifyRule::kMatch : VerifyRule::kByDraft;
}

}  // namespace firesteel
