#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace firesteel {
namespace {

TEST(StopMatcherTest, HoldsBackWhatMayBeginAStop) {
  StopMatcher matcher({"\n\nUser:"}, false);
  EXPECT_EQ(matcher.Push("Hi").text, "Hi");
  EXPECT_EQ(matcher.Push(" there\n").text, " there");
  EXPECT_EQ(matcher.Push("\n").text, "");
  EXPECT_EQ(matcher.Push("\nUs").text, "\n");
  EXPECT_EQ(matcher.Push("ing").text, "\n\nUsing");
  EXPECT_EQ(matcher.Push("\n").text, "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Finish(), "\n");
}

TEST(StopMatcherTest, ThePushThatCompletesTheMatchReturnsIt) {
  StopMatcher matcher({"END", "never"}, false);
  EXPECT_FALSE(matcher.Push("one E").stop_index.has_value());
  EXPECT_FALSE(matcher.Push("N").stop_index.has_value());
  const StopMatcher::Output out = matcher.Push("D and more");
  EXPECT_EQ(out.stop_index, 0u);
  EXPECT_EQ(out.text, "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Push("more").text, "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, IncludesTheStopWhenAsked) {
  StopMatcher matcher({"END"}, true);
  EXPECT_EQ(matcher.Push("xE").text, "x");
  EXPECT_EQ(matcher.Push("NDy").text, "END");
}

TEST(StopMatcherTest, TheMatchThatEndsFirstWinsThenTheLongest) {
  StopMatcher first({"abcd", "bc"}, false);
  const StopMatcher::Output inner = first.Push("xabcd");
  EXPECT_EQ(inner.text, "xa");
  EXPECT_EQ(inner.stop_index, 1u);
  StopMatcher longest({"c", "abc"}, false);
  const StopMatcher::Output whole = longest.Push("xabc");
  EXPECT_EQ(whole.text, "x");
  EXPECT_EQ(whole.stop_index, 1u);
}

TEST(StopMatcherTest, EmptyStopsNeverMatch) {
  StopMatcher matcher({"", "z"}, false);
  EXPECT_EQ(matcher.Push("abc").text, "abc");
  EXPECT_EQ(matcher.Push("z").stop_index, 1u);
  StopMatcher none({}, false);
  EXPECT_EQ(none.Push("abc").text, "abc");
}

// The definition, by looking at the whole text.
std::pair<std::string, std::optional<size_t>> Search(const std::string& text,
                                                     const std::vector<std::string>& stops,
                                                     bool include) {
  for (size_t end = 0; end <= text.size(); ++end) {
    std::optional<size_t> hit;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (!hit || stops[i].size() > stops[*hit].size()) hit = i;
    }
    if (hit) return {text.substr(0, include ? end : end - stops[*hit].size()), hit};
  }
  return {text, std::nullopt};
}

TEST(StopMatcherTest, AgreesWithSearchingTheWholeTextHoweverItIsCut) {
  std::mt19937 random(11);
  const auto word = [&](size_t max, size_t min) {
    std::string out;
    for (size_t n = min + random() % (max - min + 1); n > 0; --n) out += "ab"[random() % 2];
    return out;
  };
  int matches = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = word(6, 1);
    const std::string text = word(24, 0);
    const bool include = random() % 2 == 0;
    const auto [expected, index] = Search(text, stops, include);
    StopMatcher matcher(stops, include);
    std::string got;
    std::optional<size_t> got_index;
    size_t completed_in = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 4;
      const StopMatcher::Output out = matcher.Push(std::string_view(text).substr(at, length));
      at += std::min(length, text.size() - at);
      got += out.text;
      if (out.stop_index) {
        got_index = out.stop_index;
        completed_in = at;
      }
    }
    got += matcher.Finish();
    ASSERT_EQ(got, expected) << text;
    ASSERT_EQ(got_index.has_value(), index.has_value());
    if (!index) continue;
    ++matches;
    ASSERT_EQ(stops[*got_index], stops[*index]);
    const size_t end = expected.size() + (include ? 0 : stops[*index].size());
    ASSERT_LE(end, completed_in);
    ASSERT_LT(completed_in, end + 4);
  }
  EXPECT_GT(matches, 5000);
}

}  // namespace
}  // namespace firesteel
