// Who runs in a step, and with how many rows. Two verbs: Plan decides and reserves blocks, Commit
// applies the outcome.
//
// A step has a budget of rows. Claims on it, in this order: one row for every sequence that
// decodes; prefill chunks of the admitted, then of those whose turn to be admitted has come; draft
// rows. Rows and blocks for drafts are taken last and given back by Commit, so a draft never costs
// anybody a place that plain decoding would have left them. When not even the decoding sequences
// find blocks, the youngest running one is preempted: its slot is closed, its tokens stay, and it
// waits at the head of the queue to be computed again.
//
// Nobody starves: the queue is served in order of arrival (but for long prompts that wait for their
// lane, which drains), the oldest running sequence is never preempted for another, and whoever is
// accepted fits into the pool alone.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "kv/kv_cache.h"
#include "speculation/drafter.h"

namespace firesteel {

struct SchedulerOptions {
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;  // REQUIRES: >= max_num_seqs
  int32_t max_model_len = 0;
  int32_t block_size = 16;                   // the cache's
  int32_t long_prefill_token_threshold = 0;  // prompts with more uncached tokens are long
  int32_t max_long_partial_prefills = 1;     // REQUIRES: >= 1
  int32_t max_draft_tokens = 0;
  int32_t max_draft_depth = 0;  // of trees; 0: drafts are chains
};

// Tokens [first_position, first_position + num_rows) of a sequence go through the model in this
// step, and behind them at most `max_draft` drafted ones, for which slots are reserved too: those
// of one path, where they may be a tree.
struct PlannedSequence {
  Sequence* sequence = nullptr;
  int64_t first_position = 0;
  int32_t num_rows = 0;
  bool decides = false;  // the rows reach the last token, so a new token comes out
  int32_t max_draft = 0;
  int32_t max_depth = 0;  // levels of a tree; 0: the draft is a chain
};

struct StepPlan {
  std::vector<PlannedSequence> sequences;
  bool empty() const { return sequences.empty(); }
};

class Scheduler {
 public:
  // Forgets at `drafter` every slot that it takes from a sequence.
  Scheduler(const SchedulerOptions& options, KvCache& cache, Drafter& drafter);

  void Add(std::unique_ptr<Sequence> sequence);  // in order of id

  // Not empty while anybody runs or waits. Valid until the next call of any other member.
  StepPlan Plan();

  // `new_lengths[i]`: positions of plan.sequences[i] that hold committed rows now, at most its
  // tokens.
  void Commit(const StepPlan& plan, std::span<const int64_t> new_lengths);

  // Takes a sequence out, wherever it is. Null when there is none with this id.
  std::unique_ptr<Sequence> Remove(RequestId id);
  std::vector<RequestId> Ids() const;

  int32_t NumRunning() const { return static_cast<int32_t>(running_.size()); }
  int32_t NumWaiting() const { return static_cast<int32_t>(waiting_.size()); }
  bool Idle() const { return running_.empty() && waiting_.empty(); }
  int64_t NumPreemptions() const { return num_preemptions_; }

 private:
  int64_t Remaining(const Sequence& sequence) const;
  bool IsLong(Sequence& sequence);
  int32_t LongPrefills() const;
  int32_t BlocksStillNeeded() const;

  // The phases of a plan; `rows` is what is left of the budget.
  void PlanDecodes(StepPlan* plan, int32_t* rows);
  void PlanPrefills(StepPlan* plan, int32_t* rows, bool admit);
  void PlanDrafts(StepPlan* plan, int32_t rows);

  // Takes at most `limit` tokens of `sequence`, fewer when blocks are short; returns how many.
  int32_t TakeChunk(Sequence& sequence, int64_t limit, StepPlan* plan);
  bool AnyShortPrompt();
  bool TryAdmit(size_t waiting_index);
  void PreemptYoungest();
  void ReleaseSlot(Sequence& sequence);

  SchedulerOptions options_;
  KvCache& cache_;
  Drafter& drafter_;
  std::vector<std::unique_ptr<Sequence>> running_;  // by id
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<SequenceSlot> free_slots_;
  int64_t num_preemptions_ = 0;
  uint64_t num_plans_ = 0;  // turns the order in which draft rows are dealt
};

}  // namespace firesteel
