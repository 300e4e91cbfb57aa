// Charts as the page's script takes them: the document's kinds become lines, points, bars and
// bands.
#include <algorithm>
#include <cmath>

#include "report/html_internal.h"

namespace firesteel {
namespace {

constexpr size_t kDensePoints = 60;     // above, a series is a curve without symbols
constexpr size_t kDrawnInAll = 40'000;  // points of curves on one page, about a megabyte
constexpr size_t kListedInAll = 8'000;  // rows of the tables below them, two more
constexpr int32_t kColors = 8;          // as the style sheet names them
constexpr double kLog2Span = 4096;      // beyond it, powers of ten are read more easily

bool CanBeDrawn(const Axis& axis, double value) {
  return std::isfinite(value) && (!axis.log || value > 0);
}

bool AllWhole(const Chart& chart) {
  double low = INFINITY;
  double high = 0;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (point.x != std::floor(point.x)) return false;
      low = std::min(low, point.x);
      high = std::max(high, point.x);
    }
  }
  return high <= kLog2Span * low;
}

Json AxisJson(const Axis& axis, bool powers_of_two) {
  Json json = {{"label", axis.title}};
  if (!axis.categories.empty()) {
    json["scale"] = "category";
    json["categories"] = axis.categories;
  } else {
    json["scale"] = !axis.log ? "linear" : powers_of_two ? "log2" : "log10";
  }
  return json;
}

const char* SeriesKind(ChartKind chart, const Series& series) {
  if (series.dashed) return "line";
  if (chart == ChartKind::kScatter) return "points";
  if (chart == ChartKind::kBar) return "bar";
  return series.band ? "band" : "line";
}

// Six digits are more than a screen shows; all of them stand in tables.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

Json RunsJson(const SourceRefs& sources, const Document& document) {
  Json runs = Json::array();
  for (const int32_t source : sources) runs.push_back(document.sources[source].id);
  return runs;
}

// `with_runs`: the series does not say them for all of its points.
Json PointJson(const Chart& chart, const Point& point, bool with_runs, const Document& document) {
  Json json;
  if (chart.x.categories.empty())
    json["x"] = Rounded(point.x);
  else
    json["x"] = static_cast<int64_t>(point.x);
  json["y"] = Rounded(point.y);
  if (point.low && point.high && CanBeDrawn(chart.y, *point.low) &&
      CanBeDrawn(chart.y, *point.high)) {
    json["lo"] = Rounded(*point.low);
    json["hi"] = Rounded(*point.high);
  }
  if (!point.label.empty()) json["label"] = point.label;
  if (point.hollow) json["invalid"] = true;
  if (with_runs && !point.sources.empty()) json["runs"] = RunsJson(point.sources, document);
  return json;
}

// The series that `dashed` is named after, for a frontier among points; nullptr for others.
const Series* OwnerOf(const Chart& chart, const Series& dashed) {
  const Series* owner = nullptr;
  if (!dashed.dashed) return owner;
  for (const Series& series : chart.series) {
    if (series.dashed || dashed.name.find(series.name) == std::string::npos) continue;
    if (owner == nullptr || series.name.size() > owner->name.size()) owner = &series;
  }
  return owner;
}

Json SeriesJson(const Chart& chart, const Series& series, int32_t color, const PageBudget& budget,
                const Document& document) {
  std::vector<const Point*> points;
  for (const Point& point : series.points) {
    if (CanBeDrawn(chart.x, point.x) && CanBeDrawn(chart.y, point.y)) points.push_back(&point);
  }
  // Where no frontier is given, the levels of a configuration are followed by a thin line.
  const bool joined = chart.kind == ChartKind::kScatter && !series.dashed && points.size() > 1 &&
                      std::none_of(chart.series.begin(), chart.series.end(),
                                   [](const Series& other) { return other.dashed; });
  const bool distribution = chart.kind == ChartKind::kEcdf || chart.kind == ChartKind::kHistogram;
  Json json = {{"name", series.name}, {"color", color}, {"kind", SeriesKind(chart.kind, series)}};
  if (series.dashed) json["dash"] = "dashed";
  const Series* const owner = OwnerOf(chart, series);
  if (owner != nullptr && chart.kind == ChartKind::kScatter) json["owner"] = owner->name;
  if (joined) json["joined"] = true;
  if (distribution) json["step"] = true;
  if (chart.kind == ChartKind::kHistogram) json["area"] = true;
  // Symbols on a curve of many points hide it.
  if (distribution || points.size() > kDensePoints ||
      (series.dashed && chart.kind != ChartKind::kBar))
    json["dense"] = true;
  const bool same_runs =
      !points.empty() && std::all_of(points.begin(), points.end(), [&](const Point* point) {
        return point->sources == points.front()->sources;
      });
  if (same_runs && !points.front()->sources.empty())
    json["runs"] = RunsJson(points.front()->sources, document);
  Json list = Json::array();
  const size_t count = std::min(points.size(), budget.drawn);
  for (size_t i = 0; i < count; ++i) {
    const size_t at =
        points.size() <= budget.drawn ? i : i * (points.size() - 1) / (budget.drawn - 1);
    list.push_back(PointJson(chart, *points[at], !same_runs, document));
  }
  json["points"] = std::move(list);
  return json;
}

}  // namespace

