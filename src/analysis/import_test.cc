#include "analysis/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "analysis/export.h"
#include "analysis/golden_support.h"
#include "analysis/json_values.h"
#include "base/mapped_file.h"
#include "bench/run_result.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("import_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = dir_ / name;
    std::filesystem::create_directories(path.parent_path());
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }
  Result<Results> Import(const std::string& name, const std::string& text) {
    return ImportResults({Write(name, text)});
  }
  std::string Error(const std::string& text) {
    const Result<Results> results = Import("x.json", text);
    return results.ok() ? "no error" : results.status().message();
  }

  std::filesystem::path dir_;
};

constexpr char kVllm[] =
    R"({"endpoint_type": "openai", "label": "ours-st3", "max_concurrency": 8, "completed": 10,
        "total_input_tokens": 100, "total_output_tokens": 200, "request_throughput": 1.5,
        "output_throughput": 30.25, "total_token_throughput": 45.5, "mean_ttft_ms": 12.5,
        "p99_ttft_ms": 20.0, "mean_e2el_ms": 100.0, "extra_key": [1]})";

TEST_F(ImportTest, Vllm) {
  const auto results = Import("x.json", std::string("\xEF\xBB\xBF") + kVllm);
  ASSERT_TRUE(results.ok()) << results.status().message();
  ASSERT_EQ(results->runs.size(), 1u);
  const auto& run = results->runs[0];
  EXPECT_EQ(run.configuration.name, "ours-st3");
  EXPECT_EQ(run.configuration.spec_tokens, 3);
  EXPECT_EQ(run.concurrency, 8);
  EXPECT_EQ(run.measures.Get(Metric::kTotalThroughput), 45.5);
  EXPECT_EQ(run.measures.Get(Metric::kMeanE2e), 100.0);
  EXPECT_FALSE(run.measures.Has(Metric::kMeanTpot));
  EXPECT_EQ(run.work.MeanOutput(), 20.0);
  EXPECT_TRUE(run.raw.contains("extra_key"));
  EXPECT_THAT(results->log, ::testing::Contains(HasSubstr("-st3")));
}

TEST_F(ImportTest, ObjectsInEveryArrangement) {
  const std::string one = kVllm;
  std::string other = kVllm;
  other.replace(other.find("30.25"), 5, "31.25");
  for (const std::string& text :
       {one + "\n" + other, one + other, "[" + one + ",\n" + other + "]\n"}) {
    const auto results = Import("x.json", text);
    ASSERT_TRUE(results.ok()) << results.status().message();
    EXPECT_EQ(results->runs.size(), 2u);
    EXPECT_GT(results->runs[1].origins[0].line, 0);
    EXPECT_EQ(results->runs[1].repeat, 2);
  }
}

TEST_F(ImportTest, SglangWithInfinity) {
  const auto results =
      Import("x.jsonl",
             R"({"tag": "mine/chat/fast-st5", "backend": "sglang", "dataset_name": "random",
          "request_rate": Infinity, "max_concurrency": 4, "random_input_len": 100,
          "random_output_len": 50, "random_range_ratio": 0.0, "completed": 32,
          "total_throughput": 100.0, "output_throughput": 40.0, "mean_e2e_latency_ms": 5.0})");
  ASSERT_TRUE(results.ok()) << results.status().message();
  const auto& run = results->runs[0];
  EXPECT_EQ(run.campaign, "mine");
  EXPECT_EQ(run.scenario, "chat");
  EXPECT_EQ(run.configuration.name, "fast-st5");
  EXPECT_EQ(run.work.max_output, 50);
  EXPECT_THAT(ExportSglang(*results), HasSubstr("\"request_rate\":Infinity"));
  EXPECT_THAT(ExportSglang(*results, /*strict=*/true), HasSubstr("\"request_rate\":\"Infinity\""));
}

TEST_F(ImportTest, NotANumberMakesARunVoid) {
  std::string text = kVllm;
  text.replace(text.find("12.5"), 4, "NaN");
  const auto results = Import("x.json", text);
  ASSERT_TRUE(results.ok()) << results.status().message();
  ASSERT_FALSE(results->runs[0].valid());
  EXPECT_THAT(results->runs[0].void_reasons[0], HasSubstr("mean_ttft_ms"));
  EXPECT_FALSE(results->runs[0].measures.Has(Metric::kMeanTtft));
}

