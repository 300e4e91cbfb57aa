#include <gtest/gtest.h>

#include "speculation/drafters.h"
#include "speculation/test_target.h"

namespace firesteel {

Result<std::unique_ptr<Drafter>> MakeBigram(const DrafterContext& context);

namespace {

using Tokens = std::vector<int32_t>;

class BigramTest : public testing::Test {
 protected:
  BigramTest() {
    const DrafterContext context{
        .exec = exec_, .target = target_, .max_slots = 2, .options = {}, .config = {}};
    drafter_ = *MakeBigram(context);
  }
  void Observe(SequenceSlot slot, const Tokens& tokens, int64_t first, int32_t count) {
    const CommittedRows rows{
        .slot = slot, .first_position = first, .count = count, .tokens = tokens};
    EXPECT_TRUE(drafter_->Observe(exec_, {&rows, 1}, {}, kv_, workspace_).ok());
  }
  Tokens Propose(SequenceSlot slot, const Tokens& tokens, int32_t most) {
    const DraftQuery query{.slot = slot, .tokens = tokens, .max_tokens = most, .noise = {}};
    std::vector<Draft> drafts;
    EXPECT_TRUE(drafter_->Propose(exec_, {&query, 1}, kv_, workspace_, &drafts).ok());
    return drafts.at(0).tokens;
  }

  ThreadPool pool_{1};
  Exec exec_{pool_};
  BareTarget target_;
  NoCache kv_;
  Workspace workspace_;
  std::unique_ptr<Drafter> drafter_;
};

TEST_F(BigramTest, ProposesWhatFollowedLast) {
  const Tokens text{1, 2, 3, 1, 5, 3};
  Observe(0, text, 0, 5);
  EXPECT_EQ(Propose(0, text, 4), (Tokens{1, 5, 3, 1}));  // 3 1, then the newer 1 5
  EXPECT_EQ(Propose(0, text, 2), (Tokens{1, 5}));
  EXPECT_EQ(Propose(0, {9}, 4), Tokens{});
  EXPECT_EQ(Propose(1, text, 4), Tokens{}) << "another request's text";
}

TEST_F(BigramTest, ChunksAreOneText) {
  const Tokens text{1, 2, 3, 4};
  Observe(0, text, 0, 2);
  Observe(0, text, 2, 1);
  EXPECT_EQ(Propose(0, {1}, 3), (Tokens{2, 3, 4}));
}

TEST_F(BigramTest, ForgetsASlot) {
  Observe(0, {1, 2, 1}, 0, 2);
  drafter_->Forget(0);
  EXPECT_EQ(Propose(0, {1, 2, 1}, 2), Tokens{});
}

}  // namespace
}  // namespace firesteel
