#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace firesteel {

Scheduler::Scheduler(const SchedulerOptions& options, KvCache& cache, Drafter& drafter)
    : options_(options), cache_(cache), drafter_(drafter) {
  FS_CHECK(options.max_num_batched_tokens >= options.max_num_seqs, "{} rows for {} sequences",
           options.max_num_batched_tokens, options.max_num_seqs);
  for (SequenceSlot slot = options.max_num_seqs; slot-- > 0;) free_slots_.push_back(slot);
}

void Scheduler::Add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }

StepPlan Scheduler::Plan() {
  ++num_plans_;
  bool admit = true;
  while (!Idle()) {
    StepPlan plan;
    int32_t rows = options_.max_num_batched_tokens;
    const int64_t preemptions = num_preemptions_;
    PlanDecodes(&plan, &rows);
    // Whoever was preempted just now would be admitted into the blocks it gave up.
    admit = admit && num_preemptions_ == preemptions;
    PlanPrefills(&plan, &rows, admit);
    if (!plan.empty()) {
      PlanDrafts(&plan, rows);
      return plan;
    }
    // Prompts hold all blocks between them and none can go on. The last one left fits alone.
    if (running_.empty()) {
      FS_CHECK(!admit, "{} sequences wait, none runs, and the first cannot be admitted",
               waiting_.size());
      admit = true;
    } else {
      PreemptYoungest();
      admit = false;
    }
  }
  return {};
}

void Scheduler::PlanDecodes(StepPlan* plan, int32_t* rows) {
  // Oldest first and the victim always the youngest: no one planned already loses its slot.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i].get();
    if (Remaining(*sequence) != 1) continue;
    bool lost = false;
    while (!cache_.Reserve(sequence->slot, sequence->Length())) {
      lost = running_.back().get() == sequence;
      PreemptYoungest();
      if (lost) break;
    }
    if (lost) break;
    plan->sequences.push_back({.sequence = sequence,
                               .first_position = sequence->Length() - 1,
                               .num_rows = 1,
                               .decides = true});
    --*rows;
  }
}

void Scheduler::PlanPrefills(StepPlan* plan, int32_t* rows, bool admit) {
  std::vector<Sequence*> long_prompts;
  std::vector<Sequence*> short_prompts;
  for (const auto& sequence : running_) {
    if (Remaining(*sequence) == 1) continue;
    (sequence->in_long_lane ? long_prompts : short_prompts).push_back(sequence.get());
  }
  // Short prompts go first, for their first token is near. A quarter of the rows stays with the
  // lane, so that it drains.
  const bool short_waits = !short_prompts.empty() || (admit && AnyShortPrompt());
  const int32_t lane_share = !long_prompts.empty() && short_waits ? std::max(1, *rows / 4) : 0;
  int32_t short_rows = std::max(0, *rows - lane_share);
  const auto take_short = [&](Sequence& sequence) {
    const int32_t taken = TakeChunk(sequence, short_rows, plan);
    short_rows -= taken;
    *rows -= taken;
  };
  for (Sequence* sequence : short_prompts) take_short(*sequence);
  for (size_t i = 0; admit && i < waiting_.size() && !free_slots_.empty();) {
    Sequence* sequence = waiting_[i].get();
    const bool is_long = IsLong(*sequence);
    if (is_long && LongPrefills() >= options_.max_long_partial_prefills) {
      ++i;  // others may pass while the lane is taken
      continue;
    }
    if (short_rows == 0 || !TryAdmit(i)) break;
    sequence->in_long_lane = is_long;
    if (is_long) {
      long_prompts.push_back(sequence);
    } else {
      take_short(*sequence);
    }
  }
  // Rows that short prompts leave over still lengthen the step they wait for.
  const int64_t cap = short_waits ? std::max(1, options_.max_num_batched_tokens / 2) : *rows;
  for (Sequence* sequence : long_prompts) {
    *rows -= TakeChunk(*sequence, std::min<int64_t>(cap, *rows), plan);
  }
}

void Scheduler::PlanDrafts(StepPlan* plan, int32_t rows) {
  if (options_.max_draft_tokens == 0) return;
  std::vector<std::pair<PlannedSequence*, int32_t>> open;  // with how many more it may have
  for (PlannedSequence& planned : plan->sequences) {
    const Sequence& s = *planned.sequence;
    const int64_t n = planned.first_position;
    // Nothing to draft from without a cached position; nothing to gain on the last token.
    if (planned.num_rows != 1 || !planned.decides || n == 0) continue;
    int64_t limit = options_.max_draft_tokens;
    if (s.sampling.spec_tokens >= 0) limit = std::min<int64_t>(limit, s.sampling.spec_tokens);
    const int64_t depth = std::min<int64_t>(s.sampling.max_tokens - s.NumOutput() - 1,
                                            options_.max_model_len - n - 2);
    if (options_.max_draft_depth == 0 || depth <= 0) {
      limit = std::min(limit, depth);
    } else {
      planned.max_depth = static_cast<int32_t>(std::min<int64_t>(depth, options_.max_draft_depth));
    }
    if (limit > 0) open.emplace_back(&planned, static_cast<int32_t>(limit));
  }
  if (open.empty()) return;
  // One row each in turn; who begins changes from step to step.
  std::ranges::rotate(open, open.begin() + static_cast<int64_t>(num_plans_ % open.size()));
  while (rows > 0 && !open.empty()) {
    for (auto& [planned, more] : open) {
      if (rows == 0) return;
      const int32_t depth = planned->max_depth > 0
                                ? std::min(planned->max_draft + 1, planned->max_depth)
                                : planned->max_draft + 1;
      const int64_t positions = planned->first_position + 1 + depth;
      if (!cache_.Reserve(planned->sequence->slot, positions)) {
        more = 0;
        continue;
      }
      ++planned->max_draft;
      --more;
      --rows;
    }
    std::erase_if(open, [](const auto& entry) { return entry.second == 0; });
  }
}

