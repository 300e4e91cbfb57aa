#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"

namespace firesteel {
namespace {

class DetokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::Load(FIRESTEEL_SOURCE_DIR "/src/text/testdata/qwen");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_ = *std::move(tokenizer);
  }
  std::unique_ptr<Tokenizer> tokenizer_;  // its ids 0 to 255 are the bytes
};

TEST_F(DetokenizerTest, WaitsForWholeCharacters) {
  Detokenizer detokenizer(*tokenizer_, true);
  EXPECT_EQ(detokenizer.Push('a'), "a");
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push(0x9F), "");
  EXPECT_EQ(detokenizer.Push(0x98), "");
  EXPECT_EQ(detokenizer.Push(0x80), "\U0001F600");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST_F(DetokenizerTest, ReplacesWhatCannotBecomeACharacter) {
  Detokenizer detokenizer(*tokenizer_, true);
  EXPECT_EQ(detokenizer.Push(0xE4), "");
  EXPECT_EQ(detokenizer.Push('b'), "\uFFFDb");
  EXPECT_EQ(detokenizer.Push(0x80), "\uFFFD");
  EXPECT_EQ(detokenizer.Push(0xE4), "");
  EXPECT_EQ(detokenizer.Push(0xBD), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST_F(DetokenizerTest, SpecialTokensInsideACharacterAreSkippedOrShown) {
  const int32_t end = *tokenizer_->TokenId("<|im_end|>");
  Detokenizer skipping(*tokenizer_, true);
  EXPECT_EQ(skipping.Push(0xC3), "");
  EXPECT_EQ(skipping.Push(end), "");
  EXPECT_EQ(skipping.Push(0xA9), "\u00E9");
  Detokenizer showing(*tokenizer_, false);
  EXPECT_EQ(showing.Push(0xC3), "");
  EXPECT_EQ(showing.Push(end), "\uFFFD<|im_end|>");
}

TEST_F(DetokenizerTest, PiecesAddUpToTheWhole) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> ids(random() % 40);
    // Half of the rounds draw from bytes of long characters, so that sequences begin, break off and
    // end everywhere.
    const bool only_high = round % 2 == 0;
    for (int32_t& id : ids) {
      id = only_high ? static_cast<int32_t>(0x80 + random() % 0x80)
                     : static_cast<int32_t>(random() % (tokenizer_->vocab_size() + 2)) - 1;
    }
    const bool skip = random() % 2 == 0;
    Detokenizer detokenizer(*tokenizer_, skip);
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = detokenizer.Push(id);
      EXPECT_TRUE(IsValidUtf8(piece));
      text += piece;
    }
    text += detokenizer.Finish();
    ASSERT_EQ(text, tokenizer_->Decode(ids, skip)) << "round " << round;
  }
}

}  // namespace
}  // namespace firesteel