PageBudget BudgetOf(const Document& document) {
  size_t curves = 0;
  for (const Section& section : document.sections) {
    for (const Block& block : section.blocks) {
      const Chart* const chart = std::get_if<Chart>(&block);
      if (chart == nullptr) continue;
      for (const Series& series : chart->series) curves += series.points.size() > kDensePoints;
    }
  }
  PageBudget budget;
  if (curves == 0) return budget;
  budget.drawn = std::clamp(kDrawnInAll / curves, size_t{40}, budget.drawn);
  budget.listed = std::clamp(kListedInAll / curves, size_t{6}, budget.listed);
  return budget;
}

// Lines over load name configurations; what other charts show of one ("dspark (chat@1)") gets its
// colour.
ChartColors::ChartColors(const Document& document) {
  for (const bool over_load : {true, false}) {
    for (const Section& section : document.sections) {
      for (const Block& block : section.blocks) {
        const Chart* const chart = std::get_if<Chart>(&block);
        if (chart == nullptr || !IsDrawn(*chart)) continue;
        if ((chart->kind == ChartKind::kLine || chart->kind == ChartKind::kScatter) != over_load)
          continue;
        for (const Series& series : chart->series) {
          if (!series.dashed && IndexOf(series.name) == names_.size())
            names_.push_back(series.name);
        }
      }
    }
  }
}

// Of the longest known name that `name` begins with; the number of names without one.
size_t ChartColors::IndexOf(const std::string& name) const {
  size_t best = names_.size();
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string& known = names_[i];
    const bool fits = name == known || (name.starts_with(known) && name[known.size()] == ' ');
    if (fits && (best == names_.size() || known.size() > names_[best].size())) best = i;
  }
  return best;
}

std::vector<int32_t> ChartColors::Of(const Chart& chart) const {
  std::vector<int32_t> colors(chart.series.size(), -1);
  std::vector<bool> used(kColors, false);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].dashed) continue;
    auto color = static_cast<int32_t>(IndexOf(chart.series[i].name) % kColors);
    for (int32_t tries = 0; tries < kColors && used[color]; ++tries) color = (color + 1) % kColors;
    used[color] = true;
    colors[i] = color;
  }
  // A guide or model line takes the colour of the series it is named after ("dspark, model"), so
  // that the pair is seen; others stay grey.
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series* const owner = OwnerOf(chart, chart.series[i]);
    if (owner != nullptr) colors[i] = colors[static_cast<size_t>(owner - chart.series.data())];
  }
  return colors;
}

bool IsDrawn(const Chart& chart) {
  if (chart.kind == ChartKind::kHeatmap) return false;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (CanBeDrawn(chart.x, point.x) && CanBeDrawn(chart.y, point.y)) return true;
    }
  }
  return false;
}

Json ChartJson(const Chart& chart, const ChartColors& colors, const PageBudget& budget,
               const Document& document) {
  Json json = {{"id", chart.id},
               {"title", chart.title},
               {"x", AxisJson(chart.x, AllWhole(chart))},
               {"y", AxisJson(chart.y, false)}};
  if (chart.kind == ChartKind::kScatter) json["tooltip"] = "item";
  const std::vector<int32_t> indices = colors.Of(chart);
  Json series = Json::array();
  for (size_t i = 0; i < chart.series.size(); ++i) {
    Json one = SeriesJson(chart, chart.series[i], indices[i], budget, document);
    if (!one["points"].empty()) series.push_back(std::move(one));
  }
  json["series"] = std::move(series);
  Json marks = Json::array();
  for (const MarkLine& mark : chart.marks) {
    if (CanBeDrawn(mark.at_x ? chart.x : chart.y, mark.at))
      marks.push_back({{"x", mark.at_x}, {"at", mark.at}, {"label", mark.label}});
  }
  if (!marks.empty()) json["marks"] = std::move(marks);
  return json;
}

}  // namespace firesteel
