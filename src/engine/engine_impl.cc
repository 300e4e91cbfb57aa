#include "engine/engine_impl.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/step_stats.h"
#include "engine/text_end.h"
#include "engine/tree_step.h"
#include "engine/warmup.h"

namespace firesteel {
namespace {

SchedulerOptions MakeSchedulerOptions(const EngineOptions& options, const DrafterInfo& drafter) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_model_len = options.max_model_len,
          .block_size = options.block_size,
          .long_prefill_token_threshold = options.long_prefill_token_threshold,
          .max_long_partial_prefills = options.max_long_partial_prefills,
          .max_draft_tokens = options.speculation.tokens,
          .max_draft_depth = drafter.max_depth};
}

class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), start_(clock.NowNs()) {}
  double Seconds() const { return SecondsFromNs(clock_.NowNs() - start_); }

 private:
  const Clock& clock_;
  int64_t start_;
};

}  // namespace

EngineImpl::EngineImpl(EngineParts parts)
    : parts_(std::move(parts)),
      clock_(parts_.clock != nullptr ? *parts_.clock : Clock::Real()),
      draft_limits_{.vocab_size = parts_.model->info().vocab_size,
                    .confidence_threshold = parts_.options.speculation.confidence_threshold,
                    .eos = parts_.model->info().eos_ids},
      budget_(parts_.automatic_spec_tokens, parts_.options.speculation.tokens),
      inbox_(parts_.options.max_queue),
      scheduler_(MakeSchedulerOptions(parts_.options, parts_.drafter->info()), *parts_.cache,
                 *parts_.drafter),
      wrong_accepts_left_(parts_.options.plant_wrong_accepts) {
  Publish();
}

EngineImpl::~EngineImpl() {
  inbox_.Stop();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    CancelEveryone();
  }
}

Status EngineImpl::WarmUp(const std::function<void(double)>& progress) {
  StepCost cost;
  FS_TRY(firesteel::WarmUp({.exec = *parts_.exec,
                            .model = *parts_.model,
                            .drafter = *parts_.drafter,
                            .cache = *parts_.cache,
                            .model_workspace = model_workspace_,
                            .draft_workspace = draft_workspace_,
                            .clock = clock_},
                           parts_.options, progress,
                           parts_.automatic_spec_tokens ? &cost : nullptr));
  budget_.SetCost(std::move(cost));
  return {};
}

void EngineImpl::Start() {
  FS_CHECK(!thread_.joinable(), "the engine was started before");
  thread_ = std::thread([this] { Run(); });
}

void EngineImpl::Run() {
  while (inbox_.WaitForWork(!scheduler_.Idle())) StepOnce();
  CancelEveryone();
}

bool EngineImpl::StepOnce() {
  const Stopwatch schedule_watch(clock_);
  TakeInbox();
  StepPlan plan = scheduler_.Plan();
  if (plan.empty()) {
    Publish();
    return false;
  }
  Record(schedule_watch.Seconds(), &stats_.seconds_schedule);
  ++stats_.steps;
  CountPrompts(plan);
  if (MakeDrafts(&plan) && Forward(plan)) {
    const Stopwatch sample_watch(clock_);
    VerifyRows(plan);
    Append(plan);
    SettleTrees(plan);
    const double seconds = sample_watch.Seconds();
    Record(seconds, &stats_.seconds_sample);
    verify_seconds_ += seconds;
    Learn(plan);
    if (Observe(plan)) Finish(plan);
  }
  return true;
}

void EngineImpl::TakeInbox() {
  inbox_.TakeInto(&content_);
  for (auto& sequence : content_.arrivals) scheduler_.Add(std::move(sequence));
  for (RequestId id : content_.cancels) End(id, FinishReason::kCancelled, {});
  if (content_.cancel_all) {
    for (RequestId id : scheduler_.Ids()) End(id, FinishReason::kCancelled, {});
  }
  for (const auto& task : content_.tasks) task();
}

void EngineImpl::CountPrompts(const StepPlan& plan) {
  for (const PlannedSequence& planned : plan.sequences) {
    Sequence& s = *planned.sequence;
    if (s.counted) continue;
    s.counted = true;
    stats_.prompt_tokens += s.usage.prompt_tokens;
    stats_.cached_tokens += s.usage.cached_tokens;
  }
}

