#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/html_internal.h"

namespace firesteel {
namespace {

const char* EmphasisClass(Emphasis emphasis) {
  switch (emphasis) {
    case Emphasis::kBest:
      return "best";
    case Emphasis::kTie:
      return "tie";
    case Emphasis::kWorse:
      return "warning";
    case Emphasis::kVoid:
      return "invalid";
    case Emphasis::kFaded:
      return "dim";
    case Emphasis::kNone:
      break;
  }
  return "";
}

constexpr size_t kLongText = 60;  // bytes: a cell of more may not become a narrow tower

std::string ClassAttribute(bool numeric, const Cell& cell) {
  const char* const emphasis = EmphasisClass(cell.emphasis);
  std::string classes = numeric ? "num" : "";
  if (!cell.value && cell.text.size() > kLongText) classes = "long";
  if (*emphasis != '\0') classes += (classes.empty() ? "" : " ") + std::string(emphasis);
  return classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
}

// Six significant digits: the figures of a chart have no agreed number of decimals.
std::string Plain(double value) { return fmt::format("{:.6g}", value); }

std::string AxisValue(const Axis& axis, double value) {
  if (axis.categories.empty()) return Plain(value);
  const auto index = static_cast<size_t>(std::max(0.0, value));
  return index < axis.categories.size() ? axis.categories[index] : Plain(value);
}

// Every n-th, first and last among them.
std::vector<size_t> Thinned(size_t count, size_t most) {
  std::vector<size_t> kept;
  if (count <= most) {
    for (size_t i = 0; i < count; ++i) kept.push_back(i);
    return kept;
  }
  for (size_t i = 0; i < most; ++i) kept.push_back(i * (count - 1) / (most - 1));
  return kept;
}

// Green above one, red below, deeper with the distance; ratios are compared by their logarithm.
std::string HeatStyle(double value, double spread) {
  if (!(value > 0) || !(spread > 0)) return "";
  const double depth = std::min(1.0, std::fabs(std::log(value)) / spread);
  return fmt::format(" style=\"background:color-mix(in srgb, var(--{}) {:.0f}%, transparent)\"",
                     value >= 1 ? "good" : "bad", 6 + 40 * depth);
}

}  // namespace

void HtmlWriter::Write(const Table& table, std::string* out) const {
  if (table.columns.empty()) return;
  *out += fmt::format("<div class=\"table-wrap\" id=\"table-{}\"><table class=\"sortable\">\n",
                      HtmlEscape(table.id));
  if (!table.title.empty()) *out += fmt::format("<caption>{}</caption>\n", HtmlEscape(table.title));
  *out += "<thead><tr>";
  // Where a column gives the interval, the cell does not say it again.
  bool interval_column = false;
  for (const Column& column : table.columns) {
    interval_column |= column.id.find("interval") != std::string::npos;
    const bool says_unit =
        column.unit.empty() || column.title.find(column.unit) != std::string::npos;
    *out +=
        fmt::format("<th scope=\"col\"{}>{}{}</th>", column.numeric ? " class=\"num\"" : "",
                    HtmlEscape(column.title),
                    says_unit ? "" : fmt::format(" <small>{}</small>", HtmlEscape(column.unit)));
  }
  *out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    *out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      const bool numeric = i < table.columns.size() && table.columns[i].numeric;
      *out +=
          fmt::format("<td{}{}>{}", ClassAttribute(numeric || cell.value, cell),
                      cell.value ? fmt::format(" data-v=\"{}\"", *cell.value) : "", Figure(cell));
      if (cell.low && cell.high && !interval_column) {
        *out += fmt::format("<small class=\"interval\">[{:.{}f}, {:.{}f}]</small>", *cell.low,
                            cell.decimals, *cell.high, cell.decimals);
      }
      *out += "</td>";
    }
    *out += "</tr>\n";
  }
  *out += "</tbody>\n</table></div>\n";
  for (const std::string& note : table.notes)
    *out += fmt::format("<p class=\"table-note\">{}</p>\n", HtmlEscape(note));
}

void HtmlWriter::WriteFigure(const Chart& chart, bool drawn, std::string* out) const {
  const bool heatmap = chart.kind == ChartKind::kHeatmap;
  *out += fmt::format("<figure>\n<h3>{}</h3>\n", HtmlEscape(chart.title));
  if (!chart.note.empty())
    *out += fmt::format("<p class=\"caption\">{}</p>\n", HtmlEscape(chart.note));
  if (drawn) {
    *out +=
        fmt::format("<div class=\"chart\" id=\"chart-{}\" role=\"img\" aria-label=\"{}\"></div>\n",
                    HtmlEscape(chart.id), HtmlEscape(chart.title));
  }
  if (heatmap)
    WriteHeatmap(chart, out);
  else
    WriteChartData(chart, !drawn, out);
  *out += "</figure>\n";
}

