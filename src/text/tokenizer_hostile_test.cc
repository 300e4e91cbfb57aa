// Broken files: each gives an error that names the file and the field, none a crash.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/json.h"
#include "base/mapped_file.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

class TokenizerHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tokenizer_hostile_test_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Json Minimal() {
    Json vocab = Json::object();
    for (int byte = 0; byte < 256; ++byte) vocab[SpellByte(static_cast<uint8_t>(byte))] = byte;
    vocab["ab"] = 256;
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
    return {{"added_tokens", {{{"id", 257}, {"content", "<|end|>"}, {"special", true}}}},
            {"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor", nullptr},
            {"decoder", byte_level},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}}}};
  }

  void Write(const std::string& name, const std::string& content) {
    const Status status = WriteFileAtomically((folder_ / name).string(), content);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Status Load() {
    auto tokenizer = Tokenizer::Load(folder_.string());
    if (tokenizer.ok()) {
      // What loads must also work.
      const std::string text = "ab <|end|> \xFF";
      EXPECT_FALSE((*tokenizer)->Encode(text, true).empty());
    }
    return tokenizer.status();
  }

  fs::path folder_;
};

TEST_F(TokenizerHostileTest, TheMinimalFileLoads) {
  Write("tokenizer.json", DumpJson(Minimal()));
  const Status status = Load();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(TokenizerHostileTest, MissingFileIsNotFound) {
  EXPECT_EQ(Load().code(), StatusCode::kNotFound);
  EXPECT_NE(Load().message().find("tokenizer.json"), std::string::npos);
}

TEST_F(TokenizerHostileTest, BrokenTokenizerFiles) {
  struct Case {
    StatusCode code;
    std::string field;  // the message holds it, beside the file's name
    std::function<void(Json&)> breaks;
  };
  constexpr StatusCode kCorrupt = StatusCode::kDataCorrupt;
  constexpr StatusCode kUnknown = StatusCode::kUnsupported;
  const auto split = [](const std::string& pattern, const std::string& behavior = "Isolated") {
    const Json rule = {{"type", "Split"},
                       {"pattern", {{"Regex", pattern}}},
                       {"behavior", behavior},
                       {"invert", false}};
    const Json byte_level = {{"type", "ByteLevel"}, {"use_regex", false}};
    return Json{{"type", "Sequence"}, {"pretokenizers", {rule, byte_level}}};
  };
  const auto post = [](const Json& single, const Json& tokens) {
    return Json{{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", tokens}};
  };
  const Json text = {{"Sequence", {{"id", "A"}}}};
  const Json bos = {{"SpecialToken", {{"id", "<s>"}}}};
  const std::vector<Case> cases = {
      {kCorrupt, "model is missing", [](Json& j) { j.erase("model"); }},
      {kCorrupt, "model is an array", [](Json& j) { j["model"] = Json::array(); }},
      {kUnknown, "model has type \"WordPiece\"", [](Json& j) { j["model"]["type"] = "WordPiece"; }},
      {kUnknown, "model has type \"Unigram\"", [](Json& j) { j["model"]["type"] = "Unigram"; }},
      {kCorrupt, "model.type is an integer", [](Json& j) { j["model"]["type"] = 5; }},
      {kCorrupt, "model.vocab is missing", [](Json& j) { j["model"].erase("vocab"); }},
      {kCorrupt, "model.vocab is an array", [](Json& j) { j["model"]["vocab"] = {1}; }},
      {kCorrupt, "model.vocab is empty", [](Json& j) { j["model"]["vocab"] = Json::object(); }},
      {kCorrupt, "model.vocab[\"ab\"] is -1", [](Json& j) { j["model"]["vocab"]["ab"] = -1; }},
      {kCorrupt, "model.vocab[\"ab\"] is 99999999999",
       [](Json& j) { j["model"]["vocab"]["ab"] = 99999999999; }},
      {kCorrupt, "model.vocab[\"ab\"] is a string",
       [](Json& j) { j["model"]["vocab"]["ab"] = "7"; }},
      {kCorrupt, "model.vocab[\"ab\"] is a number",
       [](Json& j) { j["model"]["vocab"]["ab"] = 7.5; }},
      {kCorrupt, "model.vocab gives id 97 to both",
       [](Json& j) { j["model"]["vocab"]["ab"] = 97; }},
      {kCorrupt, "model.vocab has no token for byte 0x41",
       [](Json& j) { j["model"]["vocab"].erase("A"); }},
      {kCorrupt, "model.merges is missing", [](Json& j) { j["model"]["merges"] = nullptr; }},
      {kCorrupt, "model.merges is a string", [](Json& j) { j["model"]["merges"] = "a b"; }},
      {kCorrupt, "model.merges[0] is \"ab\"", [](Json& j) { j["model"]["merges"] = {"ab"}; }},
      {kCorrupt, "model.merges[1] is \"a b c\"",
       [](Json& j) {
         j["model"]["merges"] = {"a b", "a b c"};
       }},
      {kCorrupt, "model.merges[0] has 3 elements",
       [](Json& j) {
         j["model"]["merges"] = {{"a", "b", "c"}};
       }},
      {kCorrupt, "model.merges[0][1] is null",
       [](Json& j) {
         j["model"]["merges"] = Json::array({Json::array({"a", nullptr})});
       }},
      {kCorrupt, "model.merges[0] is an integer", [](Json& j) { j["model"]["merges"] = {7}; }},
      {kCorrupt, "needs token \"zz\"", [](Json& j) { j["model"]["merges"] = {"z z"}; }},
      {kCorrupt, "needs token \"qq\"", [](Json& j) { j["model"]["merges"] = {"qq a"}; }},
      {kUnknown, "model.dropout is set", [](Json& j) { j["model"]["dropout"] = 0.1; }},
      {kUnknown, "end_of_word_suffix \"</w>\"",
       [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {kCorrupt, "model.ignore_merges is a string",
       [](Json& j) { j["model"]["ignore_merges"] = "yes"; }},
      {kCorrupt, "added_tokens is an object", [](Json& j) { j["added_tokens"] = Json::object(); }},
      {kCorrupt, "added_tokens[0] is a string", [](Json& j) { j["added_tokens"] = {"x"}; }},
      {kCorrupt, "added_tokens[0].id is missing",
       [](Json& j) { j["added_tokens"][0].erase("id"); }},
      {kCorrupt, "added_tokens[0].id is -5", [](Json& j) { j["added_tokens"][0]["id"] = -5; }},
      {kCorrupt, "added_tokens[0].content is empty",
       [](Json& j) { j["added_tokens"][0]["content"] = ""; }},
      {kCorrupt, "added_tokens[0].lstrip is an integer",
       [](Json& j) { j["added_tokens"][0]["lstrip"] = 1; }},
      {kCorrupt, "added_tokens[0] gives \"<|end|>\" id 5",
       [](Json& j) { j["added_tokens"][0]["id"] = 5; }},
      {kCorrupt, "added_tokens[0] gives \"ab\" id 257",
       [](Json& j) { j["added_tokens"][0]["content"] = "ab"; }},
      {kCorrupt, "added_tokens[1] repeats",
       [](Json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }},
      {kUnknown, "normalizer has type \"Lowercase\"",
       [](Json& j) {
         j["normalizer"] = {{"type", "Lowercase"}};
       }},
      {kUnknown, "normalizer.normalizers[0] has type \"NFKC\"",
       [](Json& j) {
         j["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}}}};
       }},
      {kCorrupt, "normalizer.type is missing", [](Json& j) { j["normalizer"] = Json::object(); }},
      {kCorrupt, "pre_tokenizer is missing", [](Json& j) { j["pre_tokenizer"] = nullptr; }},
      {kUnknown, "pre_tokenizer has type \"Metaspace\"",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}};
       }},
      {kUnknown, "pre_tokenizer.pretokenizers is empty",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
       }},
      {kUnknown, "pre_tokenizer ends in \"Split\"",
       [&](Json& j) { j["pre_tokenizer"] = split("a")["pretokenizers"][0]; }},
      {kUnknown, "pretokenizers[0].pattern.Regex holds \"&&\"",
       [&](Json& j) { j["pre_tokenizer"] = split("[a-z&&[b]]"); }},
      {kCorrupt, "pretokenizers[0].pattern.Regex does not compile",
       [&](Json& j) { j["pre_tokenizer"] = split("(a"); }},
      {kCorrupt, "pretokenizers[0].pattern.Regex does not compile",
       [&](Json& j) { j["pre_tokenizer"] = split(R"(\p{Klingon})"); }},
      {kUnknown, "pretokenizers[0] has behavior \"MergedWithNext\"",
       [&](Json& j) { j["pre_tokenizer"] = split("a", "MergedWithNext"); }},
      {kCorrupt, "pretokenizers[0].pattern holds no",
       [&](Json& j) {
         j["pre_tokenizer"] = split("a");
         j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = Json::object();
       }},
      {kCorrupt, "decoder is missing", [](Json& j) { j.erase("decoder"); }},
      {kUnknown, "decoder has type \"WordPiece\"",
       [](Json& j) {
         j["decoder"] = {{"type", "WordPiece"}};
       }},
      {kUnknown, "post_processor has type \"BertProcessing\"",
       [](Json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}};
       }},
      {kCorrupt, "\"<s>\", which special_tokens does not list",
       [&](Json& j) {
         j["post_processor"] = post({bos, text}, Json::object());
       }},
      {kCorrupt, "special_tokens.<s>.ids[0] is 999, which no token has",
       [&](Json& j) {
         j["post_processor"] = post({bos, text}, {{"<s>", {{"ids", {999}}}}});
       }},
      {kCorrupt, "post_processor.single holds no \"Sequence\"",
       [&](Json& j) { j["post_processor"] = post(Json::array(), Json::object()); }},
      {kCorrupt, "post_processor.single[1] is not expected",
       [&](Json& j) {
         j["post_processor"] = post({text, text}, Json::object());
       }},
  };
  for (const Case& test : cases) {
    Json file = Minimal();
    test.breaks(file);
    Write("tokenizer.json", DumpJson(file));
    const Status status = Load();
    EXPECT_EQ(status.code(), test.code) << test.field << ": " << status.message();
    EXPECT_NE(status.message().find(test.field), std::string::npos)
        << test.field << ": " << status.message();
    EXPECT_NE(status.message().find("tokenizer.json: "), std::string::npos) << status.message();
  }
}

