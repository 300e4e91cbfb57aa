#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int32_t kVocab = 32;

// A scheduler over a cache, stepped without a model: whoever decides gets `token` and keeps none of
// its draft.
class Harness {
 public:
  Harness(SchedulerOptions options, int32_t num_blocks, bool prefix_caching = false)
      : model_([] {
          FakeModelOptions fake;
          fake.vocab_size = kVocab;
          return fake;
        }()),
        drafter_(model_, 0, options.max_num_seqs, {}),
        cache_({{HashGroup("target")}}, {.block_size = options.block_size,
                                         .num_blocks = num_blocks,
                                         .max_slots = options.max_num_seqs,
                                         .prefix_caching = prefix_caching}),
        scheduler_(options, cache_, drafter_) {}

  Sequence* Add(int32_t prompt_length, int32_t max_tokens = 100) {
    SamplingParams sampling;
    sampling.max_tokens = max_tokens;
    auto sequence = std::make_unique<Sequence>(
        Request{.prompt = MakePrompt(next_id_, prompt_length, kVocab), .sampling = sampling},
        EventSink(), nullptr, std::span<const int32_t>(), 1, VerifyRule::kMatch);
    sequence->id = next_id_++;
    Sequence* added = sequence.get();
    scheduler_.Add(std::move(sequence));
    return added;
  }

  StepPlan Plan() { return scheduler_.Plan(); }

  void Commit(const StepPlan& plan) {
    std::vector<int64_t> lengths;
    for (const PlannedSequence& planned : plan.sequences) {
      if (planned.decides) planned.sequence->tokens.push_back(1);
      lengths.push_back(planned.first_position + planned.num_rows);
    }
    scheduler_.Commit(plan, lengths);
    cache_.CheckInvariants();
  }

  StepPlan Step() {
    StepPlan plan = Plan();
    Commit(plan);
    return plan;
  }

  Scheduler& scheduler() { return scheduler_; }
  KvCache& cache() { return cache_; }

 private:
  FakeModel model_;
  FakeDrafter drafter_;
  KvCache cache_;
  Scheduler scheduler_;
  RequestId next_id_ = 1;
};

SchedulerOptions Options() {
  return {.max_num_seqs = 4,
          .max_num_batched_tokens = 32,
          .max_model_len = 1000,
          .block_size = 16,
          .long_prefill_token_threshold = 200,
          .max_long_partial_prefills = 1,
          .max_draft_tokens = 0};
}

int32_t RowsOf(const StepPlan& plan, const Sequence* sequence) {
  for (const PlannedSequence& planned : plan.sequences) {
    if (planned.sequence == sequence) return planned.num_rows;
  }
  return 0;
}

int32_t DraftOf(const StepPlan& plan, const Sequence* sequence) {
  for (const PlannedSequence& planned : plan.sequences) {
    if (planned.sequence == sequence) return planned.max_draft;
  }
  return -1;
}

TEST(Scheduler, ChunksAPromptAndDecidesOnItsLastToken) {
  Harness h(Options(), 64);
  Sequence* a = h.Add(70);
  EXPECT_EQ(RowsOf(h.Step(), a), 32);
  EXPECT_EQ(RowsOf(h.Step(), a), 32);
  EXPECT_EQ(a->NumOutput(), 0);
  EXPECT_EQ(RowsOf(h.Step(), a), 6);
  EXPECT_EQ(a->NumOutput(), 1);
  const StepPlan decode = h.Step();
  EXPECT_EQ(RowsOf(decode, a), 1);
  EXPECT_EQ(decode.sequences[0].first_position, 70);
}

TEST(Scheduler, RowsForDecodesComeBeforePrefill) {
  Harness h(Options(), 64);
  Sequence* a = h.Add(5);
  Sequence* b = h.Add(5);
  h.Step();
  Sequence* c = h.Add(100);
  const StepPlan plan = h.Step();
  EXPECT_EQ(RowsOf(plan, a), 1);
  EXPECT_EQ(RowsOf(plan, b), 1);
  EXPECT_EQ(RowsOf(plan, c), 30);
}

