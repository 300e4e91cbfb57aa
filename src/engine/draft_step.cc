#include "engine/draft_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/text_end.h"
#include "speculation/confidence.h"
#include "speculation/draft_tree.h"

namespace firesteel {
namespace {

bool IsWellFormed(const Draft& tree) {
  const size_t count = tree.tokens.size();
  const auto matches = [count](size_t size) { return size == 0 || size == count; };
  if (tree.parents.size() != count || !matches(tree.probs.size()) ||
      !matches(tree.confidence.size())) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (tree.parents[i] < -1 || tree.parents[i] >= static_cast<int32_t>(i)) return false;
  }
  return true;
}

}  // namespace

void Shorten(int32_t length, Draft* draft) {
  const auto n = static_cast<size_t>(length);
  if (IsTree(*draft)) {
    std::vector<int32_t> first(n);
    std::iota(first.begin(), first.end(), 0);
    return KeepNodes(first, draft);
  }
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

int32_t CutTree(const DraftLimits& limits, const SamplingParams& sampling, int32_t max_tokens,
                int32_t max_depth, Draft* draft, DraftCounts* counts) {
  const size_t drafted = draft->tokens.size();
  counts->drafted += static_cast<int64_t>(drafted);
  if (!IsWellFormed(*draft)) {
    counts->invalidated_malformed += static_cast<int64_t>(drafted);
    *draft = {};
    return 0;
  }
  draft->probs.clear();
  std::vector<int32_t> levels;
  LevelsOf(*draft, &levels);
  const std::span<const int32_t> tokens = draft->tokens, parents = draft->parents;
  std::vector<int64_t*> reasons(drafted);  // null: the node stays
  std::vector<int32_t> kept;
  for (size_t i = 0; i < drafted; ++i) {
    const int32_t parent = parents[i], token = tokens[i];
    const auto fault = [&]() -> int64_t* {
      if (parent >= 0) {
        const auto p = static_cast<size_t>(parent);
        if (reasons[p] != nullptr) return reasons[p];
        if (EndsText(tokens[p], sampling, limits.eos)) return &counts->invalidated_eos;
      }
      if (static_cast<int64_t>(i) >= max_tokens || levels[i] >= max_depth) {
        return &counts->invalidated_limit;
      }
      if (token < 0 || token >= limits.vocab_size ||
          ChildOf(tokens.first(i), parents.first(i), parent, token) >= 0) {
        return &counts->invalidated_malformed;
      }
      const bool judged = limits.confidence_threshold > 0 && !draft->confidence.empty();
      // Written so that NaN, which says nothing good, ends a path.
      if (judged && !(draft->confidence[i] >= limits.confidence_threshold)) return &counts->trimmed;
      return nullptr;
    };
    reasons[i] = fault();
    if (reasons[i] == nullptr) {
      kept.push_back(static_cast<int32_t>(i));
    } else {
      ++*reasons[i];
    }
  }
  KeepNodes(kept, draft);
  if (IsTree(*draft)) ToPreorder(draft);
  counts->verified += static_cast<int64_t>(kept.size());
  return static_cast<int32_t>(kept.size());
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
                                                               : NoisePurpose::kDraftGumbel,
                       .max_depth = planned.max_depth > 0
                                        ? std::min(planned.max_depth, planned.max_draft)
                                        : planned.max_draft,
                       .tenant = &s.tenant});
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
    const DraftQuery& query = queries[q];
    if (IsTree(draft)) {
      CutTree(limits, *query.sampling, query.max_tokens, query.max_depth, &draft, counts);
    } else {
      CutDraft(limits, *query.sampling, query.max_depth, &draft, counts);
    }
  }
  return {};
}

}  // namespace firesteel
