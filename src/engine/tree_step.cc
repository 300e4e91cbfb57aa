#include "engine/tree_step.h"

#include <algorithm>

#include "engine/draft_step.h"
#include "speculation/draft_tree.h"

namespace firesteel {
namespace {

// Returns how many nodes, from the first on, have a place.
size_t ForkTree(SequenceSlot slot, const Draft& tree, KvCache& cache,
                std::vector<SequenceSlot>* branches) {
  std::vector<int32_t> levels;
  LevelsOf(tree, &levels);
  const size_t count = tree.tokens.size();
  for (size_t node = 1; node < count; ++node) {
    if (!BeginsBranch(tree, node)) continue;
    size_t leaf = node;
    while (leaf + 1 < count && !BeginsBranch(tree, leaf + 1)) ++leaf;
    const int64_t anchor = cache.Length(slot);
    const auto branch = cache.Fork(slot, anchor + 1 + levels[leaf] + 1);
    if (!branch) return node;
    branches->push_back(*branch);
  }
  return count;
}

// Which branch a node belongs to first; 0: the one in the sequence's own slot.
size_t BranchOf(const Draft& tree, int32_t node) {
  size_t branch = 0;
  for (size_t i = 1; static_cast<int32_t>(i) <= node; ++i) branch += BeginsBranch(tree, i) ? 1 : 0;
  return branch;
}

}  // namespace

void ForkBranches(const StepPlan& plan, KvCache& cache, std::vector<Draft>* drafts,
                  StepBranches* branches, DraftCounts* counts) {
  branches->resize(std::max(branches->size(), drafts->size()));
  for (size_t i = 0; i < drafts->size(); ++i) {
    Draft& draft = (*drafts)[i];
    if (!IsTree(draft)) continue;
    (*branches)[i].clear();
    const size_t placed = ForkTree(plan.sequences[i].sequence->slot, draft, cache, &(*branches)[i]);
    const auto cut = static_cast<int64_t>(draft.tokens.size() - placed);
    if (cut == 0) continue;
    Shorten(static_cast<int32_t>(placed), &draft);
    counts->trimmed += cut;
    counts->verified -= cut;
  }
}

void JoinBranches(const StepPlan& plan, std::span<const Draft> drafts,
                  std::span<const SequenceVerdict> verdicts, const StepBranches& branches,
                  bool plant_wrong, KvCache& cache) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (!IsTree(drafts[i])) continue;
    const std::vector<int32_t>& path = verdicts[i].path;
    size_t branch = BranchOf(drafts[i], path.empty() ? -1 : path.back());
    if (plant_wrong) branch = (branch + 1) % (branches[i].size() + 1);
    const SequenceSlot slot = plan.sequences[i].sequence->slot;
    cache.Join(slot, branch == 0 ? slot : branches[i][branch - 1]);
  }
}

void GatherFeatures(const StepPlan& plan, std::span<const Draft> drafts,
                    std::span<const SequenceVerdict> verdicts, const StepBatch& batch,
                    Matrix<float> features) {
  if (features.cols == 0) return;
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (!IsTree(drafts[i])) continue;
    const int64_t anchor = batch.first_row[i] + plan.sequences[i].num_rows - 1;
    // Downward, so that no row is overwritten before it has moved: nodes stand in preorder.
    for (size_t k = 1; k <= verdicts[i].path.size(); ++k) {
      const int64_t from = anchor + verdicts[i].RowOf(k), to = anchor + static_cast<int64_t>(k);
      if (from != to) std::ranges::copy(features.RowSpan(from), features.Row(to));
    }
  }
}

}  // namespace firesteel
