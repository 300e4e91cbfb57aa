#include "sampling/logit_processor.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace firesteel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Processed(const LogitProcessor& processor, std::vector<float> logits,
                             std::vector<int32_t> draft = {}) {
  processor.Process(draft, logits);
  return logits;
}

TEST(LogitProcessor, DefaultsChangeNothing) {
  LogitProcessor processor({}, std::vector<int32_t>{0, 1}, std::vector<int32_t>{2});
  EXPECT_TRUE(processor.IsIdentity());
  processor.Commit(1);
  EXPECT_TRUE(processor.IsIdentity());
  EXPECT_EQ(Processed(processor, {1, -2, 3}), (std::vector<float>{1, -2, 3}));
}

TEST(LogitProcessor, AddsBias) {
  SamplingParams params;
  params.logit_bias = {{1, -100.0f}, {2, 0.5f}};
  const LogitProcessor processor(params, {}, {});
  EXPECT_FALSE(processor.IsIdentity());
  EXPECT_EQ(Processed(processor, {1, 2, 3}), (std::vector<float>{1, -98, 3.5f}));
}

TEST(LogitProcessor, RepetitionCoversPromptAndOutput) {
  SamplingParams params;
  params.repetition_penalty = 2;
  LogitProcessor processor(params, std::vector<int32_t>{0, 0, 1}, {});
  EXPECT_EQ(Processed(processor, {4, -4, 4, -4}), (std::vector<float>{2, -8, 4, -4}));
  processor.Commit(2);
  processor.Commit(2);
  processor.Commit(0);
  EXPECT_EQ(Processed(processor, {4, -4, 4, -4}), (std::vector<float>{2, -8, 2, -4}));
}

TEST(LogitProcessor, PresenceAndFrequencyCoverOutputAlone) {
  SamplingParams params;
  params.presence_penalty = 1;
  params.frequency_penalty = 0.5;
  LogitProcessor processor(params, std::vector<int32_t>{0, 0, 1}, {});
  EXPECT_EQ(Processed(processor, {4, 4, 4}), (std::vector<float>{4, 4, 4}));
  processor.Commit(1);
  processor.Commit(1);
  EXPECT_EQ(Processed(processor, {4, 4, 4}), (std::vector<float>{4, 2, 4}));
}

TEST(LogitProcessor, MinTokensMasksEveryEnd) {
  SamplingParams params;
  params.min_tokens = 2;
  params.stop_token_ids = {1};
  LogitProcessor processor(params, {}, std::vector<int32_t>{3});
  EXPECT_FALSE(processor.IsIdentity());
  EXPECT_EQ(Processed(processor, {4, 4, 4, 4}), (std::vector<float>{4, -kInf, 4, -kInf}));
  // Rows of one step stand at different output indices.
  EXPECT_EQ(Processed(processor, {4, 4, 4, 4}, {0}), (std::vector<float>{4, -kInf, 4, -kInf}));
  EXPECT_EQ(Processed(processor, {4, 4, 4, 4}, {0, 0}), (std::vector<float>{4, 4, 4, 4}));
  processor.Commit(0);
  EXPECT_EQ(Processed(processor, {4, 4, 4, 4}, {0}), (std::vector<float>{4, 4, 4, 4}));
  processor.Commit(0);
  EXPECT_TRUE(processor.IsIdentity());
}

TEST(LogitProcessor, BiasComesBeforeThePenalties) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.presence_penalty = 1;
  params.logit_bias = {{0, 6.0f}};
  LogitProcessor processor(params, {}, {});
  processor.Commit(0);
  EXPECT_EQ(Processed(processor, {-2, 1}), (std::vector<float>{1, 1}));  // (-2 + 6) / 2 - 1
}

TEST(LogitProcessor, PassesOverIdsOutsideTheVocabulary) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.min_tokens = 1;
  params.logit_bias = {{5, 1.0f}, {-1, 1.0f}};
  LogitProcessor processor(params, std::vector<int32_t>{9, -3}, std::vector<int32_t>{7});
  EXPECT_EQ(Processed(processor, {4, 4}, {100, -100}), (std::vector<float>{4, 4}));
}

// A row behind a draft prefix must have the bits it would have after those tokens were committed.
TEST(LogitProcessor, ADraftPrefixCountsAsOutput) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    const auto token = [&] { return static_cast<int32_t>(random() % 12); };
    SamplingParams params;
    if (trial % 2 == 0) params.repetition_penalty = 1.3;
    if (trial % 3 == 0) params.presence_penalty = 0.7;
    if (trial % 5 == 0) params.frequency_penalty = -0.4;
    if (trial % 7 == 0) params.min_tokens = 6;
    params.logit_bias = {{token(), 2.0f}};
    std::vector<int32_t> prompt, draft;
    for (int i = 0; i < 5; ++i) prompt.push_back(token());
    LogitProcessor processor(params, prompt, std::vector<int32_t>{3});
    for (int i = 0; i < 4; ++i) processor.Commit(token());
    std::vector<float> logits(12);
    for (float& l : logits) l = static_cast<float>(random() % 2000) * 0.01f - 10;
    for (int i = 0; i < 5; ++i) {
      const auto ahead = Processed(processor, logits, draft);
      LogitProcessor later = processor;
      for (int32_t t : draft) later.Commit(t);
      ASSERT_EQ(ahead, Processed(later, logits));
      draft.push_back(token());
    }
  }
}

}  // namespace
}  // namespace firesteel
