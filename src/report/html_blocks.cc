// Text, banners, findings, advice, and the runs behind the figures.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "report/html_internal.h"

namespace firesteel {
namespace {

constexpr size_t kRunsNamed = 8;  // in a title; the rest is counted

const char* SeverityClass(Severity severity) {
  switch (severity) {
    case Severity::kSevere:
      return "severe";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      break;
  }
  return "note";
}

std::string Tag(std::string_view text) {
  return fmt::format("<span class=\"tag\">{}</span>", HtmlEscape(text));
}

std::string Labelled(std::string_view label, const std::string& html) {
  return fmt::format("<p class=\"labelled\"><span class=\"label\">{}</span> {}</p>\n",
                     HtmlEscape(label), html);
}

}  // namespace

std::string HtmlEscape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

HtmlWriter::HtmlWriter(const Document& document)
    : document_(document), words_(WordsOf(document.language)), budget_(BudgetOf(document)) {}

// Links to the first run, names all of them.
std::string HtmlWriter::Linked(const std::string& html, const SourceRefs& refs) const {
  if (refs.empty()) return html;
  std::string title = words_.run;
  for (size_t i = 0; i < refs.size() && i < kRunsNamed; ++i) {
    title += (i == 0 ? " " : ", ") + document_.sources[refs[i]].id;
  }
  if (refs.size() > kRunsNamed) title += fmt::format(", … ({})", refs.size());
  return fmt::format("<a class=\"run\" href=\"#run-{}\" title=\"{}\">{}</a>",
                     HtmlEscape(document_.sources[refs[0]].id), HtmlEscape(title), html);
}

std::string HtmlWriter::RunLinks(const SourceRefs& refs) const {
  std::string out;
  for (const int32_t ref : refs) {
    const std::string id = HtmlEscape(document_.sources[ref].id);
    out +=
        fmt::format("{}<a class=\"run\" href=\"#run-{}\">{}</a>", out.empty() ? "" : ", ", id, id);
  }
  return out;
}

std::string HtmlWriter::Figure(const Cell& cell, std::string_view unit) const {
  std::string text = HtmlEscape(CellText(cell));
  if (cell.value && !unit.empty()) text += " " + HtmlEscape(unit);
  return Linked(text, cell.sources);
}

void HtmlWriter::Write(const Paragraph& paragraph, std::string* out) const {
  *out += fmt::format("<p>{}</p>\n", HtmlEscape(paragraph.text));
}

void HtmlWriter::Write(const BulletList& list, std::string* out) const {
  *out += "<ul>\n";
  for (const std::string& item : list.items) *out += fmt::format("<li>{}</li>\n", HtmlEscape(item));
  *out += "</ul>\n";
}

void HtmlWriter::Write(const Banner& banner, std::string* out) const {
  *out += fmt::format("<div class=\"banner {}\"><p>{}</p></div>\n", SeverityClass(banner.severity),
                      HtmlEscape(banner.text));
}

void HtmlWriter::Write(const Finding& finding, std::string* out) const {
  const auto level = static_cast<size_t>(finding.confidence);
  *out += fmt::format(
      "<article class=\"finding {}\" id=\"{}\">\n<p class=\"tags\">{}{}{}<span "
      "class=\"dim\">{} · {}: {}</span></p>\n<h3>{}</h3>\n",
      SeverityClass(finding.severity), HtmlEscape(finding.id), Tag(finding.id), Tag(finding.rule),
      finding.grade.empty() ? "" : Tag(finding.grade),
      HtmlEscape(words_.severities[static_cast<size_t>(finding.severity)]),
      HtmlEscape(words_.confidence), HtmlEscape(words_.confidence_levels[level]),
      HtmlEscape(finding.headline));
  if (!finding.meaning.empty()) *out += fmt::format("<p>{}</p>\n", HtmlEscape(finding.meaning));
  if (!finding.evidence.empty()) {
    std::string list;
    for (const Evidence& evidence : finding.evidence) {
      list += fmt::format("<span class=\"fact\">{} <b>{}</b></span> ", HtmlEscape(evidence.label),
                          Figure(evidence.figure, evidence.unit));
    }
    *out += Labelled(words_.evidence, list);
  }
  if (!finding.alternatives.empty()) {
    std::string list;
    for (const std::string& text : finding.alternatives)
      list += fmt::format("{}{}", list.empty() ? "" : " · ", HtmlEscape(text));
    *out += Labelled(words_.alternatives, list);
  }
  if (!finding.sources.empty()) *out += Labelled(words_.run, RunLinks(finding.sources));
  *out += "</article>\n";
}

void HtmlWriter::Write(const Advice& advice, std::string* out) const {
  static constexpr std::array<const char*, 3> kClass = {"severe", "warning", "note"};
  const auto priority = static_cast<size_t>(advice.priority);
  *out += fmt::format(
      "<article class=\"finding advice {}\" id=\"{}\">\n<p class=\"tags\">{}{}</p>\n<h3>{}</h3>\n",
      kClass[priority], HtmlEscape(advice.id), Tag(fmt::format("P{}", priority)), Tag(advice.id),
      HtmlEscape(advice.action));
  if (!advice.effect.empty()) *out += Labelled(words_.effect, HtmlEscape(advice.effect));
  if (!advice.experiment.empty())
    *out += Labelled(words_.experiment, fmt::format("<span class=\"experiment\">{}</span>",
                                                    HtmlEscape(advice.experiment)));
  std::string basis;
  for (const std::string& id : advice.findings) {
    basis += fmt::format("{}<a href=\"#{}\">{}</a>", basis.empty() ? "" : ", ", HtmlEscape(id),
                         HtmlEscape(id));
  }
  if (!basis.empty()) *out += Labelled(words_.basis, basis);
  *out += "</article>\n";
}

void HtmlWriter::WriteSources(std::string* out) const {
  *out += fmt::format(
      "<section id=\"runs\">\n<h2>{}</h2>\n<p>{}</p>\n<div class=\"table-wrap\"><table "
      "class=\"sortable\">\n<thead><tr>",
      HtmlEscape(words_.runs), HtmlEscape(words_.runs_note));
  for (size_t i = 0; i < std::size(words_.source_columns); ++i) {
    *out += fmt::format("<th scope=\"col\"{}>{}</th>", i == 4 ? " class=\"num\"" : "",
                        HtmlEscape(words_.source_columns[i]));
  }
  *out += "</tr></thead>\n<tbody>\n";
  for (const Source& source : document_.sources) {
    const std::string id = HtmlEscape(source.id);
    std::string file = fmt::format("<code>{}</code>", HtmlEscape(source.file));
    if (source.line > 0) {
      file += fmt::format(", {}", HtmlEscape(fmt::format(fmt::runtime(words_.line), source.line)));
    }
    *out += fmt::format(
        "<tr id=\"run-{}\"{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
        "class=\"num\">{}</td><td>{}{}</td></tr>\n",
        id, source.invalid.empty() ? "" : " class=\"invalid\"", id, HtmlEscape(source.campaign),
        HtmlEscape(source.scenario), HtmlEscape(source.configuration),
        source.concurrency > 0 ? std::to_string(source.concurrency) : "–", file,
        source.invalid.empty()
            ? ""
            : fmt::format("<br><span class=\"reason\">{}</span>", HtmlEscape(source.invalid)));
  }
  *out += "</tbody>\n</table></div>\n</section>\n";
}

}  // namespace firesteel
