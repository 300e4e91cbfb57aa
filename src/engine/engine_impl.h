// The engine behind firesteel/engine.h: one thread that runs the steps and owns all they touch.
//
// A step: take the inbox, plan, draft, forward, verify, learn, append, let the drafter observe,
// commit, tell. Other threads reach it through the inbox only, and read what it publishes (the
// statistics) under a lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "engine/batch_builder.h"
#include "engine/draft_budget.h"
#include "engine/draft_guard.h"
#include "engine/draft_rules.h"
#include "engine/draft_step.h"
#include "engine/inbox.h"
#include "engine/scheduler.h"
#include "engine/verify_step.h"
#include "firesteel/engine.h"
#include "kernels/exec.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "speculation/drafter.h"
#include "tensor/buffer.h"
#include "text/tokenizer.h"

namespace firesteel {

// Everything an engine is made of. The options and the summary are taken as they are.
struct EngineParts {
  EngineOptions options;  // long_prefill_token_threshold and speculation.tokens may still be 0
  ModelSummary summary;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Exec> exec;  // over `pool`; model and drafter may keep a reference
  std::unique_ptr<Model> model;
  std::unique_ptr<Drafter> drafter;
  std::unique_ptr<Tokenizer> tokenizer;  // null: events carry no text
  DraftRules draft_rules;  // set by MakeEngine
  std::unique_ptr<KvCache> cache;   // with the groups of model and drafter, and max_num_seqs slots
  const Clock* clock = nullptr;     // null: the real one
  bool plant_wrong_branch = false;  // a fault for tests: of a tree, keep another branch's rows
  bool automatic_spec_tokens = false;  // set by MakeEngine: speculation.tokens was 0
};

class EngineImpl : public Engine {
 public:
  explicit EngineImpl(EngineParts parts);
  ~EngineImpl() override;

  Result<RequestId> Submit(Request request, EventSink sink) override;
  void Cancel(RequestId id) override;
  void Drain(int64_t timeout_ms) override;
  bool ResetPrefixCache() override;
  EngineStats Stats() const override;
  const ModelSummary& Summary() const override { return parts_.summary; }
  const Tokenizer& tokenizer() const override;
  const EngineOptions& options() const override { return parts_.options; }

  // Runs every shape of step once, so that scratch is at its largest. REQUIRES: not started,
  // nothing submitted.
  Status WarmUp(const std::function<void(double)>& progress);

  // Runs the steps on a thread of its own. Without it (tests), StepOnce runs one on the caller's.
  void Start();

  // One step; false when there was nothing to run. REQUIRES: not started.
  bool StepOnce();

  // Ends the process unless the cache and the counters add up. REQUIRES: not started, or idle.
  void CheckInvariants() const;
  const KvCache& cache() const { return *parts_.cache; }

 private:
  Status CheckRequest(const Request& request) const;
  void Run();

  // The parts of a step, in order. Each ends the requests it fails.
  void TakeInbox();
  void CountPrompts(const StepPlan& plan);  // of sequences that run for the first time
  bool MakeDrafts(StepPlan* plan);
  void ChooseWhoDrafts(StepPlan* plan);
  bool Forward(const StepPlan& plan);
  void VerifyRows(const StepPlan& plan);
  void Append(const StepPlan& plan);
  void SettleTrees(const StepPlan& plan);
  void Learn(const StepPlan& plan);
  bool Observe(const StepPlan& plan);
  void Finish(const StepPlan& plan);

  void FailAll(const StepPlan& plan, const Status& error);
  void End(RequestId id, FinishReason reason, const Status& error);
  void CancelEveryone();
  void Tell(Sequence& sequence);
  void Publish();

  EngineParts parts_;
  const Clock& clock_;
  DraftLimits draft_limits_;
  DraftBudget budget_;
  DraftGuard guard_;
  Inbox inbox_;
  Scheduler scheduler_;

  // Of the step that runs; the vectors keep their memory.
  Inbox::Content content_;
  std::vector<Draft> drafts_;
  StepBranches branches_;
  StepBatch batch_;
  ForwardOutput out_;
  VerifyScratch verify_scratch_;
  std::vector<SequenceVerdict> verdicts_;
  std::vector<int64_t> new_lengths_;
  std::optional<DraftlessReason> draftless_;
  double draft_seconds_ = 0;
  double verify_seconds_ = 0;  // forward pass and choice of tokens
  Workspace model_workspace_;  // logits and features live here until the next forward
  Workspace draft_workspace_;
  int32_t wrong_accepts_left_;

  EngineStats stats_;  // the engine thread's own
  mutable std::mutex stats_mutex_;
  EngineStats published_;
  std::thread thread_;
};

// Checks and completes `parts`: kInvalidArgument names the option that cannot be.
Result<std::unique_ptr<EngineImpl>> MakeEngine(EngineParts parts);

}  // namespace firesteel
