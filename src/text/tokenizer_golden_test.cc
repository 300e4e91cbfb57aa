// Against Hugging Face's own crate: testdata/make_tokenizer_golden.mjs says how the expected values
// came about.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

const char kFolder[] = FIRESTEEL_SOURCE_DIR "/src/text/testdata/";

class TokenizerGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Result<std::string> text = ReadFile(std::string(kFolder) + "tokenizer_golden.json");
    ASSERT_TRUE(text.ok()) << text.status().message();
    Result<Json> golden = ParseJson(*text, "tokenizer_golden.json");
    ASSERT_TRUE(golden.ok()) << golden.status().message();
    texts_ = (*golden)["texts"];
    rows_ = (*golden)["tokenizers"][GetParam()];
    ASSERT_GE(texts_.size(), 300u);
    ASSERT_EQ(rows_.size(), texts_.size());
    auto tokenizer = Tokenizer::Load(std::string(kFolder) + GetParam());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_ = *std::move(tokenizer);
  }

  Json texts_;
  Json rows_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerGoldenTest, EncodesAndDecodesAsTheReference) {
  for (size_t i = 0; i < texts_.size(); ++i) {
    const auto text = texts_[i].get<std::string>();
    const auto expected = rows_[i]["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->Encode(text, false), expected) << "text " << texts_[i].dump();
    const std::vector<int32_t> ids = tokenizer_->Encode(text, true);
    EXPECT_EQ(ids.size(), expected.size() + rows_[i]["extra"].get<size_t>());
    EXPECT_EQ(tokenizer_->Decode(ids, false), rows_[i]["text"].get<std::string>());
    EXPECT_EQ(tokenizer_->Decode(ids, true), rows_[i]["plain"].get<std::string>());
  }
}

TEST_P(TokenizerGoldenTest, StreamsAsItDecodes) {
  for (size_t i = 0; i < texts_.size(); ++i) {
    const std::vector<int32_t> ids = tokenizer_->Encode(texts_[i].get<std::string>(), true);
    Detokenizer detokenizer(*tokenizer_, true);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.Push(id);
    text += detokenizer.Finish();
    EXPECT_EQ(text, rows_[i]["plain"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, TokenizerGoldenTest, testing::Values("qwen", "gpt2", "llama3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace firesteel
