#include "engine/warmup.h"

#include <algorithm>
#include <vector>

#include "engine/batch_builder.h"

namespace firesteel {
namespace {

// A step of `rows` rows spread over as many sequences as may run.
class WarmupStep {
 public:
  WarmupStep(const WarmupParts& parts, const EngineOptions& options, int32_t rows)
      : parts_(parts), options_(options) {
    const int32_t count = std::min(rows, options.max_num_seqs);
    for (SequenceSlot slot = 0; slot < count && rows > 0; ++slot) {
      const int32_t share =
          std::min((rows + count - slot - 1) / (count - slot), options.max_model_len - 1);
      parts.cache.Open(slot, {});
      opened_ = slot + 1;
      // A pool that cannot hold the step now cannot be asked for it later either.
      if (!parts.cache.Reserve(slot, share)) break;
      AddSequence(slot, share);
      rows -= share;
    }
  }
  ~WarmupStep() {
    for (SequenceSlot slot = 0; slot < opened_; ++slot) {
      parts_.drafter.Forget(slot);
      parts_.cache.Close(slot);
    }
  }

  Status Run() {
    parts_.model_workspace.Reset();
    ForwardOutput out;
    FS_TRY(parts_.model.Forward(parts_.exec, batch_.View(parts_.drafter.info().feature_layers),
                                parts_.cache, parts_.model_workspace, out));
    std::vector<CommittedRows> committed;
    std::vector<DraftQuery> queries;
    SamplingParams greedy;
    greedy.temperature = 0;
    for (const SequenceRows& rows : batch_.sequences) {
      const std::span<const int32_t> tokens(tokens_.data(),
                                            static_cast<size_t>(rows.row_count) + 1);
      committed.push_back({.slot = rows.slot,
                           .first_position = 0,
                           .count = rows.row_count,
                           .feature_row = rows.row_begin,
                           .tokens = tokens});
      const int32_t room = options_.max_model_len - rows.row_count - 2;
      const int32_t most = std::min(options_.speculation.tokens, room);
      if (most > 0) {
        queries.push_back({.slot = rows.slot,
                           .tokens = tokens,
                           .max_tokens = most,
                           .sampling = &greedy,
                           .noise = {},
                           .purpose = NoisePurpose::kTargetGumbel});
      }
    }
    parts_.draft_workspace.Reset();
    FS_TRY(parts_.drafter.Observe(parts_.exec, committed, out.features, parts_.cache,
                                  parts_.draft_workspace));
    if (queries.empty()) return {};
    std::vector<Draft> drafts;
    parts_.draft_workspace.Reset();
    return parts_.drafter.Propose(parts_.exec, queries, parts_.cache, parts_.draft_workspace,
                                  &drafts);
  }

 private:
  void AddSequence(SequenceSlot slot, int32_t count) {
    const auto begin = static_cast<int32_t>(batch_.tokens.size());
    const int32_t logits = std::min(count, options_.speculation.tokens + 1);
    for (int32_t i = 0; i < count; ++i) {
      batch_.tokens.push_back(0);
      batch_.positions.push_back(i);
      if (i >= count - logits) batch_.logit_rows.push_back(begin + i);
    }
    batch_.sequences.push_back({slot, begin, count, 0});
    tokens_.resize(std::max(tokens_.size(), static_cast<size_t>(count) + 1), 0);
  }

  const WarmupParts& parts_;
  const EngineOptions& options_;
  StepBatch batch_;
  std::vector<int32_t> tokens_;  // all the same, so that one vector serves every sequence
  SequenceSlot opened_ = 0;
};

}  // namespace

Status WarmUp(const WarmupParts& parts, const EngineOptions& options,
              const std::function<void(double)>& progress) {
  // Largest first: later steps then run in scratch that will not move.
  std::vector<int32_t> sizes{options.max_num_batched_tokens};
  for (int32_t rows = 1; rows < options.max_num_batched_tokens; rows *= 2) sizes.push_back(rows);
  for (size_t i = 0; i < sizes.size(); ++i) {
    FS_TRY(WarmupStep(parts, options, sizes[i]).Run());
    progress(static_cast<double>(i + 1) / static_cast<double>(sizes.size()));
  }
  return {};
}

}  // namespace firesteel