void EngineImpl::ChooseWhoDrafts(StepPlan* plan) {
  const auto anyone = [&] {
    return std::ranges::any_of(plan->sequences, [](const auto& p) { return p.max_draft > 0; });
  };
  draftless_ = parts_.draft_rules.Apply(plan);
  const bool may_draft = anyone();
  if (may_draft && parts_.automatic_spec_tokens && !guard_.Allows()) {
    for (PlannedSequence& planned : plan->sequences) planned.max_draft = 0;
    draftless_ = DraftlessReason::kSlower;
  }
  budget_.BeforeDrafts(plan);
  if (may_draft && !draftless_ && !anyone()) draftless_ = DraftlessReason::kNotWorth;
}

bool EngineImpl::MakeDrafts(StepPlan* plan) {
  DraftCounts counts;
  ChooseWhoDrafts(plan);
  draft_seconds_ = 0;
  const Stopwatch watch(clock_);
  const Status status = ProposeDrafts(*parts_.exec, *plan, *parts_.cache, draft_workspace_,
                                      *parts_.drafter, draft_limits_, &drafts_, &counts);
  const auto drafts = [](const PlannedSequence& planned) { return planned.max_draft > 0; };
  if (const auto count = std::ranges::count_if(plan->sequences, drafts); count > 0) {
    draft_seconds_ = watch.Seconds();
    Record(draft_seconds_, &stats_.seconds_draft);
    budget_.ObserveDraft(count, draft_seconds_);
  }
  if (status.ok()) {
    budget_.Trim(*plan, &drafts_, &counts);
    ForkBranches(*plan, *parts_.cache, &drafts_, &branches_, &counts);
  }
  CountDrafts(counts, &stats_);
  if (status.ok()) return true;
  // Only those who asked for a draft are hurt.
  StepPlan failed;
  StepPlan rest;
  for (const PlannedSequence& planned : plan->sequences) {
    (drafts(planned) ? failed : rest).sequences.push_back(planned);
  }
  FailAll(failed, status);
  *plan = std::move(rest);
  drafts_.assign(plan->sequences.size(), Draft());
  if (plan->empty()) Publish();
  return !plan->empty();
}

bool EngineImpl::Forward(const StepPlan& plan) {
  const Stopwatch watch(clock_);
  BuildForwardBatch(plan, drafts_, branches_, &batch_);
  model_workspace_.Reset();
  const Status status =
      parts_.model->Forward(*parts_.exec, batch_.View(parts_.drafter->info().feature_layers),
                            *parts_.cache, model_workspace_, out_);
  verify_seconds_ = watch.Seconds();
  Record(verify_seconds_, &stats_.seconds_forward);
  if (!status.ok()) FailAll(plan, status);
  return status.ok();
}

void EngineImpl::VerifyRows(const StepPlan& plan) {
  VerifySequences(*parts_.exec, plan, drafts_, batch_, out_.logits, &verify_scratch_, &verdicts_);
  wrong_accepts_left_ -= PlantWrongAccepts(wrong_accepts_left_, drafts_, &verdicts_);
  TakeLogprobs(*parts_.exec, plan, batch_, out_.logits, &verdicts_);
}

void EngineImpl::Append(const StepPlan& plan) {
  const EndRules rules{.eos = parts_.model->info().eos_ids,
                       .max_model_len = parts_.options.max_model_len};
  const auto verify_rows = static_cast<double>(batch_.logit_rows.size());
  if (verify_rows > 0) Record(verify_rows, &stats_.spec_verify_rows);
  new_lengths_.clear();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    Sequence& s = *planned.sequence;
    SequenceVerdict& verdict = verdicts_[i];
    int64_t length = planned.first_position + planned.num_rows;
    if (planned.decides) {
      const int32_t added = AppendTokens(rules, verdict.tokens, &s);
      if (!verdict.logprobs.empty()) {
        verdict.logprobs.resize(static_cast<size_t>(added));
        std::ranges::move(verdict.logprobs, std::back_inserter(s.event.logprobs));
      }
      const DraftRound round = RoundOf(drafts_[i], verdict);
      Record(1 + round.verified, &stats_.spec_budget_rows);
      CountRound(round, added, &stats_);
      CountRound(round, &s.usage.speculation);
      // A cut may leave a valid row of the last token too, where an accepted draft was the end.
      // Plain decoding never computes it, and speculation must not change what the prefix cache
      // holds.
      length = s.Length() - 1;
    }
    new_lengths_.push_back(length);
  }
}

void EngineImpl::SettleTrees(const StepPlan& plan) {
  if (batch_.shared.empty()) return;
  JoinBranches(plan, drafts_, verdicts_, branches_, parts_.plant_wrong_branch, *parts_.cache);
  GatherFeatures(plan, drafts_, verdicts_, batch_, out_.features);
}

