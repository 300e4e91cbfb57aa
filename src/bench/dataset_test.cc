#include "bench/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/mapped_file.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest()
      : dir_(std::filesystem::temp_directory_path() /
             ("dataset_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(dir_);
    auto tokenizer = Tokenizer::Load(FIRESTEEL_SOURCE_DIR "/models/demo/target");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_ = *std::move(tokenizer);
  }
  ~DatasetTest() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = (dir_ / name).string();
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }
  Dataset Make(const DatasetOptions& options) const {
    auto dataset = MakeDataset(options, tokenizer_.get());
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return dataset.ok() ? *std::move(dataset) : Dataset();
  }
  int32_t Count(const std::string& text) const {
    return static_cast<int32_t>(tokenizer_->Encode(text, true).size());
  }
  // A ShareGPT file from the demo prompts: the text in two halves, question and answer.
  std::string ShareGpt() const {
    const auto rows = ReadPrompts(FIRESTEEL_SOURCE_DIR "/models/demo/prompts.jsonl");
    EXPECT_TRUE(rows.ok()) << rows.status().message();
    Json list = Json::array();
    const auto add = [&](const std::string& id, const std::vector<std::string>& texts) {
      Json conversation = Json::array();
      for (const std::string& text : texts) {
        Json entry;
        entry["from"] = conversation.size() % 2 == 0 ? "human" : "gpt";
        entry["value"] = text;
        conversation.push_back(std::move(entry));
      }
      Json object;
      object["id"] = id;
      object["conversations"] = std::move(conversation);
      list.push_back(std::move(object));
    };
    for (const Prompt& row : *rows) {
      size_t half = row.text.find(' ', row.text.size() / 2);
      if (half == std::string::npos) half = row.text.size() / 2;
      add(row.id, {row.text.substr(0, half), row.text.substr(half)});
    }
    add("alone", {"hm"});
    add("tiny", {"a", "b"});
    return Write("sharegpt.json", DumpJson(list));
  }

  std::filesystem::path dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(DatasetTest, ShareGptByBothFilters) {
  DatasetOptions options;
  options.name = "sharegpt";
  options.path = ShareGpt();
  options.num_prompts = 50;
  const Dataset vllm = Make(options);
  options.dialect = Dialect::kSglang;
  options.seed = 0;
  const Dataset sglang = Make(options);
  ASSERT_EQ(vllm.prompts.size(), 50u);
  ASSERT_EQ(sglang.prompts.size(), 50u);
  EXPECT_THAT(vllm.rule, HasSubstr("vLLM's filter"));
  EXPECT_THAT(sglang.rule, HasSubstr("SGLang's filter"));
  for (const Prompt& p : vllm.prompts) {
    EXPECT_EQ(*p.prompt_tokens, Count(p.text));
    EXPECT_GE(*p.prompt_tokens, 4);
    EXPECT_LE(*p.prompt_tokens + p.output_tokens, 2048);
    EXPECT_GE(p.output_tokens, 4);
  }
  EXPECT_FALSE(vllm.warmups.empty());
  std::set<std::string> measured;
  for (const Prompt& p : vllm.prompts) measured.insert(p.text);
  for (const Prompt& p : vllm.warmups) EXPECT_FALSE(measured.contains(p.text));

  options.sharegpt_output_len = 33;
  for (const Prompt& p : Make(options).prompts) EXPECT_EQ(p.output_tokens, 33);
  options.num_prompts = 1000;
  const auto few = MakeDataset(options, tokenizer_.get());
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(few.status().message(), HasSubstr("--oversample"));
  options.oversample = true;
  EXPECT_EQ(Make(options).prompts.size(), 1000u);
}

TEST_F(DatasetTest, SglangsRandomLengths) {
  DatasetOptions options;
  options.name = "random";
  options.dialect = Dialect::kSglang;
  options.path = ShareGpt();
  options.num_prompts = 5;
  options.input_len = 1000;
  options.output_len = 256;
  const Dataset dataset = Make(options);
  EXPECT_EQ(dataset.seed, 42u);
  EXPECT_EQ(dataset.synthetic_text, "cyclic");
  // Checked with numpy: randint(1, 1001, 5), then randint(1, 257, 5), seed 42.
  const int32_t kOutput[] = {72, 189, 21, 103, 122};
  const int32_t kInput[] = {103, 436, 861, 271, 107};
  ASSERT_EQ(dataset.prompts.size(), 5u);
  options.send_ids = true;
  const Dataset ids = Make(options);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(dataset.prompts[i].output_tokens, kOutput[i]);
    EXPECT_EQ(ids.prompts[i].token_ids.size(), static_cast<size_t>(kInput[i]));
    EXPECT_EQ(dataset.prompts[i].prompt_tokens, Count(dataset.prompts[i].text));
  }
  options.range_ratio = 1;
  for (const Prompt& p : Make(options).prompts) EXPECT_EQ(p.output_tokens, 256);
  options.path = "";
  EXPECT_THAT(MakeDataset(options, tokenizer_.get()).status().message(), HasSubstr("random-ids"));
}