void HtmlWriter::WriteChartData(const Chart& chart, bool open, std::string* out) const {
  bool intervals = false;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) intervals |= point.low && point.high;
  }
  *out += fmt::format(
      "<div class=\"figure-tools\"><details{}><summary>{}</summary>\n<div "
      "class=\"table-wrap\"><table class=\"sortable\">\n<thead><tr><th scope=\"col\">{}</th><th "
      "scope=\"col\" class=\"num\">{}</th><th scope=\"col\" class=\"num\">{}</th>{}<th "
      "scope=\"col\">{}</th></tr></thead>\n<tbody>\n",
      open ? " open" : "", HtmlEscape(words_.data), HtmlEscape(words_.series),
      HtmlEscape(chart.x.title), HtmlEscape(chart.y.title),
      intervals
          ? fmt::format("<th scope=\"col\" class=\"num\">{}</th>", HtmlEscape(words_.interval))
          : "",
      HtmlEscape(words_.run));
  std::string notes;
  for (const Series& series : chart.series) {
    const std::vector<size_t> kept = Thinned(series.points.size(), budget_.listed);
    if (kept.size() < series.points.size()) {
      notes += fmt::format(
          "<p class=\"table-note\">{}: {}</p>\n", HtmlEscape(series.name),
          HtmlEscape(fmt::format(fmt::runtime(words_.thinned), kept.size(), series.points.size())));
    }
    for (const size_t i : kept) {
      const Point& point = series.points[i];
      *out += fmt::format(
          "<tr{}><td>{}{}</td><td class=\"num\" data-v=\"{}\">{}</td><td class=\"num\" "
          "data-v=\"{}\">{}</td>",
          point.hollow ? " class=\"invalid\"" : "", HtmlEscape(series.name),
          point.label.empty() ? "" : fmt::format(" ({})", HtmlEscape(point.label)), point.x,
          HtmlEscape(AxisValue(chart.x, point.x)), point.y,
          HtmlEscape(AxisValue(chart.y, point.y)));
      if (intervals) {
        *out += point.low && point.high ? fmt::format("<td class=\"num\">{} – {}</td>",
                                                      Plain(*point.low), Plain(*point.high))
                                        : "<td class=\"num\">–</td>";
      }
      *out += fmt::format("<td>{}</td></tr>\n", RunLinks(point.sources));
    }
  }
  *out += fmt::format("</tbody>\n</table></div>\n{}</details></div>\n", notes);
}

void HtmlWriter::WriteHeatmap(const Chart& chart, std::string* out) const {
  std::map<std::pair<int64_t, int64_t>, const Point*> cells;
  double spread = 0;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (!point.value) continue;
      cells[{std::llround(point.y), std::llround(point.x)}] = &point;
      if (*point.value > 0) spread = std::max(spread, std::fabs(std::log(*point.value)));
    }
  }
  *out += fmt::format(
      "<div class=\"table-wrap heat\"><table>\n<thead><tr><th scope=\"col\">{} \\ "
      "{}</th>",
      HtmlEscape(chart.y.title), HtmlEscape(chart.x.title));
  for (const std::string& category : chart.x.categories)
    *out += fmt::format("<th scope=\"col\" class=\"num\">{}</th>", HtmlEscape(category));
  *out += "</tr></thead>\n<tbody>\n";
  for (size_t y = 0; y < chart.y.categories.size(); ++y) {
    *out += fmt::format("<tr><th scope=\"row\">{}</th>", HtmlEscape(chart.y.categories[y]));
    for (size_t x = 0; x < chart.x.categories.size(); ++x) {
      const auto cell = cells.find({static_cast<int64_t>(y), static_cast<int64_t>(x)});
      if (cell == cells.end()) {
        *out += "<td class=\"num dim\">–</td>";
        continue;
      }
      const Point& point = *cell->second;
      *out += fmt::format("<td class=\"num{}\"{}>{}</td>", point.hollow ? " invalid" : "",
                          HeatStyle(*point.value, spread),
                          Linked(point.label.empty() ? fmt::format("{:.2f}", *point.value)
                                                     : HtmlEscape(point.label),
                                 point.sources));
    }
    *out += "</tr>\n";
  }
  *out += "</tbody>\n</table></div>\n";
}

}  // namespace firesteel