TEST(Scheduler, AdmitsInOrderOfArrivalWhileSlotsLast) {
  Harness h(Options(), 64);
  std::vector<Sequence*> all;
  for (int i = 0; i < 6; ++i) all.push_back(h.Add(4));
  const StepPlan plan = h.Step();
  ASSERT_EQ(plan.sequences.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(plan.sequences[i].sequence, all[i]);
  EXPECT_EQ(h.scheduler().NumWaiting(), 2);
  h.scheduler().Remove(all[2]->id);
  EXPECT_EQ(RowsOf(h.Step(), all[4]), 4);
}

TEST(Scheduler, RowsRunOutBeforeSlots) {
  Harness h(Options(), 64);
  Sequence* a = h.Add(20);
  Sequence* b = h.Add(20);
  Sequence* c = h.Add(20);
  StepPlan plan = h.Step();
  EXPECT_EQ(RowsOf(plan, a), 20);
  EXPECT_EQ(RowsOf(plan, b), 12);
  EXPECT_EQ(RowsOf(plan, c), 0);
  plan = h.Step();
  EXPECT_EQ(RowsOf(plan, b), 8);
  EXPECT_EQ(RowsOf(plan, c), 20);
}

TEST(Scheduler, AdmissionWaitsUntilTheWholePromptHasBlocks) {
  Harness h(Options(), 6);
  h.Add(60);  // four blocks, of which the first step takes two
  Sequence* b = h.Add(40);
  h.Step();
  const StepPlan plan = h.Step();
  EXPECT_EQ(RowsOf(plan, b), 0);
  EXPECT_EQ(h.scheduler().NumRunning(), 1);
  EXPECT_EQ(h.scheduler().NumPreemptions(), 0);
}

TEST(Scheduler, PreemptsTheYoungestAndKeepsItsTokens) {
  Harness h(Options(), 4);
  Sequence* a = h.Add(30);
  Sequence* b = h.Add(20);
  Sequence* waiting = h.Add(8);
  // a and b take two blocks each; a needs a third at its 33rd position.
  while (h.scheduler().NumPreemptions() == 0) h.Step();
  EXPECT_EQ(h.scheduler().NumRunning(), 1);
  EXPECT_EQ(b->slot, kNoSlot);
  EXPECT_GT(b->NumOutput(), 0);
  EXPECT_NE(a->slot, kNoSlot);
  // b comes back before those who arrived later, and computes all its tokens again.
  h.scheduler().Remove(a->id);
  const StepPlan plan = h.Step();
  EXPECT_EQ(RowsOf(plan, b), static_cast<int32_t>(b->tokens.size()) - 1);
  EXPECT_EQ(plan.sequences[0].sequence, b);
  EXPECT_NE(waiting->slot, kNoSlot);
}

TEST(Scheduler, TheOldestIsNeverPreemptedForAnother) {
  Harness h(Options(), 7);
  Sequence* oldest = h.Add(30);
  for (int i = 0; i < 3; ++i) h.Add(30);
  for (int step = 0; step < 60; ++step) {
    h.Step();
    ASSERT_NE(oldest->slot, kNoSlot) << step;
  }
  EXPECT_GT(h.scheduler().NumPreemptions(), 0);
}

TEST(Scheduler, DraftRowsTakeWhatIsLeftInTurns) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 7;
  options.max_num_batched_tokens = 16;
  Harness h(options, 64);
  Sequence* a = h.Add(4);
  Sequence* b = h.Add(4);
  Sequence* c = h.Add(4);
  h.Step();
  const StepPlan plan = h.Plan();
  // Sixteen rows, three anchors: thirteen for drafts.
  EXPECT_EQ(DraftOf(plan, a) + DraftOf(plan, b) + DraftOf(plan, c), 13);
  for (const Sequence* s : {a, b, c}) {
    EXPECT_GE(DraftOf(plan, s), 4);
    EXPECT_LE(DraftOf(plan, s), 5);
  }
}

TEST(Scheduler, DraftsRespectTheEndOfTheRequest) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 7;
  options.max_model_len = 12;
  Harness h(options, 64);
  Sequence* few = h.Add(4, 4);
  Sequence* near_the_limit = h.Add(8);
  h.Step();
  StepPlan plan = h.Plan();
  EXPECT_EQ(DraftOf(plan, few), 2);             // 4 tokens, 1 out, 1 by the bonus
  EXPECT_EQ(DraftOf(plan, near_the_limit), 2);  // anchor at 8, last token at 11
  h.Commit(plan);
  h.Step();
  plan = h.Plan();
  EXPECT_EQ(DraftOf(plan, few), 0);
  EXPECT_EQ(DraftOf(plan, near_the_limit), 0);
}

