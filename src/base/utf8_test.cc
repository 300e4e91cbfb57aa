#include "base/utf8.h"

#include <gtest/gtest.h>

namespace firesteel {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

TEST(Utf8, EveryCodePointSurvives) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    AppendUtf8(c, &text);
    if (c >= 0xD800 && c < 0xE000) {
      ASSERT_EQ(text, kBad);
      continue;
    }
    ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
    ASSERT_TRUE(IsValidUtf8(text));
    ASSERT_EQ(IncompleteUtf8Tail(text), 0u);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_FALSE(IsValidUtf8(text.substr(0, cut)));
      ASSERT_EQ(IncompleteUtf8Tail("x" + text.substr(0, cut)), cut);
      ASSERT_EQ(IncompleteUtf8Tail(text.substr(0, cut)), cut);
    }
  }
  std::string text;
  AppendUtf8(0x110000, &text);
  EXPECT_EQ(text, kBad);
}

TEST(Utf8, RefusesIllFormedSequences) {
  for (std::string_view text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "a\xC3", "\xE2\x82",
        "\xE2\x82"
        "a"}) {
    EXPECT_FALSE(IsValidUtf8(text));
  }
  EXPECT_TRUE(IsValidUtf8(""));
}

TEST(Utf8, TailsThatCannotBecomeACharacterAreNotIncomplete) {
  EXPECT_EQ(IncompleteUtf8Tail(""), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("abc"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("\xE0\x80"), 0u);  // overlong
  EXPECT_EQ(IncompleteUtf8Tail("\xED\xA0"), 0u);  // surrogate
  EXPECT_EQ(IncompleteUtf8Tail("\xF4\x90"), 0u);  // past U+10FFFF
  EXPECT_EQ(IncompleteUtf8Tail("\xC3\xA9\x80"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("\xFF"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("\xF0\x9F\x98"), 3u);
}

// Expected values: Python's bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesOneForEachMaximalPart) {
  const std::string bad = kBad;
  EXPECT_EQ(ReplaceInvalidUtf8("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(ReplaceInvalidUtf8("\xFF\xFE"), bad + bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x82"
                               "a"),
            bad + "a");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98"), bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), bad + bad + bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x80\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(ReplaceInvalidUtf8("a\xF1\x80\x80\xE1\x80\xC2"
                               "b\x80"
                               "c\x80\xBF"
                               "d"),
            "a" + bad + bad + bad + "b" + bad + "c" + bad + bad + "d");
}

}  // namespace
}  // namespace firesteel
