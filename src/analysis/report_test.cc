#include "analysis/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "analysis/golden_support.h"
#include "analysis/markdown.h"
#include "analysis/random_lengths.h"
#include "bench/statistics.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { golden_ = new Golden(Golden::FromSeedResults()); }
  static void TearDownTestSuite() { delete golden_; }
  static const Golden* golden_;
};
const Golden* ReportTest::golden_ = nullptr;

// What a document is made of, without its words.
std::string Shape(const Document& document) {
  std::string shape;
  const auto numbers = [&](const Table& table) {
    for (const Column& column : table.columns) shape += column.id + ",";
    for (const std::vector<Cell>& row : table.rows) {
      for (const Cell& cell : row) shape += cell.value ? CellText(cell) + "|" : "|";
    }
  };
  for (const Section& section : document.sections) {
    shape += "\n" + section.id + ": ";
    for (const Block& block : section.blocks) {
      shape += std::to_string(block.index());
      if (const auto* table = std::get_if<Table>(&block)) {
        shape += table->id;
        numbers(*table);
      } else if (const auto* chart = std::get_if<Chart>(&block)) {
        shape += chart->id + std::to_string(chart->series.size());
      } else if (const auto* finding = std::get_if<Finding>(&block)) {
        shape += finding->id + finding->rule;
        for (const Evidence& item : finding->evidence) shape += item.key + ",";
      } else if (const auto* advice = std::get_if<Advice>(&block)) {
        shape += advice->id;
      }
    }
  }
  return shape;
}

TEST_F(ReportTest, LanguagesHaveTheSameStructureAndNumbers) {
  const Document chinese = BuildReport(golden_->analysis, Language::kChinese);
  EXPECT_EQ(Shape(chinese), Shape(golden_->document));
  EXPECT_NE(chinese.title, golden_->document.title);
  EXPECT_THAT(RenderMarkdown(chinese), AllOf(HasSubstr("## 1. 摘要"), HasSubstr("建议")));
}

TEST_F(ReportTest, EqualResultsGiveEqualReports) {
  const Golden again = Golden::FromSeedResults();
  EXPECT_EQ(RenderMarkdown(again.document), RenderMarkdown(golden_->document));
}

// Of both languages every text exists, and asks for the same arguments.
TEST_F(ReportTest, TheTableOfTexts) {
  std::set<std::string> keys;
  for (const StringRow& row : StringTable()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    const std::string english = row.english, chinese = row.chinese;
    EXPECT_FALSE(english.empty()) << row.key;
    EXPECT_FALSE(chinese.empty()) << row.key;
    for (int i = 0; i < 8; ++i) {
      const std::string place = "{" + std::to_string(i) + "}";
      EXPECT_EQ(english.find(place) == std::string::npos, chinese.find(place) == std::string::npos)
          << row.key << " " << place;
    }
  }
  for (const std::string& key : keys) {
    if (!key.starts_with("rule.")) continue;
    EXPECT_TRUE(keys.contains("meaning." + key.substr(5))) << key;
  }
}

TEST_F(ReportTest, SectionsInOrder) {
  std::vector<std::string> ids;
  for (const Section& section : golden_->document.sections) ids.push_back(section.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"summary", "environment", "workload", "core", "winners",
                                           "speculation", "pivots", "anomalies", "advice", "claims",
                                           "limits"}));
}

TEST_F(ReportTest, IdsAreUniqueAndReferencesLead) {
  std::set<std::string> ids;
  const auto check = [&](const SourceRefs& sources) {
    for (const int32_t source : sources) {
      ASSERT_GE(source, 0);
      ASSERT_LT(static_cast<size_t>(source), golden_->document.sources.size());
    }
  };
  for (const Section& section : golden_->document.sections) {
    for (const Block& block : section.blocks) {
      if (const auto* table = std::get_if<Table>(&block)) {
        EXPECT_TRUE(ids.insert(table->id).second) << table->id;
        for (const std::vector<Cell>& row : table->rows) {
          EXPECT_EQ(row.size(), table->columns.size()) << table->id;
          for (const Cell& cell : row) check(cell.sources);
        }
      } else if (const auto* chart = std::get_if<Chart>(&block)) {
        EXPECT_TRUE(ids.insert(chart->id).second) << chart->id;
        for (const Series& series : chart->series) {
          for (const Point& point : series.points) check(point.sources);
        }
      }
    }
  }
  std::set<std::string> findings;
  for (const Finding* finding : FindingsOf(golden_->document)) {
    findings.insert(finding->id);
    EXPECT_FALSE(finding->sources.empty() && finding->rule != "NO_BASELINE") << finding->id;
  }
  std::set<std::string> names;
  for (const Source& source : golden_->document.sources)
    EXPECT_TRUE(names.insert(source.id).second) << source.id;
}

// The measured figures of the tables themselves are named with the run they come from.
TEST_F(ReportTest, CoreFiguresNameTheirRun) {
  const Cell* cell = golden_->At(
      "core", "C", {{"scenario", "chat_short"}, {"concurrency", "1"}, {"configuration", "EAGLE"}},
      "p99_tpot_ms");
  ASSERT_NE(cell, nullptr);
  EXPECT_EQ(CellText(*cell), "19.74");
  ASSERT_EQ(cell->sources.size(), 1u);
  const Source& source = golden_->document.sources[cell->sources[0]];
  EXPECT_EQ(source.id, "C002");
  EXPECT_THAT(source.file, HasSubstr("dspark-vs-eagle-comparison.json"));
}