TEST_F(ImportTest, DetailsAreComputedAgain) {
  std::string text = kVllm;
  text.insert(text.size() - 1, R"(, "ttfts": [0.010, 0.020, 0], "output_lens": [3, 1, 0],
                                   "itls": [[0.004, 0.006], [], []])");
  const auto results = Import("x.json", text);
  ASSERT_TRUE(results.ok()) << results.status().message();
  const auto& run = results->runs[0];
  EXPECT_EQ(run.samples.ttft.size(), 2u);  // a request without a token has none
  ASSERT_EQ(run.samples.tpot.size(), 1u);
  EXPECT_NEAR(run.samples.tpot[0], 5, 1e-9);
  // The file says 12.5 ms, its requests 15.
  EXPECT_THAT(run.notes, ::testing::Contains(HasSubstr("mean_ttft_ms is 12.50")));
}

TEST_F(ImportTest, OwnCellsAndSummary) {
  Write("out/cells/dspark-c8-r1.json",
        R"({"configuration": "dspark", "repeat": 1, "spec_method": "dspark", "spec_tokens": 5,
            "model_id": "demo", "max_concurrency": 8, "num_prompts": 2, "completed": 2,
            "failed": 0, "output_count_basis": "usage", "itl_basis": "token_ids",
            "total_input_tokens": 20, "total_output_tokens": 30, "output_throughput": 99.5,
            "spec_decode_acceptance_rate": 0.5, "spec_decode_num_drafts": 10,
            "spec_decode_draft_tokens": 50, "spec_decode_accepted_tokens": 25,
            "spec_decode_per_position_acceptance_rates": [0.8, 0.7],
            "target_step_bytes": 100, "draft_pass_bytes": 10, "ballast_bytes": 5,
            "requests": [{"error": "", "ttft": 0.01, "e2el": 0.05, "output_len": 15}]})");
  Write("out/summary.json", R"([{"model": "demo", "method": "dspark", "concurrency": 8,
      "spec_tokens": 5, "output_tokens_per_s": 99.5, "ids_equal": false}])");
  const auto results = ImportResults({(dir_ / "out").string()});
  ASSERT_TRUE(results.ok()) << results.status().message();
  ASSERT_EQ(results->runs.size(), 1u);  // the summary repeats the cells
  const auto& run = results->runs[0];
  EXPECT_EQ(run.measures.Get(Metric::kAcceptRate), 50);
  EXPECT_EQ(run.measures.Get(Metric::kAcceptLength), 3.5);
  EXPECT_EQ(run.tokens_per_draft, 5);
  EXPECT_EQ(run.step_cost_share, 0.1);
  EXPECT_TRUE(run.ballast);
  EXPECT_EQ(run.samples.e2e, std::vector<double>{50});

  const auto summary = ImportResults({(dir_ / "out/summary.json").string()});
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_EQ(summary->runs[0].configuration.method, "dspark");
  EXPECT_FALSE(summary->runs[0].valid());  // outputs differ
}

TEST_F(ImportTest, OwnRunResult) {
  RunResult result;
  result.id = "20261201-abc";
  result.model = "demo";
  result.load.max_concurrency = 16;
  result.workload.fingerprint = "f1";
  result.counts.requests = 4;
  result.counts.completed = 3;
  result.counts.failed = 1;
  result.whole.completed = 3;
  result.whole.input_tokens = 30;
  result.whole.output_tokens = 60;
  result.whole.output_tokens_per_s = 120.5;
  result.whole.metrics["ttft_ms"] = Summarize({10, 20, 30});
  RunSpeculation& speculation = result.speculation.emplace();
  speculation.acceptance_length = 2.5;
  speculation.acceptance_rate = 0.3;
  result.metadata["scenario"] = "chat";
  result.findings.push_back({"FAILURES", FindingSeverity::kVoid, "1 of 4 requests failed"});
  const Json json{{"configuration", "dspark"},
                  {"spec_method", "dspark"},
                  {"spec_tokens", 5},
                  {"run", RunResultJson(result)}};
  const auto results = Import("x.json", DumpJson(json, 1));
  ASSERT_TRUE(results.ok()) << results.status().message();
  const auto& run = results->runs[0];
  EXPECT_EQ(run.id, "20261201-abc");
  EXPECT_EQ(run.scenario, "chat");
  EXPECT_EQ(run.configuration.name, "dspark");
  EXPECT_EQ(run.configuration.spec_tokens, 5);
  EXPECT_EQ(run.concurrency, 16);
  EXPECT_EQ(run.measures.Get(Metric::kOutputThroughput), 120.5);
  EXPECT_EQ(run.measures.Get(Metric::kMeanTtft), 20);
  EXPECT_EQ(run.measures.Get(Metric::kAcceptRate), 30);
  EXPECT_FALSE(run.measures.Has(Metric::kMeanE2e));
  EXPECT_EQ(run.work.fingerprint, "f1");
  EXPECT_THAT(run.void_reasons, ::testing::Contains("1 of 4 requests failed"));
  // The bare result reads the same; a damaged one names the field.
  EXPECT_TRUE(Import("y.json", DumpJson(json["run"])).ok());
  Json damaged = json;
  damaged["run"]["whole"]["completed"] = "many";
  EXPECT_THAT(Error(DumpJson(damaged)), AllOf(HasSubstr("x.json"), HasSubstr("completed")));
}

