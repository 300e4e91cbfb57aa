#include "engine/verify_step.h"

#include <algorithm>
#include <numeric>

#include "sampling/distribution.h"
#include "speculation/draft_tree.h"
#include "speculation/verifier.h"

namespace firesteel {
namespace {

void VerifyOne(const PlannedSequence& planned, const Draft& draft, int32_t first_logit,
               ConstMatrix logits, VerifyScratch::OfThread* scratch, SequenceVerdict* verdict) {
  const Sequence& s = *planned.sequence;
  const std::span<const int32_t> tokens = draft.tokens;
  const bool as_is = s.processor.IsIdentity();
  scratch->distribution.ids.reserve(static_cast<size_t>(logits.cols));
  scratch->distribution.probs.reserve(static_cast<size_t>(logits.cols));
  const auto behind = [&](std::span<const int32_t> prefix, int32_t row) -> const Distribution& {
    std::span<const float> raw = logits.RowSpan(first_logit + row);
    if (!as_is) {
      scratch->processed.assign(raw.begin(), raw.end());  // logprobs need the raw ones
      s.processor.Process(prefix, scratch->processed);
      raw = scratch->processed;
    }
    MakeDistribution(raw, s.sampling, &scratch->of_distribution, &scratch->distribution);
    return scratch->distribution;
  };
  Verdict v;
  if (IsTree(draft)) {
    scratch->prefix.clear();
    const auto target = [&](int32_t node) -> const Distribution& {
      if (node >= 0) scratch->prefix.push_back(tokens[static_cast<size_t>(node)]);
      return behind(scratch->prefix, node + 1);
    };
    v = VerifyTree({.draft = tokens,
                    .parents = draft.parents,
                    .target = target,
                    .noise = s.noise,
                    .anchor_position = s.Length() - 1},
                   &verdict->path);
  } else {
    const auto target = [&](int32_t row) -> const Distribution& {
      return behind(tokens.first(static_cast<size_t>(row)), row);
    };
    v = Verify(s.rule, {.draft = tokens,
                        .draft_probs = draft.probs,
                        .target = target,
                        .noise = s.noise,
                        .anchor_position = s.Length() - 1});
    verdict->path.resize(static_cast<size_t>(v.accepted));
    std::iota(verdict->path.begin(), verdict->path.end(), 0);
  }
  verdict->accepted = v.accepted;
  for (const int32_t node : verdict->path) {
    verdict->tokens.push_back(tokens[static_cast<size_t>(node)]);
  }
  verdict->tokens.push_back(v.next_token);
}

// The token that the verifier refused where the path ends; -1: the draft has none.
int32_t RefusedToken(const Draft& draft, const SequenceVerdict& verdict) {
  const int32_t last = verdict.path.empty() ? -1 : verdict.path.back();
  for (auto i = static_cast<size_t>(last + 1); i < draft.tokens.size(); ++i) {
    if (!IsTree(draft) || draft.parents[i] == last) return draft.tokens[i];
  }
  return -1;
}

}  // namespace

void VerifySequences(Exec& exec, const StepPlan& plan, std::span<const Draft> drafts,
                     const StepBatch& batch, ConstMatrix logits, VerifyScratch* scratch,
                     std::vector<SequenceVerdict>* verdicts) {
  verdicts->resize(plan.sequences.size());
  scratch->threads.resize(static_cast<size_t>(exec.pool.NumThreads()));
  const auto n = static_cast<int64_t>(plan.sequences.size());
  exec.pool.ParallelFor(n, 1, [&](int64_t begin, int64_t end, int thread) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      SequenceVerdict& verdict = (*verdicts)[i];
      verdict.accepted = 0;
      verdict.path.clear();
      verdict.tokens.clear();
      verdict.logprobs.clear();
      if (batch.first_logit[i] < 0) continue;
      VerifyOne(plan.sequences[i], drafts[i], batch.first_logit[i], logits,
                &scratch->threads[static_cast<size_t>(thread)], &verdict);
    }
  });
}

DraftRound RoundOf(const Draft& draft, const SequenceVerdict& verdict) {
  const auto verified = static_cast<int32_t>(draft.tokens.size());
  if (!IsTree(draft)) return DraftRound::OfChain(verified, verdict.accepted);
  const int32_t last = verdict.path.empty() ? -1 : verdict.path.back();
  return {.verified = verified,
          .depth = DepthOf(draft),
          .reached = verdict.accepted + (HasChild(draft, last) ? 1 : 0),
          .accepted = verdict.accepted};
}

int32_t PlantWrongAccepts(int32_t count, std::span<const Draft> drafts,
                          std::vector<SequenceVerdict>* verdicts) {
  int32_t planted = 0;
  for (size_t i = 0; i < verdicts->size() && planted < count; ++i) {
    SequenceVerdict& verdict = (*verdicts)[i];
    if (verdict.tokens.empty()) continue;
    const int32_t refused = RefusedToken(drafts[i], verdict);
    if (refused < 0 || verdict.tokens.back() == refused) continue;
    verdict.tokens.back() = refused;
    ++planted;
  }
  return planted;
}

void TakeLogprobs(Exec& exec, const StepPlan& plan, const StepBatch& batch, ConstMatrix logits,
                  std::vector<SequenceVerdict>* verdicts) {
  std::vector<size_t> wanted;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (plan.sequences[i].sequence->sampling.logprobs >= 0) wanted.push_back(i);
  }
  const auto n = static_cast<int64_t>(wanted.size());
  exec.pool.ParallelFor(n, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t w = begin; w < end; ++w) {
      const size_t i = wanted[static_cast<size_t>(w)];
      SequenceVerdict& verdict = (*verdicts)[i];
      for (size_t k = 0; k < verdict.tokens.size(); ++k) {
        const int64_t row = batch.first_logit[i] + verdict.RowOf(k);
        verdict.logprobs.push_back(RawLogprob(logits.RowSpan(row), verdict.tokens[k],
                                              plan.sequences[i].sequence->sampling.logprobs));
      }
    }
  });
}

}  // namespace firesteel
