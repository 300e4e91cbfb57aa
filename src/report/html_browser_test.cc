// The page as a reader's browser sees it: Chromium draws it, and nothing may go to its console.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "bench/child_process.h"
#include "report/html_report.h"
#include "report/test_document.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

class HtmlBrowserTest : public ::testing::Test {
 protected:
  struct Seen {
    std::string dom;
    std::string console;  // lines of the browser's log that are a page's
  };

  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("html_browser_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // The document after the page's scripts ran, then `script`.
  Seen Open(std::string page, const std::string& script = "") {
    if (!script.empty()) {
      const size_t end = page.rfind("</body>");
      page.insert(end, "<script>" + script + "</script>\n");
    }
    EXPECT_TRUE(WriteFileAtomically(Path("page.html"), page).ok());
    const auto browser = ChildProcess::Start(
        {FIRESTEEL_CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--enable-logging=stderr", "--window-size=1280,2000",
         "--virtual-time-budget=3000", "--user-data-dir=" + Path("profile"), "--dump-dom",
         "file://" + Path("page.html")},
        Path("dom"), Path("log"));
    if (!browser.ok()) {
      ADD_FAILURE() << browser.status().message();
      return {};
    }
    for (int tries = 0; tries < 6'000 && !(*browser)->Ended(); ++tries) usleep(10'000);
    EXPECT_EQ((*browser)->Ended(), "exit code 0");
    std::filesystem::remove_all(Path("profile"));
    Seen seen{.dom = Read("dom"), .console = ""};
    const std::string log = Read("log");
    for (size_t begin = 0; begin < log.size();) {
      const size_t end = std::min(log.find('\n', begin), log.size());
      const std::string line = log.substr(begin, end - begin);
      if (line.find("CONSOLE") != std::string::npos) seen.console += line + '\n';
      begin = end + 1;
    }
    return seen;
  }

  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  std::string Read(const std::string& name) const {
    const auto text = ReadFile(Path(name), size_t{64} << 20);
    return text.ok() ? *text : text.status().message();
  }
  // From the chart's element to the end of its picture.
  static std::string Picture(const std::string& dom, const std::string& id) {
    const size_t begin = dom.find("<div class=\"chart\" id=\"chart-" + id + "\"");
    if (begin == std::string::npos) return "";
    return dom.substr(begin, dom.find("</svg>", begin) - begin);
  }

  std::filesystem::path dir_;
};

TEST_F(HtmlBrowserTest, EveryChartIsDrawnAndTheConsoleStaysEmpty) {
  for (const Language language : {Language::kEnglish, Language::kChinese}) {
    const Seen seen = Open(RenderHtml(TestDocument(language)));
    EXPECT_EQ(seen.console, "");
    EXPECT_THAT(seen.dom, HasSubstr("data-charts=\"7\""));
    EXPECT_EQ(Count(seen.dom, "<svg"), 7u);
    const struct {
      const char* id;
      size_t paths;  // at least: lines, symbols, bars, bands
      std::vector<const char*> colors;
    } kCharts[] = {
        {"throughput", 4 + 4 * 9, {"--s0", "--s1", "--s2", "--s3", "--muted"}},
        {"ttft", 2 + 2 + 2 * 9, {"--s0", "--s3"}},
        {"pareto", 3 + 3 * 9, {"--s0", "--s2", "--s3"}},
        {"acceptance", 2 * 7 + 2 + 2 * 7, {"--s2", "--s3"}},
        {"tpot-ecdf", 3, {"--s0", "--s1", "--s3"}},
        {"itl-histogram", 2, {"--s0", "--s3"}},
        {"hostile-chart", 1, {}},
    };
    for (const auto& chart : kCharts) {
      const std::string picture = Picture(seen.dom, chart.id);
      EXPECT_GE(Count(picture, "<path") + Count(picture, "<polygon"), chart.paths) << chart.id;
      for (const char* color : chart.colors) EXPECT_THAT(picture, HasSubstr(color)) << chart.id;
      EXPECT_THAT(picture, Not(HasSubstr("NaN"))) << chart.id;
    }
  }
}

TEST_F(HtmlBrowserTest, AFaultInAScriptWouldBeSeen) {
  const Seen seen = Open(RenderHtml(TestDocument(Language::kEnglish)), "planted.fault();");
  EXPECT_THAT(seen.console, HasSubstr("planted is not defined"));
}

TEST_F(HtmlBrowserTest, TablesSortByFullValueAndFilter) {
  const Seen seen = Open(RenderHtml(TestDocument(Language::kEnglish)), R"(
    const table = document.querySelector('#table-throughput table');
    const head = table.tHead.rows[0].cells;
    const first = () => table.tBodies[0].rows[0].cells[3].firstChild.textContent;
    const note = (name, value) => document.documentElement.setAttribute('data-test-' + name, value);
    head[3].querySelector('button').click();
    note('least', first());
    head[3].querySelector('button').click();
    note('most', first() + ' ' + head[3].getAttribute('aria-sort'));
    head[5].querySelector('button').click();
    note('last', table.tBodies[0].lastElementChild.cells[5].textContent);
    const filter = document.querySelector('#table-throughput').previousElementSibling;
    filter.value = 'EAGLE3';
    filter.dispatchEvent(new Event('input'));
    note('shown', Array.from(table.tBodies[0].rows).filter((r) => !r.hidden).length);
    document.getElementById('theme').click();
  )");
  EXPECT_EQ(seen.console, "");
  EXPECT_THAT(seen.dom, HasSubstr("data-test-least=\"111.22\""));
  EXPECT_THAT(seen.dom, HasSubstr("data-test-most=\"5500.06 descending\""));
  EXPECT_THAT(seen.dom, HasSubstr("data-test-last=\"–\""));
  EXPECT_THAT(seen.dom, HasSubstr("data-test-shown=\"5\""));
  EXPECT_THAT(seen.dom, HasSubstr("data-theme=\"dark\""));
}

TEST_F(HtmlBrowserTest, TooltipsNameTheRunAndKeepTextText) {
  const Seen seen = Open(RenderHtml(TestDocument(Language::kEnglish)), R"(
    for (const [id, series] of [['throughput', 1], ['hostile-chart', 0]]) {
      const chart = echarts.getInstanceByDom(document.getElementById('chart-' + id));
      chart.dispatchAction({type: 'showTip', seriesIndex: series, dataIndex: 0});
    }
    document.documentElement.setAttribute('data-test-images', document.images.length);
  )");
  EXPECT_EQ(seen.console, "");
  EXPECT_THAT(seen.dom, HasSubstr("run R1</span>"));
  EXPECT_THAT(seen.dom, HasSubstr("&lt;!--&lt;script&gt;"));
  EXPECT_THAT(seen.dom, HasSubstr("data-test-images=\"0\""));
}

}  // namespace
}  // namespace firesteel
