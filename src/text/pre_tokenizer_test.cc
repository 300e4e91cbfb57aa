#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "text/regex_translation.h"

namespace firesteel {
namespace {

std::vector<std::string> Words(const PreTokenizerSpec& spec, std::string_view text) {
  const auto made = PreTokenizer::Make(spec);
  EXPECT_TRUE(made.ok()) << made.status().message();
  std::vector<std::string> words;
  if (made.ok()) {
    (*made)->Split(text, [&](std::string_view word) {
      words.emplace_back(word);
      return true;
    });
  }
  return words;
}

PreTokenizerSpec Regex(std::string pattern) {
  return {.splits = {{.pattern = std::move(pattern), .where = "here"}}};
}

using Strings = std::vector<std::string>;

TEST(PreTokenizerTest, MatchesAndWhatLiesBetweenAreWords) {
  EXPECT_EQ(Words(Regex(R"(\d+)"), "ab12c345"), (Strings{"ab", "12", "c", "345"}));
  PreTokenizerSpec only = Regex(R"(\d+)");
  only.splits[0].only_matches = true;
  EXPECT_EQ(Words(only, "ab12c345"), (Strings{"12", "345"}));
  EXPECT_EQ(Words({.splits = {{.pattern = "+.", .literal = true, .where = ""}}}, "a+.b+c"),
            (Strings{"a", "+.", "b+c"}));
  EXPECT_EQ(Words(Regex("x*"), "axxb"), (Strings{"a", "xx", "b"}));
  EXPECT_EQ(Words(Regex("a"), ""), Strings{});
}

TEST(PreTokenizerTest, EndsWhenTheCallerHasEnough) {
  PreTokenizerSpec spec = Regex(R"(\d+)");
  spec.splits.push_back({.pattern = "[a-c]", .where = ""});
  const auto made = PreTokenizer::Make(spec);
  ASSERT_TRUE(made.ok()) << made.status().message();
  for (size_t most = 1; most <= 6; ++most) {
    size_t words = 0;
    (*made)->Split("abc12abd", [&](std::string_view) { return ++words < most; });
    EXPECT_EQ(words, most);
  }
}

TEST(PreTokenizerTest, StagesCutThePiecesOfTheOneBefore) {
  PreTokenizerSpec spec = Regex(R"(\p{N}{1,3})");
  spec.splits.push_back({.pattern = "[a-c]+", .where = ""});
  EXPECT_EQ(Words(spec, "12345abcd"), (Strings{"123", "45", "abc", "d"}));
}

TEST(PreTokenizerTest, ThePrefixSpaceComesBeforeTheWords) {
  const PreTokenizerSpec spec{.splits = {}, .gpt2_words = true, .add_prefix_space = true};
  EXPECT_EQ(Words(spec, "ab cd's"), (Strings{" ab", " cd", "'s"}));
  EXPECT_EQ(Words(spec, " ab"), (Strings{" ab"}));
  EXPECT_EQ(Words(spec, ""), Strings{});
}

TEST(PreTokenizerTest, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(Words(Regex(R"(\s+)"), "a\u180Eb\u3000\u0085c"),
            (Strings{"a\u180Eb", "\u3000\u0085", "c"}));
  EXPECT_EQ(Words(Regex(R"([^\s]+)"), "a\u180E\u2003b"), (Strings{"a\u180E", "\u2003", "b"}));
  EXPECT_EQ(Words(Regex(R"([\S]+)"), "a\u180E\u2003b"), (Strings{"a\u180E", "\u2003", "b"}));
  EXPECT_EQ(Words(Regex(R"(\w+)"), "a\u0301_\u203F-b"), (Strings{"a\u0301_\u203F", "-", "b"}));
}

TEST(PreTokenizerTest, APatternThatRunsWildLeavesTheRestWhole) {
  const std::string text(40, 'a');
  EXPECT_EQ(Words(Regex("(?:a|aa|a[a])+b"), text + "!"), Strings{text + "!"});
  // Recursion deep enough for the small stack of compiled patterns, not for the large one.
  const std::string pairs = [] {
    std::string out;
    for (int i = 0; i < 20000; ++i) out += "ab";
    return out;
  }();
  EXPECT_EQ(Words(Regex("(?:(a)|(b))+"), pairs), Strings{pairs});
}

TEST(RegexTranslationTest, RefusesWhatTheDialectsReadDifferently) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[a-z&&[^b]]", "\"&&\" inside a class"},
      {"[a[b]]", "a set inside a class"},
      {"[[:alpha:]]", "a set inside a class"},
      {R"(\h+)", "\\h"},
      {R"(a\b)", "\\b"},
      {R"(\R)", "\\R"},
      {R"(\K)", "\\K"},
      {R"((a)\1)", "\\1"},
      {R"([\W])", "\\W"},
      {"(?m:a)", "(?m:"},
      {"(?<name>a)", "(?<n"},
      {"(*UTF)a", "(*"},
      {"a{2}+", "behind a counted repeat"},
      {"{a}", "without a count"},
      {"[abc", "without end"},
      {"[]a]", "empty class"},
      {"a\\", "backslash at the end"},
      {R"(\p{L)", "without end"},
      {R"(\pL)", "without braces"},
      {R"(\x{110000000})", "malformed"},
      {R"(\xFF)", "above"},
      {R"(\u12)", "malformed"},
      {R"(\p{L=x})", "property"},
  };
  for (const auto& [pattern, complaint] : cases) {
    const Result<std::string> result = TranslateRegex(pattern);
    EXPECT_EQ(result.status().code(), StatusCode::kUnsupported) << pattern;
    EXPECT_NE(result.status().message().find(complaint), std::string::npos)
        << result.status().message();
  }
}

TEST(RegexTranslationTest, AcceptsThePublishedPatterns) {
  const Strings patterns = {
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
      R"(\p{Han}+|\u4e00|\x{4e00})",
  };
  for (const std::string& pattern : patterns)
    EXPECT_FALSE(Words(Regex(pattern), "Hi \u4F60 12345!").empty());
  EXPECT_EQ(Words(Regex(R"(\p{Han}+)"), "a\u4F60\u3001b"), (Strings{"a", "\u4F60", "\u3001b"}));
}

}  // namespace
}  // namespace firesteel