TEST_F(ReportTest, ChartsThatTheDataAllows) {
  const auto series = [&](const std::string& id) {
    const Chart* chart = FindChart(golden_->document, id);
    EXPECT_NE(chart, nullptr) << id;
    return chart == nullptr ? size_t{0} : chart->series.size();
  };
  const std::string b = "-deepseek-v4-inference-evaluation", c = "-dspark-vs-eagle-comparison";
  EXPECT_EQ(series("throughput-output_throughput-sharegpt_256" + b), 7u);  // six and the ideal
  EXPECT_GE(series("latency-ttft-chat_short" + c), 2u);
  EXPECT_EQ(series("speedup-map" + b), 1u);
  EXPECT_GE(series("configurations" + c), 3u);
  EXPECT_GE(series("budget-sharegpt_256" + b), 6u);
  // Published points: 54.1 tok/s per user at 398.9 tok/s per GPU.
  const Chart* pareto = FindChart(golden_->document, "pareto-chat_short" + c);
  ASSERT_NE(pareto, nullptr);
  bool found = false;
  for (const Series& one : pareto->series) {
    for (const Point& point : one.points)
      found |= std::abs(point.x - 54.14) < 0.01 && std::abs(point.y - 398.9) < 0.1;
  }
  EXPECT_TRUE(found);
}

TEST_F(ReportTest, Markdown) {
  const std::string text = RenderMarkdown(golden_->document);
  EXPECT_THAT(text, AllOf(HasSubstr("# Benchmark report"), HasSubstr("| 301.18 |"),
                          HasSubstr("| 3.09 |"), HasSubstr("#### P0 A1")));
  EXPECT_THAT(text, Not(HasSubstr("{0}")));
  EXPECT_THAT(text, Not(HasSubstr("@metric")));
}

// Names come from files that anybody may have written.
TEST(Markdown, NothingInANameIsMarkup) {
  Document document;
  document.title = "a<b> | *c*";
  Table table{.id = "t", .title = "`x`", .columns = {{.id = "n", .title = "n"}}, .rows = {}};
  Cell cell;
  cell.text = "<script>|[x](y)\n_z_";
  table.rows = {{cell}};
  document.sections.push_back({.id = "s", .title = "s", .blocks = {table}});
  const std::string text = RenderMarkdown(document);
  EXPECT_THAT(text, HasSubstr("| \\<script>\\|\\[x\\](y) \\_z\\_ |"));
  EXPECT_THAT(text, HasSubstr("# a\\<b> \\| \\*c\\*"));
}

TEST(Markdown, Emphasis) {
  Document document;
  Table table{.id = "t", .title = "t", .columns = {{.id = "n", .title = "n"}}, .rows = {}};
  for (const Emphasis emphasis : {Emphasis::kBest, Emphasis::kVoid, Emphasis::kTie}) {
    Cell cell;
    cell.value = 1.5;
    cell.decimals = 1;
    cell.emphasis = emphasis;
    table.rows.push_back({cell});
  }
  table.rows[0][0].low = 1.25;
  table.rows[0][0].high = 1.75;
  document.sections.push_back({.id = "s", .title = "s", .blocks = {table}});
  EXPECT_THAT(RenderMarkdown(document), AllOf(HasSubstr("| **1.5** ±0.2 |"),
                                              HasSubstr("| ~~1.5~~ |"), HasSubstr("| 1.5 ≈ |")));
}

// Two checks that the published oracle asks for.
TEST(Oracle, LegacyIntegersAndPercentiles) {
  EXPECT_EQ(LegacyIntegers(42).Draw(0, 100, 5), (std::vector<int64_t>{51, 92, 14, 71, 60}));
  EXPECT_EQ(LegacyIntegers(42).Draw(7, 8, 2), (std::vector<int64_t>{7, 7}));
  std::vector<double> values;
  for (int i = 1; i <= 32; ++i) values.push_back(i);
  EXPECT_NEAR(Percentile(values, 99), 31.69, 1e-9);
}

TEST(Oracle, RecoveredWorkloads) {
  int checked = 0;
  const Json oracle = ReadSeedJson("recovered-workloads.json");
  for (const Json& workload : oracle["workloads"]) {
    RunWork work;
    work.dataset = "random";
    work.max_input = workload["max_input_len"].get<int64_t>();
    work.max_output = workload["max_output_len"].get<int64_t>();
    work.prompts = workload["num_prompts"].get<int64_t>();
    work.input_tokens = workload["total_input_tokens"].get<int64_t>();
    work.output_tokens = workload["total_output_tokens"].get<int64_t>();
    const auto lengths = ReproduceLengths(work);  // the seed is found
    ASSERT_TRUE(lengths);
    EXPECT_EQ(lengths->seed, 42u);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(lengths->input[i], workload["first_input_lens"][i].get<int64_t>());
      EXPECT_EQ(lengths->output[i], workload["first_output_lens"][i].get<int64_t>());
    }
    EXPECT_NEAR(lengths->OutputSpread(), workload["p99_over_mean_output_len"].get<double>(), 1e-12);
    work.output_tokens = *work.output_tokens + 1;
    EXPECT_FALSE(ReproduceLengths(work));
    ++checked;
  }
  EXPECT_EQ(checked, 18);
}

}  // namespace
}  // namespace firesteel
