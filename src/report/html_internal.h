// Pieces of the page, each appending to `*out`. What they share: the document, its words, how runs
// are linked.
#pragma once

#include <string>
#include <string_view>

#include "analysis/document.h"
#include "base/json.h"
#include "report/page_text_internal.h"

namespace firesteel {

// RenderHtml with the library of a test's choosing; "" for the page of a build without one.
std::string RenderPage(const Document& document, std::string_view charting_library);

// For text and for attributes in double quotes.
std::string HtmlEscape(std::string_view text);

// A large grid has thousands of distributions: the page stays below a few megabytes by showing
// fewer points of each.
struct PageBudget {
  size_t drawn = 2000;  // points of a series in its chart
  size_t listed = 60;   // and in the table below it
};
PageBudget BudgetOf(const Document& document);

class HtmlWriter {
 public:
  // The document must outlive the writer.
  explicit HtmlWriter(const Document& document);

  void Write(const Paragraph& paragraph, std::string* out) const;
  void Write(const BulletList& list, std::string* out) const;
  void Write(const Banner& banner, std::string* out) const;
  void Write(const Table& table, std::string* out) const;
  void Write(const Finding& finding, std::string* out) const;
  void Write(const Advice& advice, std::string* out) const;
  // The figure with its data as a table; `drawn`: leave room for the picture.
  void WriteFigure(const Chart& chart, bool drawn, std::string* out) const;
  void WriteSources(std::string* out) const;  // the table of all runs

  // A figure of the document, linked to its runs.
  std::string Figure(const Cell& cell, std::string_view unit = "") const;
  const PageText& words() const { return words_; }

 private:
  std::string Linked(const std::string& html, const SourceRefs& refs) const;
  std::string RunLinks(const SourceRefs& refs) const;
  void WriteHeatmap(const Chart& chart, std::string* out) const;
  void WriteChartData(const Chart& chart, bool open, std::string* out) const;

  const Document& document_;
  const PageText& words_;
  const PageBudget budget_;
};

// What the page's script draws of `chart`: points in an order and number it can draw, and one
// colour index per series, the same for a name on the whole page. {} for a heatmap, which is HTML.
class ChartColors {
 public:
  explicit ChartColors(const Document& document);
  // Of each series of the chart, all different as long as there are enough.
  std::vector<int32_t> Of(const Chart& chart) const;

 private:
  size_t IndexOf(const std::string& name) const;

  std::vector<std::string> names_;
};
Json ChartJson(const Chart& chart, const ChartColors& colors, const PageBudget& budget,
               const Document& document);
bool IsDrawn(const Chart& chart);

}  // namespace firesteel
