#include "engine/warmup.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
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
      // Drafters with a cache write behind the anchor while they draft.
      const int32_t drafts =
          std::min(options.speculation.tokens, options.max_model_len - share - 1);
      if (!parts.cache.Reserve(slot, share + 1 + drafts) && !parts.cache.Reserve(slot, share))
        break;
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

  int64_t NumRows() const { return static_cast<int64_t>(batch_.tokens.size()); }
  int64_t NumSequences() const { return static_cast<int64_t>(batch_.sequences.size()); }
  // Of the last run; 0 when nothing was drafted.
  double forward_seconds() const { return forward_seconds_; }
  double draft_seconds() const { return draft_seconds_; }

  Status Run() {
    for (const SequenceRows& rows : batch_.sequences) parts_.drafter.Forget(rows.slot);
    parts_.model_workspace.Reset();
    ForwardOutput out;
    const int64_t start = parts_.clock.NowNs();
    FS_TRY(parts_.model.Forward(parts_.exec, batch_.View(parts_.drafter.info().feature_layers),
                                parts_.cache, parts_.model_workspace, out));
    forward_seconds_ = SecondsFromNs(parts_.clock.NowNs() - start);
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
      const auto room = static_cast<int32_t>(
          std::min<int64_t>(options_.max_model_len - 1, parts_.cache.Capacity(rows.slot)) -
          rows.row_count - 1);
      const int32_t most = std::min(options_.speculation.tokens, room);
      const int32_t levels = parts_.drafter.info().max_depth;  // 0: chains
      if (most > 0) {
        queries.push_back({.slot = rows.slot,
                           .tokens = tokens,
                           .max_tokens = levels > 0 ? options_.speculation.tokens : most,
                           .sampling = &greedy,
                           .noise = {},
                           .purpose = NoisePurpose::kTargetGumbel,
                           .max_depth = levels > 0 ? std::min(levels, most) : most});
      }
    }
    parts_.draft_workspace.Reset();
    FS_TRY(parts_.drafter.Observe(parts_.exec, committed, out.features, parts_.cache,
                                  parts_.draft_workspace));
    if (queries.empty()) return {};
    std::vector<Draft> drafts;
    parts_.draft_workspace.Reset();
    const int64_t draft_start = parts_.clock.NowNs();
    FS_TRY(parts_.drafter.Propose(parts_.exec, queries, parts_.cache, parts_.draft_workspace,
                                  &drafts));
    draft_seconds_ = SecondsFromNs(parts_.clock.NowNs() - draft_start);
    return {};
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
  double forward_seconds_ = 0, draft_seconds_ = 0;
};

// Runs of each size, of which the first is not counted and the median of the rest is.
constexpr int kRuns = 4;
constexpr double kMostSeconds = 10;

struct Measured {
  int64_t rows = 0, sequences = 0;
  double forward = 0, draft = 0;
};

Result<Measured> Measure(const WarmupParts& parts, const EngineOptions& options, int32_t rows,
                         int runs) {
  WarmupStep step(parts, options, rows);
  std::vector<double> forward, draft;
  for (int i = 0; i < runs; ++i) {
    FS_TRY(step.Run());
    if (i == 0 && runs > 1) continue;
    forward.push_back(step.forward_seconds());
    draft.push_back(step.draft_seconds());
  }
  const auto median = [](std::vector<double>& v) {
    std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
    return v[v.size() / 2];
  };
  return Measured{step.NumRows(), step.NumSequences(), median(forward), median(draft)};
}

// Small steps first, which are decided about most often; what time leaves over is a straight line.
Result<StepCost> MeasureCost(const WarmupParts& parts, const EngineOptions& options) {
  std::vector<int32_t> sizes{1, 2, 3};
  for (int32_t rows = 4; rows < options.max_num_batched_tokens; rows *= 2) {
    sizes.push_back(rows);
    sizes.push_back(rows + rows / 2);
  }
  sizes.push_back(options.max_num_batched_tokens);
  std::vector<CostPoint> verify, draft;
  const int64_t start = parts.clock.NowNs();
  for (const int32_t size : sizes) {
    if (size > options.max_num_batched_tokens) continue;
    const double elapsed = SecondsFromNs(parts.clock.NowNs() - start);
    if (elapsed > kMostSeconds && verify.size() >= 2) break;
    const int runs = elapsed > kMostSeconds / 2 ? 1 : kRuns;
    FS_ASSIGN(const Measured m, Measure(parts, options, size, runs));
    const auto add = [](int64_t count, double seconds, std::vector<CostPoint>* points) {
      const bool next = points->empty() ? count == 1 : count > points->back().count;
      if (seconds > 0 && next) {
        points->push_back({count, seconds});
      }
    };
    add(m.rows, m.forward, &verify);
    add(m.sequences, m.draft, &draft);
  }
  return StepCost{CostCurve(std::move(verify)), CostCurve(std::move(draft))};
}

}  // namespace

Status WarmUp(const WarmupParts& parts, const EngineOptions& options,
              const std::function<void(double)>& progress, StepCost* cost) {
  // Largest first: later steps then run in scratch that will not move.
  std::vector<int32_t> sizes{options.max_num_batched_tokens};
  for (int32_t rows = 1; rows < options.max_num_batched_tokens; rows *= 2) sizes.push_back(rows);
  for (size_t i = 0; i < sizes.size(); ++i) {
    FS_TRY(WarmupStep(parts, options, sizes[i]).Run());
    progress(static_cast<double>(i + 1) / static_cast<double>(sizes.size() + (cost != nullptr)));
  }
  if (cost != nullptr) {
    FS_ASSIGN(*cost, MeasureCost(parts, options));
    progress(1);
  }
  return {};
}

}  // namespace firesteel