TEST_F(DatasetTest, VllmsRandomLengths) {
  DatasetOptions options;
  options.name = "random";
  options.num_prompts = 200;
  options.input_len = 40;
  options.output_len = 10;
  const Dataset fixed = Make(options);
  EXPECT_EQ(fixed.synthetic_text, "noise");
  size_t exact = 0;
  for (const Prompt& p : fixed.prompts) {
    EXPECT_EQ(p.output_tokens, 10);
    EXPECT_EQ(*p.prompt_tokens, Count(p.text));
    exact += *p.prompt_tokens == 40;
  }
  EXPECT_GE(exact, 198u);
  options.range_ratio = 0.5;
  std::set<int32_t> outputs;
  for (const Prompt& p : Make(options).prompts) outputs.insert(p.output_tokens);
  EXPECT_EQ(*outputs.begin(), 5);
  EXPECT_EQ(*outputs.rbegin(), 15);
  options.send_ids = true;
  options.prefix_len = 8;
  const Dataset ids = Make(options);
  for (const Prompt& p : ids.prompts) {
    EXPECT_TRUE(
        std::equal(p.token_ids.begin(), p.token_ids.begin() + 8, ids.prompts[0].token_ids.begin()));
    EXPECT_GE(p.token_ids.size(), 28u);
    EXPECT_LE(p.token_ids.size(), 68u);
  }
  EXPECT_EQ(WorkloadFingerprint(ids.prompts, {}), WorkloadFingerprint(Make(options).prompts, {}));
  options.seed = 1;
  EXPECT_NE(WorkloadFingerprint(ids.prompts, {}), WorkloadFingerprint(Make(options).prompts, {}));
}

TEST_F(DatasetTest, NaturalTextIsCutWithoutRepetition) {
  DatasetOptions options;
  options.name = "random";
  options.path = FIRESTEEL_SOURCE_DIR "/models/demo/prompts.jsonl";
  options.num_prompts = 20;
  options.input_len = 64;
  const Dataset dataset = Make(options);
  EXPECT_EQ(dataset.synthetic_text, "");
  std::set<std::string> texts;
  size_t exact = 0;
  for (const Prompt& p : dataset.prompts) {
    texts.insert(p.text);
    exact += *p.prompt_tokens == 64;
  }
  EXPECT_EQ(texts.size(), 20u);
  EXPECT_GE(exact, 19u);
  options.num_prompts = 100'000;
  EXPECT_THAT(MakeDataset(options, tokenizer_.get()).status().message(),
              HasSubstr("without repetition"));
}

TEST_F(DatasetTest, GroupsShareTheirPrefix) {
  DatasetOptions options;
  options.name = "generated-shared-prefix";
  options.num_groups = 3;
  options.prompts_per_group = 4;
  options.system_len = 50;
  options.question_len = 10;
  options.output_len = 7;
  const Dataset dataset = Make(options);
  ASSERT_EQ(dataset.prompts.size(), 12u);
  std::map<std::string, std::set<std::string>> prefixes;
  std::set<std::string> texts;
  for (const Prompt& p : dataset.prompts) {
    prefixes[p.kind].insert(p.text.substr(0, p.text.find("\n\n")));
    texts.insert(p.text);
    EXPECT_EQ(p.output_tokens, 7);
    EXPECT_NEAR(*p.prompt_tokens, 61, 3);
  }
  EXPECT_EQ(texts.size(), 12u);
  EXPECT_EQ(prefixes.size(), 3u);
  options.ordered = true;
  EXPECT_EQ(Make(options).prompts[4].kind, "group 1");
  EXPECT_NE(dataset.prompts[0].id + dataset.prompts[1].id + dataset.prompts[2].id, "0.00.10.2");
}

TEST_F(DatasetTest, TracesGiveTimesAndEqualBlocks) {
  DatasetOptions options;
  options.name = "mooncake";
  options.trace_block_tokens = 4;
  options.trace_slowdown = 2;
  options.path =
      Write("trace.jsonl",
            "{\"timestamp\":30,\"input_length\":6,\"output_length\":3,\"hash_ids\":[1,2]}\n"
            "{\"timestamp\":10,\"input_length\":8,\"output_length\":2,\"hash_ids\":[1,9]}\n");
  const Dataset dataset = Make(options);
  ASSERT_EQ(dataset.prompts.size(), 2u);
  EXPECT_EQ(dataset.prompts[0].timestamp_ms, 20);
  EXPECT_EQ(dataset.prompts[1].timestamp_ms, 60);
  const auto& a = dataset.prompts[0].token_ids;
  const auto& b = dataset.prompts[1].token_ids;
  EXPECT_EQ(a.size(), 8u);
  EXPECT_EQ(b.size(), 6u);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 4, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 4, a.begin() + 6, b.begin() + 4));
}

TEST_F(DatasetTest, FaultsAreNamed) {
  const std::string object = Write("object.json", "{}");
  const std::string bad = Write("bad.json", R"([{"conversations":[{"value":1},{"value":"b"}]}])");
  const std::string none = Write("none.json", R"([{"conversations":[]}])");
  const std::string trace = Write("bad.jsonl", R"({"timestamp":1,"output_length":3})");
  const struct {
    const char* name;
    std::string path;
    const char* message;
  } kCases[] = {
      {"sharegpt", "", "--dataset-path is missing"},
      {"sharegpt", object, "is not a list of conversations"},
      {"sharegpt", bad, "entry 0: its first two entries have no value"},
      {"sharegpt", none, "holds no conversation of two entries"},
      {"mooncake", trace, "line 1: input_length"},
      {"jsonl", "", "--dataset-path is missing"},
  };
  for (const auto& c : kCases) {
    DatasetOptions options;
    options.name = c.name;
    options.path = c.path;
    const auto dataset = MakeDataset(options, tokenizer_.get());
    ASSERT_FALSE(dataset.ok()) << c.message;
    EXPECT_THAT(dataset.status().message(), HasSubstr(c.message));
  }
  DatasetOptions random;
  random.name = "random";
  EXPECT_THAT(MakeDataset(random, nullptr).status().message(), HasSubstr("--tokenizer DIR"));
}

}  // namespace
}  // namespace firesteel