TEST_F(ImportTest, DamagedFiles) {
  EXPECT_THAT(Error(""), HasSubstr("holds no result"));
  EXPECT_THAT(Error("{}"), AllOf(HasSubstr("x.json"), HasSubstr("holds no result")));
  EXPECT_THAT(Error("hello"), AllOf(HasSubstr("x.json:1"), HasSubstr("expected a JSON object")));
  EXPECT_THAT(Error(std::string(kVllm).substr(0, 120)),
              AllOf(HasSubstr("x.json:1"), HasSubstr("cut short")));
  EXPECT_THAT(Error("[" + std::string(kVllm)), HasSubstr("cut short"));
  EXPECT_THAT(Error(std::string(kVllm) + "\n}"), HasSubstr("x.json:5"));
  EXPECT_THAT(Error(R"({"endpoint_type": "openai", "mean_ttft_ms": "fast"})"),
              HasSubstr("mean_ttft_ms is \"fast\", expected a number"));
  EXPECT_THAT(Error(R"({"endpoint_type": "openai", "max_concurrency": 1.5})"),
              HasSubstr("max_concurrency is 1.5, expected an integer"));
  EXPECT_THAT(Error(R"({"endpoint_type": "openai", "max_concurrency": -1})"),
              HasSubstr("max_concurrency is -1"));
  EXPECT_THAT(Error(R"({"schema": "seed-report/1"})"), HasSubstr("rows is missing"));
  EXPECT_THAT(Error(R"({"schema": "seed-report/1", "rows": [{"row_id": "A001"}]})"),
              AllOf(HasSubstr("row A001"), HasSubstr("has no metrics")));
  EXPECT_THAT(Error(std::string(1000, '[')), HasSubstr("x.json:1"));
  std::string deep = R"({"endpoint_type": "openai", "extra": )" + std::string(300, '[') +
                     std::string(300, ']') + "}";
  EXPECT_THAT(Error(deep), HasSubstr("nested deeper"));
  EXPECT_THAT(ImportResults({"/nowhere/x.json"}).status().message(), HasSubstr("/nowhere/x.json"));
  std::filesystem::create_directories(dir_ / "empty");
  EXPECT_THAT(ImportResults({(dir_ / "empty").string()}).status().message(),
              HasSubstr("holds no file named"));
}

// Whatever is cut off or changed: an error or a result, never an end of the process.
TEST_F(ImportTest, EveryPrefixAndEveryChangedByte) {
  const std::string text = std::string(kVllm) + "\n" + kVllm;
  for (size_t i = 0; i < text.size(); ++i) {
    Results prefix, changed;
    bool recognized = false;
    (void)ImportText(text.substr(0, i), "x", &prefix, &recognized).ok();
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 0x15);
    (void)ImportText(other, "x", &changed, &recognized).ok();
  }
}

TEST_F(ImportTest, ExportOfAnImportIsTheSame) {
  const std::string dir = Golden::SeedDirectory();
  for (const std::string name :
       {"dspark-vs-eagle-comparison.sglang.jsonl", "deepseek-v4-inference-evaluation.vllm.jsonl"}) {
    const auto original = ReadFile(dir + "/" + name);
    const auto results = ImportResults({dir + "/" + name});
    ASSERT_TRUE(results.ok());
    const bool sglang = name.find("sglang") != std::string::npos;
    const auto before = ParseJsonValues(*original, name);
    const auto after =
        ParseJsonValues(sglang ? ExportSglang(*results) : ExportVllm(*results), name);
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->size(), after->size());
    for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ((*before)[i].value, (*after)[i].value);
  }
}

TEST_F(ImportTest, EveryFormatOfExportIsRead) {
  const auto tables = ImportResults({Golden::SeedDirectory()});
  ASSERT_TRUE(tables.ok());
  for (const auto& [name, text] :
       {std::pair("a.jsonl", ExportSglang(*tables)), std::pair("b.json", ExportVllm(*tables))}) {
    const auto again = Import(name, text);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->runs.size(), 74u) << name;
  }
  const std::string csv = ExportCsv(*tables);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 75);
  EXPECT_THAT(csv, HasSubstr("C001,dspark-vs-eagle-comparison,chat_short,DSpark-st5"));
  EXPECT_TRUE(ParseJson(ExportJson(*tables), "json").ok());
}

}  // namespace
}  // namespace firesteel
