// A drafter that is told how well to draft, for tests. It knows the fake target, so that it can be
// right on purpose; and it keeps a hash of its own per position in its cache group, so that it
// notices when it was not told of a row, told twice, told of a refused one, or finds another
// sequence's state behind a prefix hit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/fake_model.h"
#include "speculation/drafter.h"

namespace firesteel {

enum class FakeDraftKind {
  kRight,       // what the target will say (penalties and bias it does not know)
  kWrong,       // never that
  kMixed,       // right for a while that changes from position to position, then wrong
  kRandom,      // any token
  kOutOfVocab,  // right, then ids that do not exist
  kTooLong,     // right, twice as many as asked for
  kEmpty,
  kEosOnly,     // the target's first end token, or 0
  kStochastic,  // drawn from softmax of other logits, with their probabilities
  kTree,        // a random one, right on one path for as long as kMixed is
  kLyingTree,   // the same, spoiled in one of many ways
};

struct FakeDrafterOptions {
  FakeDraftKind kind = FakeDraftKind::kRight;
  int32_t max_tokens = 4;
  int32_t max_depth = 0;  // of trees; 0: half of max_tokens
  // kMixed, trees: tokens to get right when the anchor stands at `position`. Null: a hash of the
  // position.
  std::function<int32_t(int64_t position)> right_count;
  bool confidence = false;             // a hash of the token before, in (0, 1)
  std::function<Status()> on_propose;  // may fail
  std::function<Status()> on_observe;
};

class FakeDrafter : public Drafter {
 public:
  // `target` must outlive this object. `group`: index of its cache group.
  FakeDrafter(const FakeModel& target, int32_t group, int32_t max_slots,
              FakeDrafterOptions options);

  const DrafterInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType kv_dtype) const override;
  Status Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                 const KvView& kv, Workspace& workspace) override;
  Status Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                 Workspace& workspace, std::vector<Draft>* drafts) override;
  void Forget(SequenceSlot slot) override;

  // What it noticed, in words; "" when all was well.
  const std::string& complaint() const { return complaint_; }
  int64_t num_proposals() const { return num_proposals_; }

 private:
  Draft DraftFor(const DraftQuery& query) const;
  Draft TreeFor(const DraftQuery& query) const;
  void Complain(std::string what);

  const FakeModel& target_;
  int32_t group_;
  FakeDrafterOptions options_;
  DrafterInfo info_;
  std::vector<int64_t>
      observed_;  // by slot: positions it has been told of; -1: nothing since Forget
  std::string complaint_;
  int64_t num_proposals_ = 0;
};

}  // namespace firesteel
