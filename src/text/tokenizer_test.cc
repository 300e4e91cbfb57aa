#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "base/utf8.h"

namespace firesteel {
namespace {

std::unique_ptr<Tokenizer> LoadTestTokenizer(const std::string& name) {
  auto tokenizer = Tokenizer::Load(FIRESTEEL_SOURCE_DIR "/src/text/testdata/" + name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(TokenizerTest, KnowsItsTokens) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  const std::optional<int32_t> end = tokenizer->TokenId("<|im_end|>");
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(tokenizer->IsSpecial(*end));
  EXPECT_EQ(tokenizer->TokenBytes(*end), "<|im_end|>");
  const std::optional<int32_t> think = tokenizer->TokenId("<think>");
  ASSERT_TRUE(think.has_value());
  EXPECT_FALSE(tokenizer->IsSpecial(*think));
  const std::optional<int32_t> space = tokenizer->TokenId("\u0120");
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(tokenizer->TokenBytes(*space), " ");
  EXPECT_EQ(tokenizer->TokenId("no such token"), std::nullopt);
  EXPECT_EQ(*tokenizer->TokenId("  both  ") + 1, tokenizer->vocab_size());
}

TEST(TokenizerTest, EveryByteHasItsToken) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->TokenBytes(byte), std::string(1, static_cast<char>(byte)));
  }
}

TEST(TokenizerTest, IdsOutsideTheVocabularyStandForNothing) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  for (const int32_t id : {-1, tokenizer->vocab_size(), 1 << 30, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
    EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{id}, false), "");
  }
}

// What is given up on is told apart from what fits, exactly.
TEST(TokenizerTest, GivesUpAboveMaxTokens) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  const std::string long_word(3000, 'x');
  for (const std::string& text :
       {std::string("The cat<|im_end|> sat on 12345 mats.\n\n  Then it left."), long_word,
        "a " + long_word, std::string(3000, ' '), std::string("<|im_end|><|im_end|><|im_end|>")}) {
    const std::vector<int32_t> whole = tokenizer->Encode(text, EncodeOptions{});
    for (size_t most = 0; most < whole.size() + 2; most += 1 + most / 8) {
      const std::vector<int32_t> ids = tokenizer->Encode(text, EncodeOptions{.max_tokens = most});
      if (whole.size() <= most) {
        EXPECT_EQ(ids, whole);
      } else {
        EXPECT_GT(ids.size(), most) << text.substr(0, 50);
        EXPECT_LE(ids.size(), whole.size());
      }
    }
  }
  const std::string endless(32 << 20, ' ');
  EXPECT_GT(tokenizer->Encode(endless, EncodeOptions{.max_tokens = 100}).size(), 100u);
}

TEST(TokenizerTest, ReadsConfigBesideIt) {
  const auto tokenizer = LoadTestTokenizer("llama3");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos_token(), "<|begin_of_text|>");
  EXPECT_EQ(tokenizer->bos_id(), tokenizer->TokenId("<|begin_of_text|>"));
  EXPECT_EQ(tokenizer->eos_token(), "<|eot_id|>");
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->TokenId("<|eot_id|>"));
  EXPECT_EQ(tokenizer->chat_template(), "{{ bos_token }}{{ messages[0]['content'] }}");
  const auto bare = LoadTestTokenizer("gpt2");
  ASSERT_NE(bare, nullptr);
  EXPECT_EQ(bare->eos_id(), std::nullopt);
  EXPECT_EQ(bare->eos_token(), "");
  EXPECT_EQ(bare->chat_template(), "");
}

TEST(TokenizerTest, AddsTheBeginningOnlyWhenAsked) {
  const auto tokenizer = LoadTestTokenizer("llama3");
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<int32_t> bare = tokenizer->Encode("hello", false);
  std::vector<int32_t> expected = {*tokenizer->bos_id()};
  expected.insert(expected.end(), bare.begin(), bare.end());
  EXPECT_EQ(tokenizer->Encode("hello", true), expected);
}

TEST(TokenizerTest, SpecialTextCanBeOrdinaryText) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "a<|im_end|>b<think>";
  EncodeOptions options{.add_special_tokens = false, .parse_special_tokens = false};
  const std::vector<int32_t> ids = tokenizer->Encode(text, options);
  for (const int32_t id : ids) EXPECT_FALSE(tokenizer->IsSpecial(id));
  EXPECT_EQ(ids.back(), *tokenizer->TokenId("<think>"));
  EXPECT_EQ(tokenizer->Decode(ids, true), text);
}

TEST(TokenizerTest, InvalidUtf8IsReplaced) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  const std::string broken =
      "a\xFF\xE4\xBD"
      "b\xC3";
  EXPECT_EQ(tokenizer->Encode(broken, false), tokenizer->Encode(ReplaceInvalidUtf8(broken), false));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(one, false), false), ReplaceInvalidUtf8(one));
  }
}

// Quadratic merging would take minutes for each of these, quadratic splitting too.
TEST(TokenizerTest, LongInputsTakeLinearTime) {
  const std::clock_t start = std::clock();
  for (const char* name : {"qwen", "gpt2", "llama3"}) {
    const auto tokenizer = LoadTestTokenizer(name);
    ASSERT_NE(tokenizer, nullptr);
    for (const std::string unit :
         {"a", "l", " ", "\n", "\u4F60", "!", "7", " \n", "a ", "<|", "<|im_end|>", "\u0301"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const std::vector<int32_t> ids = tokenizer->Encode(text, false);
      std::string decoded = tokenizer->Decode(ids, false);
      if (std::string(name) == "gpt2" && decoded.starts_with(' ') && unit[0] != ' ')
        decoded.erase(0, 1);
      // rstrip and the like take spaces in; nothing here holds any beside an added token.
      EXPECT_TRUE(decoded == text) << name << " changes a run of \"" << unit << "\"";
    }
  }
  EXPECT_LT(std::clock() - start, 300 * CLOCKS_PER_SEC);
}

TEST(TokenizerTest, ThreadsShareIt) {
  const auto tokenizer = LoadTestTokenizer("qwen");
  ASSERT_NE(tokenizer, nullptr);
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "Speculative d\u00E9coding, \u4F60\u597D <|im_end|>\n " + std::to_string(i);
  const std::vector<int32_t> expected = tokenizer->Encode(text, false);
  std::vector<std::vector<int32_t>> got(4);
  std::vector<std::thread> threads;
  for (auto& ids : got) threads.emplace_back([&] { ids = tokenizer->Encode(text, false); });
  for (auto& thread : threads) thread.join();
  for (const auto& ids : got) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace firesteel
