#include "report/html_report.h"

#include <fmt/format.h>

#include <set>

#include "report/html_internal.h"
#include "report/page_assets_internal.h"

namespace firesteel {
namespace {

// Scripts and styles stand in the page itself, and nothing else may be loaded.
constexpr char kPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

// Within a script element nothing may look like markup.
std::string ScriptJson(const Json& json) {
  std::string out;
  for (const char c : DumpJson(json)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

class Page {
 public:
  Page(const Document& document, std::string_view library)
      : document_(document),
        library_(library),
        writer_(document),
        colors_(document),
        budget_(BudgetOf(document)) {}

  std::string Render() {
    Head();
    Header();
    for (size_t i = 0; i < document_.sections.size(); ++i) WriteSection(document_.sections[i], i);
    writer_.WriteSources(&out_);
    out_ += fmt::format("<footer>{}</footer>\n</main>\n</div>\n", HtmlEscape(Words().footer));
    Scripts();
    return std::move(out_);
  }

 private:
  const PageText& Words() const { return writer_.words(); }

  void Head() {
    out_ += fmt::format(
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
        "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<div class=\"page\">\n",
        document_.language == Language::kChinese ? "zh-CN" : "en", kPolicy,
        HtmlEscape(document_.title), PageStyle());
  }

  void Header() {
    std::set<std::string> files;
    for (const Source& source : document_.sources) files.insert(source.file);
    out_ += fmt::format(
        "<header>\n<div class=\"tools\"><button type=\"button\" id=\"theme\" "
        "hidden>{}</button></div>\n<p class=\"kicker\">{}</p>\n<h1>{}</h1>\n<p "
        "class=\"meta\">{}</p>\n",
        HtmlEscape(Words().theme), HtmlEscape(Words().kicker), HtmlEscape(document_.title),
        HtmlEscape(
            fmt::format(fmt::runtime(Words().summary), document_.sources.size(), files.size())));
    if (library_.empty())
      out_ += fmt::format("<p class=\"meta\">{}</p>\n", HtmlEscape(Words().no_charts));
    out_ +=
        fmt::format("<nav class=\"toc\" aria-label=\"{}\"><ol>\n", HtmlEscape(Words().contents));
    for (const Section& section : document_.sections) {
      out_ += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", HtmlEscape(section.id),
                          HtmlEscape(section.title));
    }
    out_ += fmt::format("<li><a href=\"#runs\">{}</a></li>\n</ol></nav>\n</header>\n<main>\n",
                        HtmlEscape(Words().runs));
  }

  // The first section is the verdict: the text it begins with stands out. Charts that follow each
  // other share a row.
  void WriteSection(const Section& section, size_t index) {
    out_ += fmt::format("<section id=\"{}\"{}>\n<h2>{}</h2>\n", HtmlEscape(section.id),
                        index == 0 ? " class=\"first\"" : "", HtmlEscape(section.title));
    enum class Group { kNone, kVerdict, kFigures };
    Group group = Group::kNone;
    bool at_start = index == 0;
    for (const Block& block : section.blocks) {
      const bool text =
          std::holds_alternative<Paragraph>(block) || std::holds_alternative<BulletList>(block);
      at_start &= text;
      const Group wanted = std::holds_alternative<Chart>(block) ? Group::kFigures
                           : at_start                           ? Group::kVerdict
                                                                : Group::kNone;
      if (wanted != group) {
        if (group != Group::kNone) out_ += "</div>\n";
        if (wanted == Group::kFigures) out_ += "<div class=\"figures\">\n";
        if (wanted == Group::kVerdict) out_ += "<div class=\"verdict\">\n";
        group = wanted;
      }
      std::visit([this](const auto& b) { WriteBlock(b); }, block);
    }
    if (group != Group::kNone) out_ += "</div>\n";
    out_ += "</section>\n";
  }

  template <typename B>
  void WriteBlock(const B& block) {
    if constexpr (std::is_same_v<B, Chart>)
      WriteChart(block);
    else
      writer_.Write(block, &out_);
  }

  void WriteChart(const Chart& chart) {
    const bool drawn = !library_.empty() && IsDrawn(chart);
    if (drawn) charts_.push_back(ChartJson(chart, colors_, budget_, document_));
    writer_.WriteFigure(chart, drawn, &out_);
  }

  void Scripts() {
    const Json data = {
        {"text", {{"run", Words().run}, {"sort", Words().sort}, {"filter", Words().filter}}},
        {"charts", charts_}};
    out_ += fmt::format("<script type=\"application/json\" id=\"report-data\">{}</script>\n",
                        ScriptJson(data));
    if (!library_.empty()) {
      for (const std::string_view script : {library_, ChartScript()}) {
        out_ += "<script>\n";
        out_ += script;
        out_ += "\n</script>\n";
      }
    }
    out_ += "<script>\n";
    out_ += PageScript();
    out_ += "</script>\n</body>\n</html>\n";
  }

  const Document& document_;
  const std::string_view library_;
  HtmlWriter writer_;
  ChartColors colors_;
  const PageBudget budget_;
  Json charts_ = Json::array();
  std::string out_;
};

}  // namespace

std::string RenderHtml(const Document& document) { return RenderPage(document, ChartingLibrary()); }

std::string RenderPage(const Document& document, std::string_view charting_library) {
  return Page(document, charting_library).Render();
}

bool HtmlHasCharts() { return !ChartingLibrary().empty(); }

}  // namespace firesteel
