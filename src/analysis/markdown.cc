#include "analysis/markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace firesteel {
namespace {

// What would end a cell or begin a tag. Text comes from result files: nothing in it is markup.
std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '|':
      case '<':
      case '*':
      case '`':
      case '[':
      case ']':
      case '_':
      case '~':
      case '\\':
        out += '\\';
        out += c;
        break;
      case '\n':
      case '\r':
        out += ' ';
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Emphasized(const std::string& text, Emphasis emphasis) {
  switch (emphasis) {
    case Emphasis::kBest:
      return "**" + text + "**";
    case Emphasis::kTie:
      return text + " ≈";
    case Emphasis::kWorse:
      return text + " ⚠";
    case Emphasis::kVoid:
      return "~~" + text + "~~";
    case Emphasis::kFaded:
      return "(" + text + ")";
    case Emphasis::kNone:
      break;
  }
  return text;
}

class Renderer {
 public:
  explicit Renderer(const Document& document) : document_(document) {}

  std::string Run() {
    out_ = "# " + Escape(document_.title) + "\n";
    int number = 0;
    for (const Section& section : document_.sections) {
      out_ += fmt::format("\n## {}. {}\n", ++number, Escape(section.title));
      for (const Block& block : section.blocks) {
        out_ += '\n';
        std::visit([this](const auto& one) { Add(one); }, block);
      }
    }
    return std::move(out_);
  }

 private:
  std::string Words(const std::string& key, const std::vector<std::string>& arguments = {}) const {
    return Say(document_.language, key, arguments);
  }

  // "C001, C002": at most a handful, then how many more.
  std::string Runs(const SourceRefs& sources) const {
    constexpr size_t kMost = 12;
    std::vector<std::string> ids;
    std::set<int32_t> seen;
    for (const int32_t source : sources) {
      if (seen.insert(source).second) ids.push_back(document_.sources[source].id);
    }
    const size_t more = ids.size() > kMost ? ids.size() - kMost : 0;
    ids.resize(ids.size() - more);
    std::string text = fmt::format("{}", fmt::join(ids, ", "));
    if (more > 0) text += fmt::format(" +{}", more);
    return text;
  }

  std::string CellMarkdown(const Cell& cell) const {
    std::string text = Escape(CellText(cell));
    const bool interval =
        cell.value && cell.low && cell.high && !cell.sign && cell.emphasis != Emphasis::kVoid;
    const double half = interval ? (*cell.high - *cell.low) / 2 : 0;
    text = Emphasized(text, cell.emphasis);
    if (half > 0) text += fmt::format(" ±{:.{}f}", half, cell.decimals);
    return text;
  }

  void Add(const Paragraph& paragraph) { out_ += Escape(paragraph.text) + "\n"; }

  void Add(const BulletList& list) {
    for (const std::string& item : list.items) out_ += "- " + Escape(item) + "\n";
  }

  void Add(const Banner& banner) {
    const char* sign = banner.severity == Severity::kSevere    ? "⛔"
                       : banner.severity == Severity::kWarning ? "⚠"
                                                               : "ℹ";
    out_ += fmt::format("> {} {}\n", sign, Escape(banner.text));
  }

  void Add(const Table& table) {
    out_ += fmt::format("### {}\n\n", Escape(table.title));
    std::string rule = "|";
    out_ += "|";
    for (const Column& column : table.columns) {
      std::string title = Escape(column.title);
      if (!column.unit.empty() && column.title.find(column.unit) == std::string::npos)
        title += fmt::format(" ({})", column.unit);
      out_ += fmt::format(" {} |", title);
      rule += column.numeric ? " ---: |" : " --- |";
    }
    out_ += "\n" + rule + "\n";
    for (const std::vector<Cell>& row : table.rows) {
      out_ += "|";
      for (const Cell& cell : row) out_ += fmt::format(" {} |", CellMarkdown(cell));
      out_ += "\n";
    }
    for (const std::string& note : table.notes) out_ += fmt::format("\n*{}*\n", Escape(note));
  }

  void Add(const Chart& chart) {
    out_ += fmt::format("### {}\n\n| {} | {} | {} |\n| --- | ---: | ---: |\n", Escape(chart.title),
                        Words("column.series"), Escape(chart.x.title), Escape(chart.y.title));
    constexpr size_t kMost = 12;  // of a series; a distribution has hundreds
    for (const Series& series : chart.series) {
      if (series.dashed) continue;
      const size_t step = std::max<size_t>(1, (series.points.size() + kMost - 1) / kMost);
      for (size_t i = 0; i < series.points.size(); i += step) {
        const Point& point = series.points[i];
        out_ += fmt::format("| {} | {} | {} |\n", Escape(series.name), Value(chart.x, point.x),
                            Escape(PointText(chart, point)));
      }
    }
    for (const MarkLine& mark : chart.marks)
      out_ += fmt::format("\n*{}: {:g}*\n", Escape(mark.label), mark.at);
    if (!chart.note.empty()) out_ += fmt::format("\n*{}*\n", Escape(chart.note));
  }

  static std::string Value(const Axis& axis, double at) {
    if (axis.categories.empty()) return fmt::format("{:.4g}", at);
    const size_t index = static_cast<size_t>(std::max(0.0, at));
    return index < axis.categories.size() ? Escape(axis.categories[index]) : "";
  }

  static std::string PointText(const Chart& chart, const Point& point) {
    if (point.value) return fmt::format("{}: {:.3f}", Value(chart.y, point.y), *point.value);
    return fmt::format("{:.2f}", point.y);
  }

  void Add(const Finding& finding) {
    out_ += fmt::format("#### {} {} · {} · {}\n\n", finding.id, finding.rule,
                        Words(finding.severity == Severity::kSevere    ? "severity.severe"
                              : finding.severity == Severity::kWarning ? "severity.warning"
                                                                       : "severity.note"),
                        Words(finding.confidence == Confidence::kHigh     ? "confidence.high"
                              : finding.confidence == Confidence::kMedium ? "confidence.medium"
                                                                          : "confidence.low"));
    out_ += fmt::format("**{}** {}\n\n", Escape(finding.headline), Escape(finding.meaning));
    for (const Evidence& item : finding.evidence) {
      out_ += fmt::format("- {}: {}{}\n", Escape(item.label), Escape(CellText(item.figure)),
                          item.unit.empty() ? "" : " " + item.unit);
    }
    if (!finding.alternatives.empty()) {
      std::vector<std::string> others;
      for (const std::string& why : finding.alternatives) others.push_back(Escape(why));
      out_ += fmt::format("- {}: {}\n", Words("label.alternatives"), fmt::join(others, "; "));
    }
    if (!finding.sources.empty())
      out_ += fmt::format("- {}: {}\n", Words("label.runs"), Runs(finding.sources));
  }

  void Add(const Advice& advice) {
    const char* priority = advice.priority == Priority::kP0   ? "P0"
                           : advice.priority == Priority::kP1 ? "P1"
                                                              : "P2";
    out_ += fmt::format("#### {} {}: {}\n\n", priority, advice.id, Escape(advice.action));
    out_ += fmt::format("- {}: {}\n", Words("label.effect"), Escape(advice.effect));
    out_ += fmt::format("- {}: {}\n", Words("label.experiment"), Escape(advice.experiment));
    out_ += fmt::format("- {}: {}\n", Words("label.findings"), fmt::join(advice.findings, ", "));
  }

  const Document& document_;
  std::string out_;
};

}  // namespace

std::string RenderMarkdown(const Document& document) { return Renderer(document).Run(); }

}  // namespace firesteel