void EngineImpl::Learn(const StepPlan& plan) {
  budget_.Learn(plan, drafts_, verdicts_);
  const bool decodes_only = std::ranges::all_of(
      plan.sequences, [](const PlannedSequence& p) { return p.decides && p.num_rows == 1; });
  TakeCalibration(budget_.acceptance(), &stats_);
  if (draftless_) {
    stats_.spec_disabled_seconds[static_cast<size_t>(*draftless_)] += verify_seconds_;
  }
  if (!decodes_only) return;
  if (draft_seconds_ > 0) {
    double accepted = 0;
    for (const SequenceVerdict& verdict : verdicts_) accepted += verdict.accepted;
    const auto decoding = static_cast<double>(plan.sequences.size());
    guard_.Observe(decoding + accepted, draft_seconds_ + verify_seconds_, decoding,
                   budget_.PlainSeconds());
  }
  budget_.ObserveVerify(static_cast<int64_t>(batch_.tokens.size()), verify_seconds_);
}

bool EngineImpl::Observe(const StepPlan& plan) {
  const Stopwatch watch(clock_);
  std::vector<CommittedRows> rows;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    rows.push_back({.slot = planned.sequence->slot,
                    .first_position = planned.first_position,
                    .count = static_cast<int32_t>(new_lengths_[i] - planned.first_position),
                    .feature_row = batch_.first_row[i],
                    .tokens = planned.sequence->tokens,
                    .tenant = &planned.sequence->tenant,
                    .prompt_length = planned.sequence->prompt_length});
  }
  draft_workspace_.Reset();
  const Status status =
      parts_.drafter->Observe(*parts_.exec, rows, out_.features, *parts_.cache, draft_workspace_);
  Record(watch.Seconds(), &stats_.seconds_observe);
  if (!status.ok()) FailAll(plan, status);
  return status.ok();
}

void EngineImpl::Finish(const StepPlan& plan) {
  // After Observe: a block that is found again must hold the drafter's rows too.
  scheduler_.Commit(plan, new_lengths_);
  std::vector<std::unique_ptr<Sequence>> ended;
  for (const PlannedSequence& planned : plan.sequences) {
    const Sequence& s = *planned.sequence;
    if (!s.finish) continue;
    ++(*s.finish == FinishReason::kStop ? stats_.requests_finished_stop
                                        : stats_.requests_finished_length);
    ended.push_back(scheduler_.Remove(s.id));
  }
  Publish();
  for (const PlannedSequence& planned : plan.sequences) {
    if (planned.decides) Tell(*planned.sequence);
  }
  inbox_.NoteEnded(static_cast<int32_t>(ended.size()));
}

void EngineImpl::FailAll(const StepPlan& plan, const Status& error) {
  FS_LOG_ERROR("a step of {} requests failed: {}", plan.sequences.size(), error.message());
  for (const PlannedSequence& planned : plan.sequences) {
    End(planned.sequence->id, FinishReason::kError, error);
  }
}

void EngineImpl::End(RequestId id, FinishReason reason, const Status& error) {
  const std::unique_ptr<Sequence> sequence = scheduler_.Remove(id);
  if (sequence == nullptr) return;
  ++(reason == FinishReason::kError ? stats_.requests_failed : stats_.requests_cancelled);
  if (!sequence->finish) sequence->text.Finish(&sequence->event.text);
  sequence->finish = reason;
  sequence->event.stop_reason.clear();
  sequence->event.error = error;
  Publish();
  Tell(*sequence);
  inbox_.NoteEnded(1);
}

void EngineImpl::CancelEveryone() {
  inbox_.CancelAll();
  TakeInbox();
}

void EngineImpl::Tell(Sequence& sequence) {
  TokenEvent event = std::exchange(sequence.event, {});
  event.id = sequence.id;
  event.finish = sequence.finish;
  event.usage = sequence.usage;
  sequence.sink(std::move(event));
}

void EngineImpl::Publish() {
  stats_.preemptions = scheduler_.NumPreemptions();
  stats_.running = scheduler_.NumRunning();
  stats_.waiting = scheduler_.NumWaiting();
  stats_.kv_blocks_used = parts_.cache->NumUsed();
  stats_.kv_blocks_cached = parts_.cache->NumCached();
  stats_.kv_blocks_total = parts_.cache->NumBlocks();
#ifndef NDEBUG
  CheckInvariants();
#endif
  inbox_.SetWaiting(scheduler_.NumWaiting());
  std::lock_guard lock(stats_mutex_);
  published_ = stats_;
}

void EngineImpl::CheckInvariants() const {
  const Status counters = CheckCounters(stats_);
  FS_CHECK(counters.ok(), "{}", counters.message());
  parts_.cache->CheckInvariants();
}

}  // namespace firesteel
