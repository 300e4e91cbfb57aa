// Against python3-jinja2: testdata/make_chat_golden.py says how the expected texts came about.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/mapped_file.h"

namespace firesteel {
namespace {

const std::string kFolder = FIRESTEEL_SOURCE_DIR "/src/text/testdata/";
const char kBos[] = "<|begin_of_text|>";
const char kEos[] = "<|eot_id|>";

std::string ReadTestFile(const std::string& name) {
  Result<std::string> text = ReadFile(kFolder + name);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

Result<std::string> RenderOnce(const std::string& source, const Json& messages, const Json& tools,
                               bool prompt, const Json& kwargs) {
  FS_ASSIGN(const auto compiled, ChatTemplate::Compile(source, kBos, kEos));
  return compiled->Render(messages, tools, prompt, kwargs);
}

TEST(ChatTemplateTest, RendersAsJinja2Does) {
  Result<Json> cases = ParseJson(ReadTestFile("chat_golden.json"), "chat_golden.json");
  ASSERT_TRUE(cases.ok()) << cases.status().message();
  std::map<std::string, std::string> files;
  int rendered = 0, failed = 0;
  for (const Json& test : *cases) {
    std::string source = test["template"].get<std::string>();
    if (source.ends_with(".jinja")) {
      std::string& file = files[source];
      if (file.empty()) file = ReadTestFile("templates/" + source);
      source = file;
    }
    const Result<std::string> text = RenderOnce(source, test["messages"], test["tools"],
                                                test["prompt"].get<bool>(), test["kwargs"]);
    const std::string name = test["name"].get<std::string>();
    if (test.contains("expected")) {
      ASSERT_TRUE(text.ok()) << name << ": " << text.status().message();
      EXPECT_EQ(*text, test["expected"].get<std::string>()) << name;
      ++rendered;
    } else {
      EXPECT_FALSE(text.ok()) << name << " gives \"" << (text.ok() ? *text : "") << "\"";
      EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument) << name;
      if (test.contains("raised")) {
        EXPECT_EQ(text.status().message(), test["raised"].get<std::string>()) << name;
      } else {
        EXPECT_NE(text.status().message().find("line"), std::string::npos)
            << text.status().message();
      }
      ++failed;
    }
  }
  EXPECT_GT(rendered, 600);
  EXPECT_GT(failed, 30);
}

TEST(ChatTemplateTest, VariablesOfTheRequestWin) {
  const Result<std::string> text =
      RenderOnce("{{ bos_token }}{{ eos_token }}{{ mood }}{{ tools is none }}", Json::array(),
                 nullptr, false, {{"mood", "calm"}, {"eos_token", "E"}});
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, std::string(kBos) + "EcalmTrue");
}

TEST(ChatTemplateTest, ExceptionsOfTheTemplateKeepTheirWords) {
  const Result<std::string> text = RenderOnce("a\n{{ raise_exception('roles must alternate') }}",
                                              Json::array(), nullptr, false, nullptr);
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(text.status().message(), "roles must alternate");
}

TEST(ChatTemplateTest, ErrorsNameTheLine) {
  const auto message = [](const std::string& source) {
    return RenderOnce(source, Json::array(), nullptr, false, nullptr).status().message();
  };
  EXPECT_EQ(message("a\n\n{{ x.y }}"), "chat template line 3: 'x' is undefined");
  EXPECT_EQ(message("{% for x in [1] %}\n{{ x + 'a' }}{% endfor %}"),
            "chat template line 2: '+' does not work on 'int' and 'str'");
  EXPECT_EQ(message("\n{% include 'x' %}"),
            "chat template line 2: the block 'include' is not supported here");
  EXPECT_EQ(message("{{ 1"), "chat template line 1: the template ends inside a tag");
  EXPECT_EQ(message("{{ 1|nope }}"), "chat template line 1: there is no filter 'nope'");
}

TEST(ChatTemplateTest, TheClockHasADate) {
  const Result<std::string> text =
      RenderOnce("{{ strftime_now('%Y-%m-%d %d %b %Y') }}", Json::array(), nullptr, false, nullptr);
  ASSERT_TRUE(text.ok()) << text.status().message();
  ASSERT_EQ(text->size(), 22u);
  EXPECT_GE(text->substr(0, 4), "2024");
  EXPECT_EQ(text->substr(8, 2), text->substr(11, 2));
}

TEST(ChatTemplateTest, ThreadsShareIt) {
  const auto compiled = ChatTemplate::Compile(ReadTestFile("templates/qwen3.jinja"), kBos, kEos);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const Json messages = {{{"role", "user"}, {"content", "hi"}},
                         {{"role", "assistant"}, {"content", "<think>a</think>b"}}};
  const Result<std::string> expected = (*compiled)->Render(messages, nullptr, true, nullptr);
  ASSERT_TRUE(expected.ok());
  std::vector<std::string> got(4);
  std::vector<std::thread> threads;
  for (std::string& text : got) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Result<std::string> result = (*compiled)->Render(messages, nullptr, true, nullptr);
        text = result.ok() ? *result : result.status().message();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::string& text : got) EXPECT_EQ(text, *expected);
}

