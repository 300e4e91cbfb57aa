// How many draft tokens a step verifies, and whether it drafts at all, where the user fixed no
// number: as many as bring the most tokens per second, by what a step costs (StepCost) and what
// drafts are worth (AcceptanceModel). docs/speculation.md tells why no choice shows in the text.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "engine/step_stats.h"
#include "engine/verify_step.h"
#include "speculation/acceptance_model.h"
#include "speculation/drafter.h"
#include "speculation/length_search.h"
#include "speculation/step_cost.h"

namespace firesteel {

class DraftBudget {
 public:
  // `max_tokens`: of a draft. Not automatic: every draft is made and verified whole, and only the
  // statistics are kept.
  DraftBudget(bool automatic, int32_t max_tokens);

  // Without: a table of draft lengths by the number of sequences that decode.
  void SetCost(StepCost cost) { cost_ = std::move(cost); }

  // Before the drafts are made: sets max_draft to 0 where drafting does not pay.
  void BeforeDrafts(StepPlan* plan);
  // Cuts drafts to what is worth its rows, and counts that as trimmed instead of verified.
  void Trim(const StepPlan& plan, std::vector<Draft>* drafts, DraftCounts* counts);

  void Learn(const StepPlan& plan, std::span<const Draft> drafts,
             std::span<const SequenceVerdict> verdicts);
  // Of a step without prompt rows: the forward pass and the choice of tokens.
  void ObserveVerify(int64_t rows, double seconds) { cost_.verify.Observe(rows, seconds); }
  // Predicted of this step without any draft; 0 where nothing was measured.
  double PlainSeconds() const { return cost_.verify.At(certain_.rows); }
  void ObserveDraft(int64_t sequences, double seconds) { cost_.draft.Observe(sequences, seconds); }

  const AcceptanceModel& acceptance() const { return acceptance_; }

 private:
  void ByTable(StepPlan* plan) const;
  int64_t RowsWith(int64_t draft_tokens) const;
  bool TimeToProbe();

  const bool automatic_;
  StepCost cost_;
  AcceptanceModel acceptance_;
  LengthSearch search_;

  // Of the step at hand.
  CertainWork certain_;
  int64_t drafting_ = 0;  // sequences
  int64_t capacity_ = 0;  // draft tokens, chosen before any of them was drawn
  bool probing_ = false;  // verify everything, to learn
  uint64_t steps_ = 0;
  double nodes_per_level_ = 1;  // of the trees of late; 1 for chains
  int64_t idle_steps_ = 0;      // since the last draft
  int64_t probe_interval_ = 0;  // idle steps after which a few sequences draft all the same

  // Scratch.
  SelectionFreeChances free_;
  PreTokenChances pre_token_;
  LengthChoice choice_;
  std::vector<float> chances_;
  std::vector<size_t> of_draft_;
  std::vector<std::vector<int32_t>> orders_;  // of a tree's nodes, by draft
};

}  // namespace firesteel
