#include "report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "report/html_internal.h"
#include "report/test_document.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

// Without the library's megabyte, which std::regex does not like.
std::string Plain(Language language = Language::kEnglish) {
  return RenderPage(TestDocument(language), "");
}

TEST(HtmlReportTest, EveryLinkHasItsPlaceAndEveryPlaceOneName) {
  const std::string page = Plain();
  const std::vector<std::string> ids = Matches(page, " id=\"([^\"]*)\"");
  const std::set<std::string> unique(ids.begin(), ids.end());
  EXPECT_EQ(ids.size(), unique.size());
  const std::vector<std::string> links = Matches(page, " href=\"#([^\"]*)\"");
  EXPECT_GT(links.size(), 300u);
  for (const std::string& link : links) EXPECT_TRUE(unique.contains(link)) << link;
}

TEST(HtmlReportTest, FiguresKeepTheirFullValueAndNameTheirRun) {
  const std::string page = Plain();
  // dspark at c=1: R28 is the first of its nine.
  EXPECT_THAT(page, HasSubstr("<td class=\"num best\" data-v=\"231.14"));
  EXPECT_THAT(page, HasSubstr("<a class=\"run\" href=\"#run-R28\" title=\"run R28\">231.14</a>"));
  EXPECT_THAT(page, HasSubstr("<tr id=\"run-R28\"><td>R28</td><td>demo</td><td>chat_short</td>"
                              "<td>dspark</td><td class=\"num\">1</td><td><code>out/demo/runs/"
                              "dspark-c1.run.json</code></td></tr>"));
  EXPECT_THAT(page, HasSubstr("<a class=\"run\" href=\"#run-R29\" title=\"run R29, R2\">1.92</a>"));
}

TEST(HtmlReportTest, TextOfStrangersStaysText) {
  const std::string page = Plain();
  for (const char* planted :
       {"<script>throw", "<img", "<b>Text", "<i>", "<!--", "onload=\"alert", "</script>{a"}) {
    EXPECT_THAT(page, Not(HasSubstr(planted)));
  }
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;Text&lt;/b&gt; &amp; &quot;quotes&quot;"));
  // Also in the data of charts, where a page with the library has it.
  const std::string drawn = RenderPage(TestDocument(Language::kEnglish), "/* library */");
  EXPECT_THAT(drawn, HasSubstr("\\u003c/script>\\u003cscript>throw 3\\u003c/script>"));
  EXPECT_THAT(drawn, Not(HasSubstr("<script>throw")));
}

TEST(HtmlReportTest, NothingIsLoaded) {
  const std::string page = RenderPage(TestDocument(Language::kEnglish), "/* library */");
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* reference :
       {"<script src", "<img", "<iframe", "href=\"http", "url(", "@import", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  }
}

TEST(HtmlReportTest, WithoutTheLibraryChartsAreTables) {
  const std::string page = Plain();
  EXPECT_THAT(page, HasSubstr("This build carries no charting library"));
  EXPECT_THAT(page, Not(HasSubstr("class=\"chart\"")));
  EXPECT_EQ(Matches(page, "(<details open>)").size(), 7u);
  // A point of the frontier chart, with its label and run.
  EXPECT_THAT(page, HasSubstr("<tr><td>dspark (c=1)</td><td class=\"num\" data-v=\"231.14"));
  EXPECT_THAT(page, HasSubstr("Shown: 60 of 3000 points."));
}

TEST(HtmlReportTest, SaysTheSameInChinese) {
  const std::string page = Plain(Language::kChinese);
  EXPECT_THAT(page, HasSubstr("<html lang=\"zh-CN\">"));
  EXPECT_THAT(page, HasSubstr("数据来源"));
  EXPECT_THAT(page, Not(HasSubstr("Runs behind the figures")));
  // The same figures in the same places.
  const std::string values = " data-v=\"([^\"]*)\"";
  EXPECT_EQ(Matches(page, values), Matches(Plain(), values));
}

