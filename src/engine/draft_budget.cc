#include "engine/draft_budget.h"

#include <algorithm>
#include <cmath>

#include "engine/draft_step.h"
#include "speculation/confidence.h"
#include "speculation/draft_tree.h"

namespace firesteel {
namespace {

// While drafting does not pay a few sequences draft now and then, ever more rarely, to see whether
// it pays again.
constexpr int64_t kFirstProbe = 32;
constexpr int64_t kRarestProbe = 512;
constexpr int64_t kProbeSequences = 2;
// One step in so many verifies one draft whole, or positions that are always cut would never be
// judged again.
constexpr uint64_t kExploreEvery = 32;

constexpr double kFreeShare = 0.01;  // of a step

// Without measurements trees are cut to as many nodes as a chain has tokens when more sequences
// decode than this: rows cost time then.
constexpr int64_t kMaxTreesByTable = 4;
constexpr double kShapeFade = 0.9;

// Where no step was measured.
int32_t TableLength(size_t decoding) { return decoding <= 16 ? 5 : decoding <= 48 ? 4 : 3; }

bool Decodes(const PlannedSequence& planned) { return planned.decides; }

// How many positions a draft can reach.
int32_t Depth(const PlannedSequence& planned) {
  return planned.max_depth > 0 ? std::min(planned.max_depth, planned.max_draft) : planned.max_draft;
}

}  // namespace

DraftBudget::DraftBudget(bool automatic, int32_t max_tokens)
    : automatic_(automatic), acceptance_(max_tokens), probe_interval_(kFirstProbe) {}

void DraftBudget::ByTable(StepPlan* plan) const {
  const auto decoding = std::ranges::count_if(plan->sequences, Decodes);
  const int32_t most = TableLength(static_cast<size_t>(decoding));
  for (PlannedSequence& planned : plan->sequences) {
    if (planned.max_depth > 0 && decoding <= kMaxTreesByTable) continue;
    planned.max_draft = std::min(planned.max_draft, most);
  }
}

// Before trees are drawn their chances are known by level, and a level is several rows.
int64_t DraftBudget::RowsWith(int64_t draft_tokens) const {
  return certain_.rows + std::llround(static_cast<double>(draft_tokens) * nodes_per_level_);
}

bool DraftBudget::TimeToProbe() {
  if (++idle_steps_ < probe_interval_) return false;
  idle_steps_ = 0;
  probe_interval_ = std::min(2 * probe_interval_, kRarestProbe);
  return true;
}

void DraftBudget::BeforeDrafts(StepPlan* plan) {
  if (!automatic_) return;
  ++steps_;
  probing_ = false;
  certain_ = {};
  of_draft_.clear();
  free_.Clear();
  for (size_t i = 0; i < plan->sequences.size(); ++i) {
    const PlannedSequence& planned = plan->sequences[i];
    certain_.rows += planned.num_rows;
    certain_.tokens += Decodes(planned) ? 1 : 0;
    if (planned.max_draft == 0) continue;
    const Sequence& s = *planned.sequence;
    free_.AddKnownBefore(acceptance_.Expect(s.sampling, s.acceptance, Depth(planned), &chances_));
    of_draft_.push_back(i);
  }
  if (of_draft_.empty()) return;
  if (!cost_.known()) return ByTable(plan);

  const auto turn = static_cast<int64_t>(steps_);
  const double all_draft = cost_.draft.At(static_cast<int64_t>(of_draft_.size()));
  search_.Best(
      free_, certain_,
      [&](int64_t rows) { return cost_.verify.At(RowsWith(rows - certain_.rows)) + all_draft; },
      turn, &choice_);
  capacity_ = choice_.draft_tokens;
  drafting_ = std::ranges::count_if(choice_.lengths, [](int32_t length) { return length > 0; });
  const double plain = certain_.tokens / cost_.verify.At(certain_.rows);
  const double drafted =
      choice_.tokens / (cost_.verify.At(RowsWith(capacity_)) + cost_.draft.At(drafting_));
  // What costs nothing to make is made, and judged when it is there.
  const bool free = all_draft < kFreeShare * cost_.verify.At(certain_.rows);
  const bool pays = free || (drafting_ > 0 && drafted > plain);
  if (free) {
    drafting_ = static_cast<int64_t>(of_draft_.size());
    choice_.lengths.assign(of_draft_.size(), 1);
  }
  if (pays) {
    idle_steps_ = 0;
    probe_interval_ = kFirstProbe;
  } else {
    probing_ = TimeToProbe();
    drafting_ = 0;
    capacity_ = 0;
  }
  for (size_t d = 0; d < of_draft_.size(); ++d) {
    const auto place = static_cast<int64_t>((d + steps_) % of_draft_.size());
    const bool drafts = pays ? choice_.lengths[d] > 0 : probing_ && place < kProbeSequences;
    if (!drafts) plan->sequences[of_draft_[d]].max_draft = 0;
    if (drafts && !pays) ++drafting_;
  }
}

void DraftBudget::Trim(const StepPlan& plan, std::vector<Draft>* drafts, DraftCounts* counts) {
  if (!automatic_ || probing_ || !cost_.known()) return;
  of_draft_.clear();
  bool all_free = true;
  for (size_t i = 0; i < drafts->size(); ++i) {
    const Draft& draft = (*drafts)[i];
    if (draft.tokens.empty()) continue;
    of_draft_.push_back(i);
    all_free =
        all_free && (draft.probs.empty() || plan.sequences[i].sequence->rule == VerifyRule::kMatch);
  }
  if (of_draft_.empty()) return;
  free_.Clear();
  pre_token_.Clear();
  orders_.resize(std::max(orders_.size(), of_draft_.size()));
  for (size_t d = 0; d < of_draft_.size(); ++d) {
    const size_t i = of_draft_[d];
    const Draft& draft = (*drafts)[i];
    const Sequence& s = *plan.sequences[i].sequence;
    const auto length = static_cast<int32_t>(draft.tokens.size());
    const PreTokenConfidence chances =
        IsTree(draft) ? acceptance_.Rank(s.sampling, s.acceptance, draft, &chances_, &orders_[d])
        : draft.confidence.empty()
            ? acceptance_.Expect(s.sampling, s.acceptance, length, &chances_)
            : acceptance_.Calibrate(s.sampling, s.acceptance, PreTokenConfidence(draft), &chances_);
    if (all_free) {
      free_.AddUnsampled(chances, draft.probs.empty(), s.rule == VerifyRule::kMatch);
    } else {
      pre_token_.AddPreToken(chances);
    }
  }
  const auto turn = static_cast<int64_t>(steps_);
  if (all_free) {
    const double spent = cost_.draft.At(drafting_);
    search_.Best(
        free_, certain_, [&](int64_t rows) { return cost_.verify.At(rows) + spent; }, turn,
        &choice_);
  } else {
    // How many was decided before these drafts were drawn; which of them, by rank.
    search_.Top(pre_token_, certain_, capacity_, turn, &choice_);
  }
  if (steps_ % kExploreEvery == 0) {
    const size_t d = steps_ / kExploreEvery % of_draft_.size();
    choice_.lengths[d] = static_cast<int32_t>((*drafts)[of_draft_[d]].tokens.size());
  }
  for (size_t d = 0; d < of_draft_.size(); ++d) {
    Draft& draft = (*drafts)[of_draft_[d]];
    const int64_t cut = static_cast<int64_t>(draft.tokens.size()) - choice_.lengths[d];
    if (IsTree(draft)) {
      const auto best = std::span(orders_[d]).first(static_cast<size_t>(choice_.lengths[d]));
      std::ranges::sort(best);  // preorder again
      KeepNodes(best, &draft);
    } else {
      Shorten(choice_.lengths[d], &draft);
    }
    counts->trimmed += cut;
    counts->verified -= cut;
  }
}

void DraftBudget::Learn(const StepPlan& plan, std::span<const Draft> drafts,
                        std::span<const SequenceVerdict> verdicts) {
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (!Decodes(plan.sequences[i])) continue;
    Sequence& s = *plan.sequences[i].sequence;
    if (IsTree(drafts[i])) {
      acceptance_.LearnTree(s.sampling, drafts[i], verdicts[i].path, &s.acceptance);
      const double nodes = static_cast<double>(drafts[i].tokens.size());
      nodes_per_level_ =
          kShapeFade * nodes_per_level_ + (1 - kShapeFade) * nodes / DepthOf(drafts[i]);
      continue;
    }
    acceptance_.Learn(s.sampling, PreTokenConfidence(drafts[i]),
                      static_cast<int32_t>(drafts[i].tokens.size()), verdicts[i].accepted,
                      &s.acceptance);
  }
}

}  // namespace firesteel