std::string Repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Each would run for ages, take all memory, or overflow the stack without a limit.
TEST(ChatTemplateTest, HostileTemplatesEndInAnError) {
  const std::string doubling =
      "{% set ns = namespace(x=['a']) %}{% for i in range(200) %}{% set ns.x = ";
  const std::vector<std::string> sources = {
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
      "{{ 'x' * 99999999999 }}",
      "{{ [0] * 99999999999 }}",
      "{{ range(999999999)|list }}",
      "{{ 10 ** 10 ** 10 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ -(-9223372036854775807 - 1) }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ 99999999999999999999 }}",
      doubling + "[ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
      doubling + "ns.x + ns.x %}{% endfor %}{{ ns.x }}",
      doubling + "{'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x|tojson }}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(200) %}{% set ns.x = ns.x ~ ns.x "
      "%}{% endfor %}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(200) %}{% set ns.x = "
      "ns.x|replace('a', 'aa') %}{% endfor %}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(200) %}{% set ns.x = "
      "ns.x.replace('', 'aa') %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}",
      "{% set ns = namespace() %}{% set ns.x = ns %}",
      "{% set ns = namespace() %}{% set ns.x = [ns] %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{% for i in [1, 2] %}{{ m(n) }}{% endfor %}{% endmacro %}{{ m(1) }}",
      "{% macro m() %}" + Repeat("{% if 1 %}", 55) + "{{ m() }}" + Repeat("{% endif %}", 55) +
          "{% endmacro %}{{ m() }}",
      "{% macro m() %}" + Repeat("{% for i in [1] %}", 55) + "{{ m() }}" +
          Repeat("{% endfor %}", 55) + "{% endmacro %}{{ m() }}",
      "{% macro m() %}" + Repeat("{% set x %}", 55) + "{{ m() }}" + Repeat("{% endset %}", 55) +
          "{% endmacro %}{{ m() }}",
      "{{ [1]|tojson(indent=999999999) }}",
      "{{ 'a\nb'|indent(999999999) }}",
      "{{ 'a'|map('map', 'map', 'map')|list }}",
      "{{ " + Repeat("(", 100000),
      "{{ " + Repeat("[", 100000) + Repeat("]", 100000) + " }}",
      "{{ " + Repeat("-", 100000) + "1 }}",
      "{{ " + Repeat("not ", 100000) + "1 }}",
      "{{ 1" + Repeat(" + 1", 100000) + " }}",
      "{{ x" + Repeat(".x", 100000) + " }}",
      "{{ 1" + Repeat("|string", 100000) + " }}",
      "{{ 1" + Repeat(" if 1 else 1", 100000) + " }}",
      "{{ 1" + Repeat(" ** 1", 100000) + " }}",
      Repeat("{% if 1 %}", 100000),
      Repeat("{% for x in [1] %}", 100000) + Repeat("{% endfor %}", 100000),
      Repeat("{% set x %}", 100000),
      "{{ strftime_now('" + Repeat("%c", 10000) + "') }}",
      "{{ \xFF }}",
      "{{ '\\ud800' }}{{ 1 / 0 }}",
  };
  for (const std::string& source : sources) {
    const Result<std::string> text = RenderOnce(source, Json::array(), nullptr, false, nullptr);
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument) << source.substr(0, 100);
    EXPECT_LT(text.status().message().size(), 300u) << source.substr(0, 100);
  }
}

TEST(ChatTemplateTest, HostileMessagesEndInAnErrorOrAText) {
  const std::string source = ReadTestFile("templates/qwen3.jinja");
  Json deep = "x";
  for (int i = 0; i < 2000; ++i) deep = Json::array({deep});
  Json many = Json::array();
  for (int i = 0; i < 200'000; ++i) many.push_back({{"role", "user"}, {"content", "x"}});
  const std::vector<Json> hostile = {
      deep,
      many,
      {{{"role", "user"}, {"content", std::string(20 << 20, 'x')}}},
      {deep},
      {1, 2},
      {nullptr},
      {{{"role", 5}, {"content", {{"a", 1}}}}},
      "text",
      nullptr,
      {{"role", "user"}},
      {{{"role", "assistant"}, {"tool_calls", "no list"}, {"content", "x"}}},
  };
  for (const Json& messages : hostile) {
    const Result<std::string> text = RenderOnce(source, messages, nullptr, true, nullptr);
    EXPECT_TRUE(text.ok() || text.status().code() == StatusCode::kInvalidArgument);
  }
  const Json broken = {{{"role", "user"},
                        {"content",
                         "a\xFF"
                         "b"}}};
  const Result<std::string> text =
      RenderOnce("{{ messages[0].content }}", broken, nullptr, false, nullptr);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "a\uFFFDb");
}

}  // namespace
}  // namespace firesteel
