#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace firesteel {
namespace {

using ::testing::HasSubstr;

TEST(WorkloadTest, ReadsRowsInOrder) {
  auto prompts = ParsePrompts(
      "{\"prompt\":\"a\",\"id\":\"x\",\"kind\":\"docs\"}\r\n\n{\"prompt\":\"b\",\"output_tokens\":"
      "9,\"other\":[]}",
      "f");
  ASSERT_TRUE(prompts.ok()) << prompts.status().message();
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_EQ((*prompts)[0].id, "x");
  EXPECT_EQ((*prompts)[0].kind, "docs");
  EXPECT_EQ((*prompts)[1].id, "3");
  EXPECT_EQ((*prompts)[1].output_tokens, 9);
}

TEST(WorkloadTest, MessagesNameTheLine) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"", "f: holds no prompt"},
      {"{\"prompt\":\"a\"}\n{\"text\":\"a\"}", "f: line 2: prompt is missing"},
      {"{\"prompt\":\"\"}", "f: line 1: prompt is empty"},
      {"{\"prompt\":3}", "f: line 1: prompt is 3, expected a string"},
      {"[1]", "f: line 1: is not an object"},
      {"{\"prompt\":", "f: line 1: is not valid JSON"},
      {"{\"prompt\":\"a\",\"output_tokens\":0}", "output_tokens is 0, expected at least 1"},
      {"{\"prompt\":\"a\",\"id\":1}\n{\"prompt\":\"b\",\"id\":1}",
       "f: line 2: id 1 was used before"},
  };
  for (const auto& c : kCases) {
    auto prompts = ParsePrompts(c.text, "f");
    ASSERT_FALSE(prompts.ok()) << c.text;
    EXPECT_THAT(prompts.status().message(), HasSubstr(c.message));
  }
}

TEST(WorkloadTest, SelectsInOrderShuffledAndRepeated) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < 20; ++i) prompts.push_back({.id = std::to_string(i), .text = "t"});
  const auto ids = [](const std::vector<Prompt>& list) {
    std::vector<std::string> out;
    for (const Prompt& p : list) out.push_back(p.id);
    return out;
  };
  EXPECT_EQ(ids(SelectPrompts(prompts, 3, std::nullopt)),
            (std::vector<std::string>{"0", "1", "2"}));
  const auto repeated = ids(SelectPrompts(prompts, 41, std::nullopt));
  EXPECT_EQ(repeated[20], "0#2");
  EXPECT_EQ(repeated[40], "0#3");
  auto shuffled = ids(SelectPrompts(prompts, 20, 1));
  EXPECT_EQ(shuffled, ids(SelectPrompts(prompts, 20, 1)));
  EXPECT_NE(shuffled, ids(SelectPrompts(prompts, 20, 2)));
  EXPECT_NE(shuffled, ids(prompts));
  auto sorted = ids(prompts);
  std::sort(sorted.begin(), sorted.end());
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, sorted);
}

}  // namespace
}  // namespace firesteel
