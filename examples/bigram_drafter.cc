// A whole drafter: behind each token it proposes what followed that token last in the same request.
// docs/adding-a-drafter.md walks through it.
#include <cstdio>
#include <memory>
#include <unordered_map>

#include "speculation/drafters.h"

namespace firesteel {
namespace {

class Bigram : public Drafter {
 public:
  explicit Bigram(int32_t max_slots) : followers_(static_cast<size_t>(max_slots)) {
    info_.name = "bigram";
    info_.max_tokens = 8;
  }
  const DrafterInfo& info() const override { return info_; }

  // Everything that is committed comes by here once, prompts in their chunks included; what is told
  // again after a preemption does no harm.
  Status Observe(Exec&, std::span<const CommittedRows> rows, ConstMatrix, const KvView&,
                 Workspace&) override {
    for (const CommittedRows& r : rows) {
      const auto first = static_cast<size_t>(r.first_position);
      for (size_t p = first; p < first + static_cast<size_t>(r.count); ++p) {
        if (p + 1 < r.tokens.size()) Of(r.slot)[r.tokens[p]] = r.tokens[p + 1];
      }
    }
    return {};
  }

  // One-hot drafts: no probabilities, and so lossless whatever they are.
  Status Propose(Exec&, std::span<const DraftQuery> queries, const KvView&, Workspace&,
                 std::vector<Draft>* drafts) override {
    drafts->assign(queries.size(), {});
    for (size_t q = 0; q < queries.size(); ++q) {
      const auto& followers = Of(queries[q].slot);
      auto next = followers.find(queries[q].tokens.back());
      std::vector<int32_t>& tokens = (*drafts)[q].tokens;
      while (next != followers.end() && std::ssize(tokens) < queries[q].max_tokens) {
        tokens.push_back(next->second);
        next = followers.find(next->second);
      }
    }
    return {};
  }
  void Forget(SequenceSlot slot) override { Of(slot).clear(); }

 private:
  std::unordered_map<int32_t, int32_t>& Of(SequenceSlot slot) {
    return followers_[static_cast<size_t>(slot)];
  }
  DrafterInfo info_;
  std::vector<std::unordered_map<int32_t, int32_t>> followers_;  // by slot
};

}  // namespace

// The row in drafters.cc: {"bigram", "what followed the last token before", &MakeBigram}.
Result<std::unique_ptr<Drafter>> MakeBigram(const DrafterContext& context) {
  return std::unique_ptr<Drafter>(std::make_unique<Bigram>(context.max_slots));
}

}  // namespace firesteel