TEST(Scheduler, ATreeReservesItsDepthNotItsNodes) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 25;
  options.max_draft_depth = 3;
  Harness h(options, 100);
  h.Add(13);
  h.Add(14, 3);
  h.Step();
  const StepPlan plan = h.Plan();
  ASSERT_EQ(plan.sequences.size(), 2u);
  EXPECT_EQ(plan.sequences[0].max_draft + plan.sequences[1].max_draft, 30);  // what rows are left
  EXPECT_EQ(plan.sequences[0].max_depth, 3);
  EXPECT_EQ(h.cache().Capacity(plan.sequences[0].sequence->slot), 32);  // 13 + 1 + 3 positions
  EXPECT_EQ(plan.sequences[1].max_depth, 1);  // one token and its bonus end the text
  EXPECT_EQ(h.cache().Capacity(plan.sequences[1].sequence->slot), 16);
}

TEST(Scheduler, DraftsGiveWayToPrompts) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 7;
  Harness h(options, 64);
  Sequence* a = h.Add(4);
  h.Step();
  h.Add(100);
  EXPECT_EQ(DraftOf(h.Plan(), a), 0);
}

TEST(Scheduler, DraftsTakeNoBlockThatKeepsADecodeAlive) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 7;
  Harness h(options, 2);
  Sequence* a = h.Add(12);
  Sequence* b = h.Add(12);
  h.Step();
  const StepPlan plan = h.Plan();
  // Each has a block with room for three more positions behind the anchor, and there is no third
  // block.
  EXPECT_EQ(DraftOf(plan, a), 3);
  EXPECT_EQ(DraftOf(plan, b), 3);
  EXPECT_EQ(h.scheduler().NumPreemptions(), 0);
}

TEST(Scheduler, BlocksOfRefusedDraftsComeBack) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 7;
  Harness h(options, 3);
  h.Add(14);
  h.Step();
  EXPECT_EQ(h.cache().NumUsed(), 1);
  const StepPlan plan = h.Plan();
  EXPECT_EQ(h.cache().NumUsed(), 2);
  h.Commit(plan);
  EXPECT_EQ(h.cache().NumUsed(), 1);
}

TEST(Scheduler, PlainDecodingPreemptsAsOftenWithDrafts) {
  std::vector<int64_t> preemptions;
  for (int32_t drafts : {0, 7}) {
    SchedulerOptions options = Options();
    options.max_draft_tokens = drafts;
    Harness h(options, 7);
    for (int i = 0; i < 4; ++i) h.Add(30);
    for (int step = 0; step < 60; ++step)
      h.Step();  // every draft is refused: the same tokens in the same steps
    preemptions.push_back(h.scheduler().NumPreemptions());
  }
  EXPECT_GT(preemptions[0], 0);
  EXPECT_EQ(preemptions[0], preemptions[1]);
}

TEST(Scheduler, OneLongPromptAtATimeAndShortOnesPass) {
  Harness h(Options(), 256);
  Sequence* long_a = h.Add(300);
  Sequence* long_b = h.Add(300);
  Sequence* short_c = h.Add(20);
  StepPlan plan = h.Step();
  EXPECT_EQ(RowsOf(plan, short_c), 20);
  EXPECT_EQ(RowsOf(plan, long_a), 12);  // what the short one left
  EXPECT_EQ(RowsOf(plan, long_b), 0);
  EXPECT_EQ(long_b->slot, kNoSlot);
  // While only decodes run beside it, the long prompt has the rest of the step.
  plan = h.Step();
  EXPECT_EQ(RowsOf(plan, long_a), 31);
  while (long_a->NumOutput() == 0) h.Step();
  EXPECT_GT(RowsOf(h.Step(), long_b), 0);
}

TEST(Scheduler, TheLongPromptKeepsAShareBesideManyShortOnes) {
  Harness h(Options(), 256);
  Sequence* long_a = h.Add(300);
  EXPECT_EQ(RowsOf(h.Step(), long_a), 32);
  for (int i = 0; i < 3; ++i) h.Add(100);
  EXPECT_EQ(RowsOf(h.Step(), long_a), 8);
}

TEST(Scheduler, ACachedPromptIsNotLong) {
  Harness h(Options(), 256, true);
  Sequence* a = h.Add(300);
  while (a->NumOutput() == 0) h.Step();
  std::vector<int32_t> prompt(a->tokens.begin(), a->tokens.begin() + 300);
  Sequence* running_long = h.Add(290);
  h.Step();
  Sequence* again = h.Add(300);
  again->tokens = prompt;
  const StepPlan plan = h.Step();
  EXPECT_TRUE(running_long->in_long_lane);
  EXPECT_FALSE(again->in_long_lane);
  EXPECT_EQ(RowsOf(plan, again), 12);
  EXPECT_EQ(again->usage.cached_tokens, 288);
}

}  // namespace
}  // namespace firesteel