void Scheduler::Commit(const StepPlan& plan, std::span<const int64_t> new_lengths) {
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const Sequence& sequence = *plan.sequences[i].sequence;
    // Blocks that only drafts needed go back.
    cache_.Commit(sequence.slot, sequence.tokens, new_lengths[i], sequence.Length());
  }
}

std::unique_ptr<Sequence> Scheduler::Remove(RequestId id) {
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  std::unique_ptr<Sequence> found;
  if (auto it = std::ranges::find_if(running_, has_id); it != running_.end()) {
    found = std::move(*it);
    running_.erase(it);
    ReleaseSlot(*found);
  } else if (auto w = std::ranges::find_if(waiting_, has_id); w != waiting_.end()) {
    found = std::move(*w);
    waiting_.erase(w);
  }
  return found;
}

std::vector<RequestId> Scheduler::Ids() const {
  std::vector<RequestId> ids;
  for (const auto& sequence : running_) ids.push_back(sequence->id);
  for (const auto& sequence : waiting_) ids.push_back(sequence->id);
  return ids;
}

int64_t Scheduler::Remaining(const Sequence& sequence) const {
  return sequence.Length() - cache_.Length(sequence.slot);
}

bool Scheduler::IsLong(Sequence& sequence) {
  const int64_t threshold = options_.long_prefill_token_threshold;
  if (sequence.Length() <= threshold) return false;
  if (!sequence.is_long_prompt) {
    // Asked once, for a look at the cache costs a hash of the whole prompt.
    const SequenceSlot probe = free_slots_.back();
    sequence.is_long_prompt = sequence.Length() - cache_.Open(probe, sequence.tokens) > threshold;
    cache_.Close(probe);
  }
  return *sequence.is_long_prompt;
}

int32_t Scheduler::LongPrefills() const {
  return static_cast<int32_t>(std::ranges::count_if(running_, [this](const auto& sequence) {
    return sequence->in_long_lane && Remaining(*sequence) > 1;
  }));
}

int32_t Scheduler::BlocksStillNeeded() const {
  int32_t blocks = 0;
  for (const auto& sequence : running_) {
    blocks += std::max(0, cache_.BlocksFor(sequence->Length()) -
                              cache_.BlocksFor(cache_.Capacity(sequence->slot)));
  }
  return blocks;
}

bool Scheduler::AnyShortPrompt() {
  return !free_slots_.empty() &&
         std::ranges::any_of(waiting_, [this](const auto& s) { return !IsLong(*s); });
}

int32_t Scheduler::TakeChunk(Sequence& sequence, int64_t limit, StepPlan* plan) {
  const int64_t length = cache_.Length(sequence.slot);
  const int64_t room = cache_.Capacity(sequence.slot) - length +
                       int64_t{cache_.NumAvailable()} * options_.block_size;
  const int64_t rows = std::min({sequence.Length() - length, limit, room});
  if (rows <= 0 || !cache_.Reserve(sequence.slot, length + rows)) return 0;
  plan->sequences.push_back({.sequence = &sequence,
                             .first_position = length,
                             .num_rows = static_cast<int32_t>(rows),
                             .decides = length + rows == sequence.Length()});
  return static_cast<int32_t>(rows);
}

bool Scheduler::TryAdmit(size_t waiting_index) {
  Sequence& sequence = *waiting_[waiting_index];
  const SequenceSlot slot = free_slots_.back();
  const int32_t promised = BlocksStillNeeded();
  const int64_t cached = cache_.Open(slot, sequence.tokens);
  const int32_t needed = cache_.BlocksFor(sequence.Length()) - cache_.BlocksFor(cached);
  // The whole prompt must fit beside the prompts admitted before, or they would take turns in
  // preempting each other.
  if (needed > cache_.NumAvailable() - promised) {
    cache_.Close(slot);
    return false;
  }
  free_slots_.pop_back();
  sequence.slot = slot;
  if (!sequence.admitted_before) sequence.usage.cached_tokens = static_cast<int32_t>(cached);
  sequence.admitted_before = true;
  auto owned = std::move(waiting_[waiting_index]);
  waiting_.erase(waiting_.begin() + static_cast<int64_t>(waiting_index));
  const auto by_id = [](const auto& a, const auto& b) { return a->id < b->id; };
  running_.insert(std::ranges::upper_bound(running_, owned, by_id), std::move(owned));
  return true;
}

void Scheduler::PreemptYoungest() {
  std::unique_ptr<Sequence> victim = std::move(running_.back());
  running_.pop_back();
  ReleaseSlot(*victim);
  ++num_preemptions_;
  waiting_.push_front(std::move(victim));
}

void Scheduler::ReleaseSlot(Sequence& sequence) {
  drafter_.Forget(sequence.slot);
  cache_.Close(sequence.slot);
  free_slots_.push_back(sequence.slot);
  sequence.slot = kNoSlot;
  sequence.in_long_lane = false;
  sequence.is_long_prompt.reset();
}

}  // namespace firesteel
