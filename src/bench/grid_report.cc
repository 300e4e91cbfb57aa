#include "bench/grid_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace firesteel {
namespace {

// The median over a cell's repeats of what `figure` gives; repeats without it do not count.
template <typename Figure>
std::optional<double> MedianOf(const GridCell& cell, Figure figure) {
  std::vector<double> samples;
  for (const ServeMetrics& run : cell.runs) {
    if (const std::optional<double> value = figure(run)) samples.push_back(*value);
  }
  return Median(std::move(samples));
}

std::optional<double> OutputSpeed(const GridCell& cell) {
  return MedianOf(cell, [](const ServeMetrics& m) -> std::optional<double> {
    if (m.output_tokens == 0) return std::nullopt;
    return m.output_tokens_per_s;
  });
}

std::optional<double> Latency(const GridCell& cell, Statistics ServeMetrics::*which,
                              double Statistics::*figure) {
  return MedianOf(cell, [=](const ServeMetrics& m) -> std::optional<double> {
    if ((m.*which).count == 0) return std::nullopt;
    return m.*which.*figure;
  });
}

// Over all repeats together: the counters add up, and so no median is wanted.
SpecCounters TotalSpec(const GridCell& cell) {
  SpecCounters total;
  for (const ServeMetrics& run : cell.runs) {
    if (!run.spec) continue;
    total.drafts += run.spec->drafts;
    total.draft_tokens += run.spec->draft_tokens;
    total.accepted_tokens += run.spec->accepted_tokens;
  }
  return total;
}

// Against the first configuration of the same model.
std::optional<double> Speedup(const GridReport& report, const GridCell& cell) {
  for (const GridCell& baseline : report.cells) {
    if (baseline.server.model != cell.server.model || baseline.scenario != cell.scenario ||
        baseline.concurrency != cell.concurrency)
      continue;
    const std::optional<double> ours = OutputSpeed(cell);
    const std::optional<double> theirs = OutputSpeed(baseline);
    if (ours && theirs && *theirs > 0) return *ours / *theirs;
    return std::nullopt;
  }
  return std::nullopt;
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string Show(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string CostLines(const GridReport& report) {
  std::string out;
  std::string last;
  bool ballast = false;
  std::set<std::string> shown;
  for (const GridCell& cell : report.cells) {
    if (cell.configuration == last) continue;
    last = cell.configuration;
    if (cell.server.target_bytes == 0 || !shown.insert(last).second) continue;
    ballast |= cell.server.ballast_bytes > 0;
    out += fmt::format("{}: {}", cell.configuration, FormatCost(cell.server));
    if (cell.server.draft_bytes > 0 && cell.server.target_bytes > 0) {
      out += fmt::format(" ({:.1f} % of a target step)",
                         100.0 * static_cast<double>(cell.server.draft_bytes) /
                             static_cast<double>(cell.server.target_bytes));
    }
    out += '\n';
  }
  if (ballast) {
    out +=
        "The target carries ballast: layers whose output is exactly zero, which are read and "
        "computed like any other.\n"
        "Tokens and acceptance are those of the small model, the cost of a step is that of a large "
        "one.\n";
  }
  return out;
}

}  // namespace

void IdentityCheck::Add(const std::vector<RequestRecord>& records, GridCell* cell) {
  const auto differ = [&](std::string how) {
    cell->ids_equal = false;
    if (cell->difference.empty()) cell->difference = std::move(how);
  };
  for (const RequestRecord& record : records) {
    if (!record.ok()) {
      differ(fmt::format("prompt {}: the request failed: {}", record.prompt_id, record.error));
      continue;
    }
    if (!record.token_ids) {
      differ(fmt::format("prompt {}: the server gave no output ids", record.prompt_id));
      continue;
    }
    const auto [entry, is_reference] = reference_.try_emplace(record.prompt_id, *record.token_ids);
    if (is_reference) continue;
    ++cell->prompts_compared;
    const std::vector<int32_t>& expected = entry->second;
    const std::vector<int32_t>& found = *record.token_ids;
    if (found == expected) continue;
    const size_t at = static_cast<size_t>(
        std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first -
        expected.begin());
    const auto id_at = [at](const std::vector<int32_t>& ids) {
      return at < ids.size() ? std::to_string(ids[at]) : std::string("the end");
    };
    differ(fmt::format("prompt {}: output token {} is {}, expected {}", record.prompt_id, at,
                       id_at(found), id_at(expected)));
  }
}

bool GridReport::AllIdsEqual() const {
  return !cells.empty() && std::all_of(cells.begin(), cells.end(), [](const GridCell& cell) {
    return cell.ids_equal || !cell.ids_compared;
  });
}

size_t GridReport::NumPrompts() const {
  size_t most = 0;
  for (const GridCell& cell : cells) {
    for (const ServeMetrics& run : cell.runs) most = std::max(most, run.completed + run.failed);
  }
  return most;
}

Json GridSummaryJson(const GridReport& report) {
  Json list = Json::array();
  for (const GridCell& cell : report.cells) {
    const SpecCounters spec = TotalSpec(cell);
    Json json;
    json["model"] = cell.server.model;
    json["method"] = cell.server.spec_method;
    json["concurrency"] = cell.concurrency;
    json["spec_tokens"] = cell.server.spec_tokens;
    json["output_tokens_per_s"] = OrNull(OutputSpeed(cell));
    json["speedup"] = OrNull(Speedup(report, cell));
    json["acceptance_length"] = OrNull(spec.AcceptanceLength());
    json["acceptance_rate"] = OrNull(spec.AcceptanceRate());
    json["ttft_ms"] =
        Json{{"mean", OrNull(Latency(cell, &ServeMetrics::ttft_ms, &Statistics::mean))},
             {"p99", OrNull(Latency(cell, &ServeMetrics::ttft_ms, &Statistics::p99))}};
    json["tpot_ms"] =
        Json{{"mean", OrNull(Latency(cell, &ServeMetrics::tpot_ms, &Statistics::mean))},
             {"p99", OrNull(Latency(cell, &ServeMetrics::tpot_ms, &Statistics::p99))}};
    json["ids_equal"] = cell.ids_compared ? Json(cell.ids_equal) : Json();
    if (!cell.scenario.empty()) json["scenario"] = cell.scenario;
    list.push_back(std::move(json));
  }
  return list;
}

std::string FormatGridReport(const GridReport& report) {
  size_t width = std::string_view("method").size();
  size_t scenario_width = 0;
  for (const GridCell& cell : report.cells) {
    width = std::max(width, cell.configuration.size());
    scenario_width = std::max(scenario_width, cell.scenario.size());
  }
  // A grid of one scenario has no column for it.
  const bool scenarios = scenario_width > 0;
  scenario_width = std::max(scenario_width, std::string_view("scenario").size());
  const auto scenario_column = [&](const std::string& text) {
    return scenarios ? fmt::format("{:<{}}  ", text, scenario_width) : std::string();
  };
  std::string out = scenario_column("scenario");
  out += fmt::format("{:<{}}  {:>11}  {:>9}  {:>7}  {:>10}  {:>10}  {:>9}  {:>9}  {}\n", "method",
                     width, "concurrency", "out tok/s", "speedup", "acc length", "acc rate %",
                     "TTFT ms", "TPOT ms", "ids equal");
  for (const GridCell& cell : report.cells) {
    const SpecCounters spec = TotalSpec(cell);
    const std::optional<double> rate = spec.AcceptanceRate();
    out += scenario_column(cell.scenario);
    out +=
        fmt::format("{:<{}}  {:>11}  {:>9}  {:>7}  {:>10}  {:>10}  {:>9}  {:>9}  {}\n",
                    cell.configuration, width, cell.concurrency, Show(OutputSpeed(cell), "{:.1f}"),
                    Show(Speedup(report, cell), "{:.2f}x"), Show(spec.AcceptanceLength(), "{:.2f}"),
                    Show(rate ? std::optional<double>(100 * *rate) : std::nullopt, "{:.1f}"),
                    Show(Latency(cell, &ServeMetrics::ttft_ms, &Statistics::mean), "{:.1f}"),
                    Show(Latency(cell, &ServeMetrics::tpot_ms, &Statistics::mean), "{:.2f}"),
                    !cell.ids_compared ? "-"
                    : cell.ids_equal   ? "yes"
                                       : "no");
  }
  out += '\n' + CostLines(report) + '\n';
  size_t compared = 0;
  for (const GridCell& cell : report.cells) {
    if (!cell.ids_compared) continue;
    ++compared;
    if (!cell.ids_equal) {
      out += fmt::format("{} at concurrency {}: {}\n", cell.configuration, cell.concurrency,
                         cell.difference);
    }
  }
  for (const std::string& failure : report.failures) out += fmt::format("failed: {}\n", failure);
  for (const std::string& reason : report.voids) out += fmt::format("void: {}\n", reason);
  if (compared > 0) {
    out += fmt::format("all output ids equal: {} ({} prompts × {} cells)\n",
                       report.AllIdsEqual() ? "yes" : "no", report.NumPrompts(), compared);
  }
  return out;
}

}  // namespace firesteel
