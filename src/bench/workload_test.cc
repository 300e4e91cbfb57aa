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

TEST(WorkloadTest, TakesTheRowsOfOtherTools) {
  const auto prompts = ParsePrompts(
      R"({"conversations":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"conversations":[{"from":"human","value":"v"}]}
{"messages":[{"role":"user","content":"c"}],"max_tokens":5,"top_p":0.5}
{"prompt":"t","messages":[{"role":"user","content":"d"}],"other":1}
{"input_ids":[3,4],"output_len":6,"timestamp_ms":1.5,"body":{"seed":1}})",
      "f");
  ASSERT_TRUE(prompts.ok()) << prompts.status().message();
  EXPECT_EQ((*prompts)[0].text, "a");
  EXPECT_EQ((*prompts)[1].text, "v");
  EXPECT_EQ(DumpJson((*prompts)[2].messages), R"([{"role":"user","content":"c"}])");
  EXPECT_EQ((*prompts)[2].output_tokens, 5);
  EXPECT_EQ(DumpJson((*prompts)[2].body), R"({"top_p":0.5})");
  EXPECT_EQ((*prompts)[3].text, "t");
  EXPECT_FALSE((*prompts)[3].messages.is_null());
  EXPECT_EQ(DumpJson((*prompts)[3].body), "{}");
  EXPECT_EQ((*prompts)[4].token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ((*prompts)[4].prompt_tokens, 2);
  EXPECT_EQ((*prompts)[4].output_tokens, 6);
  EXPECT_EQ((*prompts)[4].timestamp_ms, 1.5);
  EXPECT_EQ(DumpJson((*prompts)[4].body), R"({"seed":1})");
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
      {"{\"conversations\":[3]}", "conversations is not a list of objects"},
      {"{\"messages\":[]}", "messages is not a list of messages"},
      {"{\"input_ids\":[-1]}", "input_ids holds -1"},
      {"{\"prompt\":\"a\",\"body\":3}", "body is not an object"},
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
