// A report as data: sections of text, tables, charts, findings and advice, with the runs behind
// every number. Built once by BuildReport, in one language; renderers (Markdown, HTML) only lay it
// out.
//
// Everything a renderer shows is in here or in the string table (strings.h): it computes nothing.
// Ids are stable and the same in every language: they serve as anchors, and tests find figures by
// them. Plain values without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "analysis/strings.h"

namespace firesteel {

// One run, or one table row of an imported report: where a number can be looked up.
struct Source {
  std::string id;        // "C001", else "R1", "R2", …; unique in the document
  std::string file;      // as given on the command line
  int32_t line = 0;      // 1-based; 0: the file as a whole
  std::string campaign;  // runs that are compared with each other share it; may be ""
  std::string scenario;
  std::string configuration;
  int32_t concurrency = 0;  // 0: not a closed loop, or not known
  std::string invalid;      // why the run does not count; "" for a valid one
};

// Indices into Document::sources. A figure with none is a count or a threshold.
using SourceRefs = std::vector<int32_t>;

enum class Emphasis {
  kNone,
  kBest,   // the best of its row or group
  kTie,    // within the noise of the best
  kWorse,  // a warning: worse than it should be
  kVoid,   // a run that does not count: struck through
  kFaded,  // shown, but no basis for a comparison
};

struct Cell {
  std::string text;             // what is shown when there is no value: a name, or "–"
  std::optional<double> value;  // unrounded; tables sort by it
  int8_t decimals = 2;          // digits behind the point of `value`
  bool sign = false;            // a difference: "+3.90"
  std::optional<double> low;    // 95 % interval, in the unit of the value
  std::optional<double> high;
  Emphasis emphasis = Emphasis::kNone;
  SourceRefs sources = {};
};

// The value as printed ("+3.90", "1,054" is never grouped: "1054"), else the text. The interval is
// left to the renderer.
std::string CellText(const Cell& cell);

enum class Better { kNeither, kHigher, kLower };

struct Column {
  std::string id;         // "output_throughput"
  std::string title;      // "Out tok/s"
  std::string unit = {};  // "tok/s", "ms", "%", "×"; "" for names and counts
  bool numeric = false;
  Better better = Better::kNeither;
};

struct Table {
  std::string id;  // "winners-dspark-vs-eagle-comparison"
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as wide as columns
  std::vector<std::string> notes = {};  // below the table
};

enum class ChartKind {
  kLine,       // series over x
  kScatter,    // points, labelled
  kBar,        // categories on x, one bar per series
  kHistogram,  // x is the bin's lower edge, y the share of samples
  kEcdf,       // y from 0 to 1
  kHeatmap,    // x and y categories, `value` coloured
};

struct Axis {
  std::string title;  // with the unit
  bool log = false;
  std::vector<std::string> categories = {};  // not empty: x (or y) is an index into them
};

struct Point {
  double x = 0;
  double y = 0;
  std::optional<double> low;  // error bar, or the band of a line
  std::optional<double> high;
  std::optional<double> value;  // kHeatmap
  std::string label = {};       // "c=64"
  bool hollow = false;          // a run that does not count
  SourceRefs sources = {};
};

struct Series {
  std::string name;
  std::vector<Point> points;
  bool dashed = false;  // a guide or a model, not a measurement
  bool band = false;    // low and high of the points are a band around the line
};

// A line across the chart at one x or one y ("knee at c=32", "baseline").
struct MarkLine {
  bool at_x = true;
  double at = 0;
  std::string label;
};

struct Chart {
  std::string id;  // "throughput-chat_short"
  ChartKind kind = ChartKind::kLine;
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series;
  std::vector<MarkLine> marks = {};
  std::string note = {};  // below the chart; "" for none
};

enum class Severity { kNote, kWarning, kSevere };
enum class Confidence { kLow, kMedium, kHigh };

struct Evidence {
  std::string key;    // "ttft_share": the same in every language
  std::string label;  // "TTFT share of E2E"
  Cell figure;
  std::string unit = {};
};

// What a rule found. The rule's own grade ("heavy", "cliff", "severe") stands in `grade`.
struct Finding {
  std::string id;    // "F7"
  std::string rule;  // "TTFT_JITTER"
  std::string grade;
  Severity severity = Severity::kNote;
  Confidence confidence = Confidence::kMedium;
  std::string campaign;
  std::string scenario;  // "" when it is about more than one
  std::string configuration;
  int32_t concurrency = 0;  // 0: about more than one
  std::string headline;     // one sentence with the figures
  std::string meaning;      // what follows, and what cannot be concluded
  std::vector<Evidence> evidence;
  std::vector<std::string> alternatives = {};  // explanations that the data cannot exclude
  SourceRefs sources = {};
};

enum class Priority { kP0, kP1, kP2 };

struct Advice {
  std::string id;  // "A3"
  Priority priority = Priority::kP2;
  std::string action;
  std::string effect;      // expected, as an interval from the data; or that it cannot be given
  std::string experiment;  // what would confirm it; may be a command
  std::vector<std::string> findings;  // their ids
};

struct Paragraph {
  std::string text;
};
struct BulletList {
  std::vector<std::string> items;
};
// What a reader must know before any figure: void runs, unequal work, single runs.
struct Banner {
  Severity severity = Severity::kWarning;
  std::string text;
};

using Block = std::variant<Paragraph, BulletList, Banner, Table, Chart, Finding, Advice>;

struct Section {
  std::string id;  // "core"
  std::string title;
  std::vector<Block> blocks;
};

struct Document {
  Language language = Language::kEnglish;
  std::string title;
  std::vector<Section> sections;
  std::vector<Source> sources;
};

// The first one of that id over all sections; nullptr without one. The pointers live as long as
// the document is not changed.
const Table* FindTable(const Document& document, const std::string& id);
const Chart* FindChart(const Document& document, const std::string& id);
std::vector<const Finding*> FindingsOf(const Document& document);
std::vector<const Advice*> AdviceOf(const Document& document);
// Index of a column; -1 without one.
int32_t ColumnIndex(const Table& table, const std::string& id);

}  // namespace firesteel