TEST(HtmlReportTest, EqualDocumentsGiveEqualPagesOfBoundedSize) {
  const std::string page = RenderHtml(TestDocument(Language::kEnglish));
  EXPECT_EQ(page, RenderHtml(TestDocument(Language::kEnglish)));
  EXPECT_LT(page.size(), size_t{5} << 20);
  if (HtmlHasCharts()) {
    EXPECT_GT(page.size(), size_t{1} << 20);
    // Whose work the library is stays with it.
    EXPECT_THAT(page, HasSubstr("Licensed to the Apache Software Foundation"));
  }
}

TEST(HtmlReportTest, ThousandsOfDistributionsStayBelowFiveMegabytes) {
  Document document = TestDocument(Language::kEnglish);
  Section section{.id = "many", .title = "Many", .blocks = {}};
  for (int i = 0; i < 250; ++i) {
    Chart chart{.id = "ecdf-" + std::to_string(i),
                .kind = ChartKind::kEcdf,
                .title = "TPOT",
                .x = {},
                .y = {},
                .series = {}};
    for (int k = 0; k < 5; ++k) {
      Series series{.name = "configuration " + std::to_string(k), .points = {}};
      for (int p = 1; p <= 400; ++p)
        series.points.push_back({.x = 1.0 / p, .y = p / 400.0, .sources = {1, 2, 3}});
      chart.series.push_back(std::move(series));
    }
    section.blocks.emplace_back(std::move(chart));
  }
  document.sections.push_back(std::move(section));
  const std::string page = RenderHtml(document);
  EXPECT_LT(page.size(), size_t{5} << 20);
  EXPECT_EQ(BudgetOf(document).listed, 6u);
}

TEST(HtmlReportTest, AnEmptyDocumentIsAPage) {
  Document document;
  document.title = "empty";
  EXPECT_THAT(RenderHtml(document), HasSubstr("<title>empty</title>"));
}

TEST(ChartJsonTest, ColoursFollowNamesAndPartners) {
  const Document document = TestDocument(Language::kEnglish);
  const ChartColors colors(document);
  const auto of = [&](const char* id) {
    for (const Section& section : document.sections) {
      for (const Block& block : section.blocks) {
        const Chart* const chart = std::get_if<Chart>(&block);
        if (chart != nullptr && chart->id == id) return colors.Of(*chart);
      }
    }
    return std::vector<int32_t>{};
  };
  EXPECT_THAT(of("throughput"), ::testing::ElementsAre(0, 1, 2, 3, -1));
  EXPECT_THAT(of("ttft"), ::testing::ElementsAre(0, 3));
  EXPECT_THAT(of("pareto"), ::testing::ElementsAre(0, 0, 2, 2, 3, 3));
  // More names than colours: still different within a chart.
  Chart crowded = {.id = "c", .title = "", .x = {}, .y = {}, .series = {}};
  for (int i = 0; i < 8; ++i)
    crowded.series.push_back({.name = "absent " + std::to_string(i), .points = {}});
  const std::vector<int32_t> all = colors.Of(crowded);
  EXPECT_EQ(std::set<int32_t>(all.begin(), all.end()).size(), 8u);
}

TEST(ChartJsonTest, WhatCannotBeDrawnIsLeftOut) {
  Chart chart = {.id = "c", .title = "", .x = {.title = "x", .log = true}, .y = {}, .series = {}};
  EXPECT_FALSE(IsDrawn(chart));
  Series series = {.name = "s", .points = {}};
  series.points.resize(5000);
  for (size_t i = 0; i < series.points.size(); ++i) series.points[i].x = static_cast<double>(i);
  series.points[7].y = std::numeric_limits<double>::infinity();
  chart.series.push_back(series);
  Document document;
  const Json json = ChartJson(chart, ChartColors(document), {}, document);
  const Json& points = json["series"][0]["points"];
  ASSERT_EQ(points.size(), 2000u);
  EXPECT_EQ(points.front()["x"], 1.0);  // no zero on a logarithmic axis
  EXPECT_EQ(points.back()["x"], 4999.0);
  for (const Json& point : points) EXPECT_NE(point["x"], 7.0);
}

}  // namespace
}  // namespace firesteel
