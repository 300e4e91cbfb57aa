#include "net/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace firesteel {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Parse(const std::vector<std::string_view>& pieces) {
  SseParser parser;
  std::vector<std::string> events;
  for (const std::string_view piece : pieces) {
    parser.Push(piece, [&](std::string_view data) { events.emplace_back(data); });
  }
  return events;
}

// Everything the parser knows: a BOM, the three line ends, comments, other fields, a field without
// a colon, data in several lines, only one space removed, an event without data, and an end without
// a blank line.
const std::string kStream =
    "\xEF\xBB\xBF"
    "data: first\n\n"
    ": comment\r\nevent: x\r\ndata:second\r\ndata:  line\r\n\r\n"
    "id: 7\rdata: third\r\r"
    "retry: 10\n\n"
    "data\n\n"
    "data:\ndata: \n\n"
    "database: no\n\n"
    "data: \xE4\xBD\xA0\n\n"
    "data: [DONE]\n\n"
    "data: never ended\n";

const auto kExpected =
    ElementsAre("first", "second\n line", "third", "", "\n", "\xE4\xBD\xA0", "[DONE]");

TEST(SseParser, ReadsAWholeStream) { EXPECT_THAT(Parse({kStream}), kExpected); }

TEST(SseParser, ReadsEverySplitInThreePieces) {
  const std::string_view all = kStream;
  for (size_t a = 0; a <= all.size(); ++a) {
    for (size_t b = a; b <= all.size(); ++b) {
      EXPECT_THAT(Parse({all.substr(0, a), all.substr(a, b - a), all.substr(b)}), kExpected)
          << "cut at " << a << " and " << b;
    }
  }
}

TEST(SseParser, ReadsByteByByte) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < kStream.size(); ++i) {
    pieces.push_back(std::string_view(kStream).substr(i, 1));
  }
  EXPECT_THAT(Parse(pieces), kExpected);
}

TEST(SseParser, KeepsABomThatIsNotAtTheStart) {
  EXPECT_THAT(Parse({"data: a\n\n\xEF\xBB\xBF"
                     "data: b\n\ndata: c\n\n"}),
              ElementsAre("a", "c"));
}

TEST(SseEvent, IsReadBackAsItWas) {
  for (const std::string data :
       {"", "{}", "two\nlines", "ends with\n", " leading space", "a\n\nb"}) {
    EXPECT_THAT(Parse({SseEvent(data)}), ElementsAre(data));
  }
  EXPECT_EQ(SseEvent("x"), "data: x\n\n");
}

TEST(SseEvent, MakesOneEventOfAnyLineEnd) {
  EXPECT_THAT(Parse({SseEvent("a\r\nb\rc\nd")}), ElementsAre("a\nb\nc\nd"));
}

TEST(SseParserTest, TheEndOfTheBodyEndsAnEvent) {
  const struct {
    const char* text;
    std::vector<std::string> events;
    bool pending;
  } kCases[] = {
      {"data: a\n\ndata: b", {"a", "b"}, true},
      {"data: a\n\ndata: b\n", {"a", "b"}, true},
      {"data: a\n\n", {"a"}, false},
      {"data: a\n\n: ping", {"a"}, false},
      {"", {}, false},
  };
  for (const auto& c : kCases) {
    std::vector<std::string> events;
    const auto add = [&](std::string_view data) { events.emplace_back(data); };
    SseParser parser;
    parser.Push(c.text, add);
    EXPECT_EQ(parser.Finish(add), c.pending) << c.text;
    EXPECT_EQ(events, c.events) << c.text;
    EXPECT_FALSE(parser.Finish(add));
  }
}

TEST(SseParserTest, AnEventHasItsOwnType) {
  std::vector<std::string> types;
  SseParser parser;
  parser.Push("event: error\ndata: a\n\ndata: b\n\nevent:x\n\ndata: c\n\n",
              [&](std::string_view) { types.push_back(parser.event_type()); });
  EXPECT_EQ(types, (std::vector<std::string>{"error", "", ""}));
}

}  // namespace
}  // namespace firesteel
