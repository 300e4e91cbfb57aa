#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace firesteel {
namespace {

Json Parsed(std::string_view text) {
  Result<Json> json = ParseJson(text, "test");
  EXPECT_TRUE(json.ok()) << json.status().message();
  return json.ok() ? *json : Json();
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(DumpJson(Parsed(R"({"z":1,"a":[true,null,"x"],"m":{}})")),
            R"({"z":1,"a":[true,null,"x"],"m":{}})");
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  for (std::string_view text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "nul", "1 2", "{} x", "\"\xff\"", "\"\xed\xa0\x80\"",
        "\"\\ud800\"", "1e999", "'a'", "[1]\n]", "\"a\nb\"", "01"}) {
    const Result<Json> json = ParseJson(text, "request body");
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(json.status().message().starts_with("request body: is not valid JSON: "))
        << json.status().message();
    EXPECT_EQ(json.status().message().find("json.exception"), std::string::npos);
  }
}

TEST(ParseJson, LimitsDepthWithoutRecursion) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(256), "t").ok());
  EXPECT_FALSE(ParseJson(nested(257), "t").ok());
  EXPECT_FALSE(ParseJson(std::string(10'000'000, '['), "t").ok());
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(ParseJson(objects, "t").ok());
}

TEST(ParseJson, BracketsInStringsAreNoNesting) {
  EXPECT_TRUE(
      ParseJson("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"", "t").ok());
}

TEST(DumpJson, ReplacesInvalidUtf8) {
  EXPECT_EQ(DumpJson(Json("a\xff"
                          "b")),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(DumpJson(Parsed("{\"a\":1}"), 2), "{\n  \"a\": 1\n}");
}

TEST(GetInt, TakesIntegersOfEitherSpelling) {
  const Json json = Parsed(
      R"({"i":-7,"f":3.0,"half":3.5,"big":9223372036854775808,"max":9223372036854775807,)"
      R"("huge":1e300,"edge":9223372036854775808.0,"min":-9223372036854775808.0,"s":"1","n":null})");
  EXPECT_EQ(**GetInt(json, "i", "t"), -7);
  EXPECT_EQ(**GetInt(json, "f", "t"), 3);
  EXPECT_EQ(**GetInt(json, "max", "t"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(**GetInt(json, "min", "t"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*GetInt(json, "n", "t"), std::nullopt);
  EXPECT_EQ(*GetInt(json, "absent", "t"), std::nullopt);
  for (std::string_view key : {"half", "big", "huge", "edge", "s"}) {
    EXPECT_FALSE(GetInt(json, key, "t").ok()) << key;
  }
  EXPECT_EQ(GetInt(json, "half", "config.json").status().message(),
            "config.json: half is 3.5, expected a 64-bit integer");
  EXPECT_EQ(GetInt(json, "s", "config.json").status().message(),
            "config.json: s is a string, expected a 64-bit integer");
}

TEST(GetOthers, ReadTheirTypeAndRefuseOthers) {
  const Json json =
      Parsed(R"({"d":1.5,"i":2,"b":true,"s":"x","l":[1,2.0],"bad":[1,"2"],"n":null})");
  EXPECT_EQ(**GetDouble(json, "d", "t"), 1.5);
  EXPECT_EQ(**GetDouble(json, "i", "t"), 2.0);
  EXPECT_FALSE(GetDouble(json, "s", "t").ok());
  EXPECT_EQ(**GetBool(json, "b", "t"), true);
  EXPECT_FALSE(GetBool(json, "i", "t").ok());
  EXPECT_EQ(**GetString(json, "s", "t"), "x");
  EXPECT_FALSE(GetString(json, "b", "t").ok());
  EXPECT_EQ(**GetIntList(json, "l", "t"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*GetIntList(json, "n", "t"), std::nullopt);
  EXPECT_EQ(GetIntList(json, "bad", "t").status().message(),
            "t: bad[1] is a string, expected a 64-bit integer");
}

TEST(GetAnything, FromWhatIsNoObjectIsAnError) {
  for (const Json& json : {Json::array(), Json(3), Json("s"), Json()}) {
    EXPECT_FALSE(GetInt(json, "k", "t").ok());
    EXPECT_FALSE(GetString(json, "k", "t").ok());
  }
}

TEST(RequireInt, ChecksPresenceAndRange) {
  const Json json = Parsed(R"({"n":5})");
  EXPECT_EQ(*RequireInt(json, "n", 5, 5, "t"), 5);
  EXPECT_EQ(RequireInt(json, "n", 6, 9, "t").status().message(),
            "t: n is 5, expected an integer from 6 to 9");
  EXPECT_EQ(RequireInt(json, "n", 0, 4, "t").status().message(),
            "t: n is 5, expected an integer from 0 to 4");
  EXPECT_EQ(RequireInt(json, "m", 0, 4, "t").status().message(),
            "t: m is missing, expected an integer from 0 to 4");
}

}  // namespace
}  // namespace firesteel
