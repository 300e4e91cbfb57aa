#include "engine/batch_builder.h"

#include "base/check.h"

namespace firesteel {

void BuildForwardBatch(const StepPlan& plan, std::span<const Draft> drafts, StepBatch* batch) {
  FS_CHECK(drafts.size() == plan.sequences.size(), "{} drafts for {} sequences", drafts.size(),
           plan.sequences.size());
  batch->tokens.clear();
  batch->positions.clear();
  batch->sequences.clear();
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
    for (int32_t token : drafts[i].tokens) add_row(token);
    const auto row_end = static_cast<int32_t>(batch->tokens.size());
    batch->sequences.push_back(
        {planned.sequence->slot, row_begin, row_end - row_begin, planned.first_position});
    batch->first_logit.push_back(planned.decides ? static_cast<int32_t>(batch->logit_rows.size())
                                                 : -1);
    if (!planned.decides) continue;
    for (int32_t row = row_begin + planned.num_rows - 1; row < row_end; ++row) {
      batch->logit_rows.push_back(row);
    }
  }
}

}  // namespace firesteel
