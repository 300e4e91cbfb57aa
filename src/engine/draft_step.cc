#include "engine/draft_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/text_end.h"
#include "speculation/confidence.h"

namespace firesteel {
void Shorten(int32_t length, Draft* draft) {
  const auto n = static_cast<size_t>(length);
  draft->tokens.resize(n);
  if (draft->probs.size() > n) draft->probs.resize(n);
  if (draft->confidence.size() > n) draft->confidence.resize(n);
}

int32_t CutDraft(const DraftLimits& limits, const SamplingParams& sampling, int32_t max_tokens,
                 Draft* draft, DraftCounts* counts) {
  const auto drafted = static_cast<int32_t>(draft->tokens.size());
  const auto matches = [&](size_t size) { return size == 0 || size == draft->tokens.size(); };
  int32_t length = 0;
  int64_t* reason = &counts->invalidated_malformed;
  if (matches(draft->probs.size()) && matches(draft->confidence.size())) {
    reason = &counts->invalidated_limit;
    const int32_t end = std::min(drafted, max_tokens);
    while (length < end) {
      const int32_t token = draft->tokens[static_cast<size_t>(length)];
      if (token < 0 || token >= limits.vocab_size) {
        reason = &counts->invalidated_malformed;
        break;
      }
      ++length;
      if (EndsText(token, sampling, limits.eos)) {
        reason = &counts->invalidated_eos;
        break;
      }
    }
  }
  Shorten(length, draft);
  const int32_t verified =
      TrimLength(PreTokenConfidence(*draft), length, limits.confidence_threshold);
  Shorten(verified, draft);
  counts->drafted += drafted;
  *reason += drafted - length;
  counts->trimmed += length - verified;
  counts->verified += verified;
  return verified;
}

Status ProposeDrafts(Exec& exec, const StepPlan& plan, const KvView& kv, Workspace& workspace,
                     Drafter& drafter, const DraftLimits& limits, std::vector<Draft>* drafts,
                     DraftCounts* counts) {
  drafts->assign(plan.sequences.size(), Draft());
  std::vector<DraftQuery> queries;
  std::vector<size_t> of_query;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    if (planned.max_draft == 0) continue;
    const Sequence& s = *planned.sequence;
    queries.push_back({.slot = s.slot,
                       .tokens = s.tokens,
                       .max_tokens = planned.max_draft,
                       .sampling = &s.sampling,
                       .noise = s.noise,
                       .purpose = s.rule == VerifyRule::kMatch ? NoisePurpose::kTargetGumbel
                                                               : NoisePurpose::kDraftGumbel});
    of_query.push_back(i);
  }
  if (queries.empty()) return {};
  std::vector<Draft> answers;
  workspace.Reset();
  FS_TRY(drafter.Propose(exec, queries, kv, workspace, &answers));
  if (answers.size() != queries.size()) {
    return Internal(fmt::format("drafter {} answered {} of {} queries", drafter.info().name,
                                answers.size(), queries.size()));
  }
  for (size_t q = 0; q < queries.size(); ++q) {
    Draft& draft = (*drafts)[of_query[q]];
    draft = std::move(answers[q]);
    plan.sequences[of_query[q]].sequence->usage.speculation.drafted +=
        static_cast<int64_t>(draft.tokens.size());
    CutDraft(limits, *queries[q].sampling, queries[q].max_tokens, &draft, counts);
  }
  return {};
}

}  // namespace firesteel
