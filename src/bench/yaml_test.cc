#include "bench/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firesteel {
namespace {

using ::testing::HasSubstr;

TEST(YamlTest, ScalarsHaveTheTypesOfTheCoreSchema) {
  const auto json = ParseYaml(
      "a: 1\nb: 1.5\nc: true\nd: 'true'\ne: \"8\"\nf:\ng: text here\nh: [1, x, {k: v}]\ni: "
      "4:49152\nj: nan\nk: -2\n1: one\n",
      "f");
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ(
      DumpJson(*json),
      R"({"a":1,"b":1.5,"c":true,"d":"true","e":"8","f":null,"g":"text here","h":[1,"x",{"k":"v"}],)"
      R"("i":"4:49152","j":"nan","k":-2,"1":"one"})");
}

TEST(YamlTest, ErrorsNameFileAndLine) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"a: [1\nb: 2", "f: line 2: "},
      {"a: 1\nb: 2\na: 3", "f: line 3: key a is there twice"},
      {"a: 1\n---\nb: 2", "f: holds 2 documents"},
      {"? [x]\n: y", "a key is not a scalar"},
  };
  for (const auto& c : kCases) {
    const auto json = ParseYaml(c.text, "f");
    ASSERT_FALSE(json.ok()) << c.text;
    EXPECT_THAT(json.status().message(), HasSubstr(c.message)) << c.text;
  }
}

TEST(YamlTest, HostileFilesEnd) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) bomb += (k > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_FALSE(ParseYaml(bomb, "f").ok());
  EXPECT_FALSE(ParseYaml(std::string(200, '[') + std::string(200, ']'), "f").ok());
}

}  // namespace
}  // namespace firesteel
