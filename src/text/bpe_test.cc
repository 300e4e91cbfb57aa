#include "text/bpe.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "text/byte_alphabet.h"

namespace firesteel {
namespace {

Bpe::Vocab Bytes() {
  Bpe::Vocab vocab;
  for (int byte = 0; byte < 256; ++byte) vocab.emplace(SpellByte(static_cast<uint8_t>(byte)), byte);
  return vocab;
}

std::vector<int32_t> Encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  bpe.Encode(word, &scratch, &ids);
  return ids;
}

// The definition: as long as any pair has a rank, merge the leftmost of those with the lowest.
std::vector<std::string> Naive(const std::string& word, const Bpe::Merges& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = static_cast<size_t>(
          std::find(merges.begin(), merges.end(), std::pair(parts[i], parts[i + 1])) -
          merges.begin());
      if (rank < best) {
        best = rank;
        at = i;
      }
    }
    if (best == merges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BpeTest, AgreesWithTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Bpe::Vocab vocab = Bytes();
    std::vector<std::string> tokens = {"a", "b", "c"};
    Bpe::Merges merges;
    for (int i = 0; i < 12; ++i) {
      const std::pair merge(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
      const std::string merged = merge.first + merge.second;
      // A token that two pairs give, or a pair that is listed twice, is left to the golden tests.
      if (!vocab.emplace(merged, static_cast<int32_t>(vocab.size())).second) continue;
      tokens.push_back(merged);
      merges.push_back(merge);
    }
    const Result<Bpe> bpe = Bpe::Make(vocab, merges, "");
    ASSERT_TRUE(bpe.ok()) << bpe.status().message();
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (size_t n = random() % 24; n > 0; --n) word += "abc"[random() % 3];
      std::vector<int32_t> expected;
      for (const std::string& part : Naive(word, merges)) expected.push_back(vocab.at(part));
      ASSERT_EQ(Encode(*bpe, word), expected) << word;
    }
  }
}

TEST(BpeTest, AMegabyteOfOneLetterTakesMoments) {
  Bpe::Vocab vocab = Bytes();
  Bpe::Merges merges;
  for (std::string token = "a"; token.size() < 1024; token += token) {
    merges.emplace_back(token, token);
    vocab.emplace(token + token, static_cast<int32_t>(vocab.size()));
  }
  const Result<Bpe> bpe = Bpe::Make(vocab, merges, "");
  ASSERT_TRUE(bpe.ok());
  const std::clock_t start = std::clock();
  EXPECT_EQ(Encode(*bpe, std::string(1 << 20, 'a')),
            std::vector<int32_t>(1024, vocab.at(std::string(1024, 'a'))));
  // Processor time, with room for a sanitizer; quadratic merging would take hours.
  EXPECT_LT(std::clock() - start, 60 * CLOCKS_PER_SEC);
}

TEST(BpeTest, RefusesWhatTheVocabularyDoesNotHave) {
  EXPECT_EQ(
      Bpe::Make(Bytes(), {{"a", "b"}}, "f: ").status().message(),
      "f: model.merges[0] (\"a\" and \"b\") needs token \"ab\", which model.vocab does not have");
  Bpe::Vocab vocab = Bytes();
  vocab.erase("A");
  EXPECT_EQ(Bpe::Make(vocab, {}, "f: ").status().message(),
            "f: model.vocab has no token for byte 0x41");
}

TEST(BpeTest, TheByteSpellingIsReversible) {
  std::string all;
  std::string spelled;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    spelled += SpellByte(static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(BytesFromSpelling(spelled), all);
  EXPECT_EQ(SpellByte(' '), "\u0120");
  EXPECT_EQ(SpellByte('\n'), "\u010A");
  EXPECT_EQ(BytesFromSpelling("a b"), std::nullopt);
  EXPECT_EQ(BytesFromSpelling("\u4F60"), std::nullopt);
}

}  // namespace
}  // namespace firesteel
