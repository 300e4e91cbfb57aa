#include "engine/batch_builder.h"

#include "base/check.h"
#include "speculation/draft_tree.h"

namespace firesteel {
namespace {

// The rows from the anchor to `parent`, from the bottom up, as runs of neighbours in the batch. The
// anchor, node -1, stands right before node 0.
void ShareAncestors(const Draft& tree, int32_t parent, int32_t anchor_row, SequenceSlot slot,
                    StepBatch* batch) {
  for (int32_t end = parent;;) {
    int32_t begin = end;
    while (begin >= 0 && tree.parents[static_cast<size_t>(begin)] == begin - 1) --begin;
    const int32_t row = anchor_row + 1 + begin;
    batch->shared.push_back(
        {slot, row, end - begin + 1, batch->positions[static_cast<size_t>(row)]});
    if (begin < 0) return;
    end = tree.parents[static_cast<size_t>(begin)];
  }
}

// `sequences` ends with the anchor's run.
void AddTree(const Draft& tree, std::span<const SequenceSlot> branches, StepBatch* batch) {
  const auto anchor_row = static_cast<int32_t>(batch->tokens.size()) - 1;
  size_t next_branch = 0;
  for (size_t node = 0; node < tree.tokens.size(); ++node) {
    const auto row = static_cast<int32_t>(batch->tokens.size());
    const int32_t parent = tree.parents[node];
    const int32_t position = batch->positions[static_cast<size_t>(anchor_row + 1 + parent)] + 1;
    if (BeginsBranch(tree, node)) {
      const SequenceSlot slot = branches[next_branch++];
      ShareAncestors(tree, parent, anchor_row, slot, batch);
      batch->sequences.push_back({slot, row, 0, position});
    }
    batch->tokens.push_back(tree.tokens[node]);
    batch->positions.push_back(position);
    ++batch->sequences.back().row_count;
  }
  FS_CHECK(next_branch == branches.size(), "{} branches of {} have rows", next_branch,
           branches.size());
}

}  // namespace

void BuildForwardBatch(const StepPlan& plan, std::span<const Draft> drafts,
                       const StepBranches& branches, StepBatch* batch) {
  FS_CHECK(drafts.size() == plan.sequences.size(), "{} drafts for {} sequences", drafts.size(),
           plan.sequences.size());
  batch->tokens.clear();
  batch->positions.clear();
  batch->sequences.clear();
  batch->shared.clear();
  batch->first_row.clear();
  batch->logit_rows.clear();
  batch->first_logit.clear();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    const auto row_begin = static_cast<int32_t>(batch->tokens.size());
    auto position = static_cast<int32_t>(planned.first_position);
    const auto add_row = [&](int32_t token) {
      batch->tokens.push_back(token);
      batch->positions.push_back(position++);
    };
    for (int32_t r = 0; r < planned.num_rows; ++r) {
      add_row(planned.sequence->tokens[static_cast<size_t>(planned.first_position + r)]);
    }
    const bool is_tree = IsTree(drafts[i]);
    if (!is_tree) {
      for (int32_t token : drafts[i].tokens) add_row(token);
    }
    batch->sequences.push_back({planned.sequence->slot, row_begin,
                                static_cast<int32_t>(batch->tokens.size()) - row_begin,
                                planned.first_position});
    if (is_tree) AddTree(drafts[i], branches[i], batch);
    batch->first_row.push_back(row_begin);
    batch->first_logit.push_back(planned.decides ? static_cast<int32_t>(batch->logit_rows.size())
                                                 : -1);
    if (!planned.decides) continue;
    const auto row_end = static_cast<int32_t>(batch->tokens.size());
    for (int32_t row = row_begin + planned.num_rows - 1; row < row_end; ++row) {
      batch->logit_rows.push_back(row);
    }
  }
}

}  // namespace firesteel