TEST_F(TokenizerHostileTest, BytesThatAreNoJson) {
  const std::string whole = DumpJson(Minimal());
  for (size_t size = 0; size < whole.size(); size += 1 + size / 8) {
    Write("tokenizer.json", whole.substr(0, size));
    const Status status = Load();
    EXPECT_EQ(status.code(), StatusCode::kDataCorrupt);
    EXPECT_NE(status.message().find("tokenizer.json: not valid JSON"), std::string::npos)
        << status.message();
  }
  const std::string deep(200'000, '[');
  for (const std::string& bytes :
       {deep, std::string("[1]"), std::string("\xFF\xFE"), std::string("{\"a\": \"\xC3\"}"),
        std::string("{\"model\": \"\\ud800\"}")}) {
    Write("tokenizer.json", bytes);
    EXPECT_EQ(Load().code(), StatusCode::kDataCorrupt);
  }
}

TEST_F(TokenizerHostileTest, BrokenConfigFiles) {
  Write("tokenizer.json", DumpJson(Minimal()));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"eos_token": "<|nope|>"})",
       "eos_token is \"<|nope|>\", which tokenizer.json does not know"},
      {R"({"bos_token": {"content": "<s>"}})", "bos_token is \"<s>\""},
      {R"({"eos_token": 5})", "eos_token is a value of type number"},
      {R"({"eos_token": {"id": 5}})", "eos_token is an object without a string \"content\""},
      {R"({"chat_template": 5})", "chat_template is a value of type number"},
      {R"({"chat_template": ["x"]})", "chat_template[0] is not an object"},
      {R"({"chat_template": [{"name": "a"}]})", "chat_template[0] has no string \"template\""},
      {R"({"chat_template": [{"name": "a", "template": "x"}, {"name": "b", "template": "x"}]})",
       "names \"a\", \"b\""},
      {R"([])", "not a JSON object"},
      {R"({"eos_token": )", ""},
  };
  for (const auto& [content, complaint] : cases) {
    Write("tokenizer_config.json", content);
    const Status status = Load();
    EXPECT_FALSE(status.ok()) << content;
    EXPECT_NE(status.message().find("tokenizer_config.json"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find(complaint), std::string::npos) << status.message();
  }
  Write("tokenizer_config.json", R"({"eos_token": "<|end|>", "chat_template": "a"})");
  EXPECT_TRUE(Load().ok());
  Write("chat_template.jinja", "b{{ 1 }}");
  const auto tokenizer = Tokenizer::Load(folder_.string());
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->chat_template(), "b{{ 1 }}");
  Write("chat_template.jinja", "\xFF");
  EXPECT_NE(Load().message().find("chat_template.jinja: not valid UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace firesteel
