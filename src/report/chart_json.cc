// Charts as the page's script takes them: the document's kinds become lines, points, bars and
// bands.
#include <algorithm>
#include <cmath>

#include "report/html_internal.h"

namespace firesteel {
namespace {

constexpr size_t kMaxPoints = 2000;  // of a series: more than a screen has columns
constexpr int32_t kColors = 8;       // as the style sheet names them
constexpr double kLog2Span = 4096;   // beyond it, powers of ten are read more easily

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

Json PointJson(const Chart& chart, const Point& point, const Document& document) {
  Json json;
  if (chart.x.categories.empty())
    json["x"] = point.x;
  else
    json["x"] = static_cast<int64_t>(point.x);
  json["y"] = point.y;
  if (point.low && point.high && CanBeDrawn(chart.y, *point.low) &&
      CanBeDrawn(chart.y, *point.high)) {
    json["lo"] = *point.low;
    json["hi"] = *point.high;
  }
  if (!point.label.empty()) json["label"] = point.label;
  if (point.hollow) json["invalid"] = true;
  if (!point.sources.empty()) {
    Json runs = Json::array();
    for (const int32_t source : point.sources) runs.push_back(document.sources[source].id);
    json["runs"] = std::move(runs);
  }
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

Json SeriesJson(const Chart& chart, const Series& series, int32_t color, const Document& document) {
  std::vector<const Point*> points;
  for (const Point& point : series.points) {
    if (CanBeDrawn(chart.x, point.x) && CanBeDrawn(chart.y, point.y)) points.push_back(&point);
  }
  const bool distribution = chart.kind == ChartKind::kEcdf || chart.kind == ChartKind::kHistogram;
  Json json = {{"name", series.name}, {"color", color}, {"kind", SeriesKind(chart.kind, series)}};
  if (series.dashed) json["dash"] = "dashed";
  const Series* const owner = OwnerOf(chart, series);
  if (owner != nullptr && chart.kind == ChartKind::kScatter) json["owner"] = owner->name;
  if (distribution) json["step"] = true;
  if (chart.kind == ChartKind::kHistogram) json["area"] = true;
  // Symbols on a curve of many points hide it.
  if (distribution || points.size() > 60 || (series.dashed && chart.kind != ChartKind::kBar))
    json["dense"] = true;
  Json list = Json::array();
  const size_t count = std::min(points.size(), kMaxPoints);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = points.size() <= kMaxPoints ? i : i * (points.size() - 1) / (kMaxPoints - 1);
    list.push_back(PointJson(chart, *points[at], document));
  }
  json["points"] = std::move(list);
  return json;
}

}  // namespace

ChartColors::ChartColors(const Document& document) {
  for (const Section& section : document.sections) {
    for (const Block& block : section.blocks) {
      const Chart* const chart = std::get_if<Chart>(&block);
      if (chart == nullptr || !IsDrawn(*chart)) continue;
      for (const Series& series : chart->series) {
        if (!series.dashed && std::find(names_.begin(), names_.end(), series.name) == names_.end())
          names_.push_back(series.name);
      }
    }
  }
}

std::vector<int32_t> ChartColors::Of(const Chart& chart) const {
  std::vector<int32_t> colors(chart.series.size(), -1);
  std::vector<bool> used(kColors, false);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].dashed) continue;
    const auto name = std::find(names_.begin(), names_.end(), chart.series[i].name);
    auto color = static_cast<int32_t>(name - names_.begin()) % kColors;
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

Json ChartJson(const Chart& chart, const ChartColors& colors, const Document& document) {
  Json json = {{"id", chart.id},
               {"title", chart.title},
               {"x", AxisJson(chart.x, AllWhole(chart))},
               {"y", AxisJson(chart.y, false)}};
  if (chart.kind == ChartKind::kScatter) json["tooltip"] = "item";
  const std::vector<int32_t> indices = colors.Of(chart);
  Json series = Json::array();
  for (size_t i = 0; i < chart.series.size(); ++i) {
    Json one = SeriesJson(chart, chart.series[i], indices[i], document);
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
