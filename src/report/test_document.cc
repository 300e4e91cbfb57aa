#include "report/test_document.h"

#include <fmt/format.h>

#include <cmath>

namespace firesteel {
namespace {

constexpr int32_t kLevels[] = {1, 2, 4, 8, 16, 32, 64, 96, 128};
constexpr const char* kNames[] = {"none", "ngram", "eagle3", "dspark"};

double Speed(int name, double c) {
  const double gain[] = {1, 1.15, 1.7, 2.1};
  return 95 * gain[name] * c / (1 + c / (40.0 - 4 * name)) * 1.2;
}
double Tpot(int name, double c) { return 1000 * c / Speed(name, c); }

// Sources: one per configuration and level, then one void run.
int32_t SourceOf(int name, size_t level) {
  return static_cast<int32_t>(name * std::size(kLevels) + level);
}

Chart Throughput() {
  Chart chart{.id = "throughput",
              .title = "Output throughput against concurrency",
              .x = {.title = "concurrency", .log = true},
              .y = {.title = "output tok/s"}};
  for (int n = 0; n < 4; ++n) {
    Series series{.name = kNames[n], .points = {}};
    for (size_t l = 0; l < std::size(kLevels); ++l) {
      const double y = Speed(n, kLevels[l]);
      series.points.push_back({.x = static_cast<double>(kLevels[l]),
                               .y = y,
                               .low = y * 0.95,
                               .high = y * 1.05,
                               .hollow = n == 1 && l == 4,
                               .sources = {SourceOf(n, l)}});
    }
    chart.series.push_back(std::move(series));
  }
  chart.series.push_back(
      {.name = "ideal", .points = {{.x = 1, .y = 200}, {.x = 20, .y = 4000}}, .dashed = true});
  chart.marks.push_back({.at_x = true, .at = 32, .label = "knee at c=32"});
  chart.note = "Bars: 95 % interval over three repeats. Hollow: a run that does not count.";
  return chart;
}

Chart Latency() {
  Chart chart{.id = "ttft",
              .title = "TTFT against concurrency: median, band to P99",
              .x = {.title = "concurrency", .log = true},
              .y = {.title = "TTFT ms", .log = true}};
  for (const int n : {0, 3}) {
    Series series{.name = kNames[n], .points = {}, .band = true};
    for (size_t l = 0; l < std::size(kLevels); ++l) {
      const double y = 40 + 6 * std::pow(kLevels[l], 1.2) / (1 + n * 0.2);
      series.points.push_back({.x = static_cast<double>(kLevels[l]),
                               .y = y,
                               .low = y * 0.8,
                               .high = y * 3,
                               .sources = {SourceOf(n, l)}});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart Pareto() {
  Chart chart{.id = "pareto",
              .kind = ChartKind::kScatter,
              .title = "Throughput against speed per user",
              .x = {.title = "tok/s per user (1 / TPOT)"},
              .y = {.title = "output tok/s"}};
  for (const int n : {0, 2, 3}) {
    Series points{.name = kNames[n], .points = {}};
    Series frontier{.name = std::string(kNames[n]) + ", frontier", .points = {}, .dashed = true};
    for (size_t l = 0; l < std::size(kLevels); ++l) {
      points.points.push_back({.x = 1000 / Tpot(n, kLevels[l]),
                               .y = Speed(n, kLevels[l]),
                               .label = fmt::format("c={}", kLevels[l]),
                               .sources = {SourceOf(n, l)}});
      frontier.points.push_back(points.points.back());
      frontier.points.back().label.clear();
    }
    chart.series.push_back(std::move(points));
    chart.series.push_back(std::move(frontier));
  }
  return chart;
}

Chart Acceptance() {
  Chart chart{.id = "acceptance",
              .kind = ChartKind::kBar,
              .title = "Acceptance per draft position",
              .x = {.title = "draft position", .categories = {"1", "2", "3", "4", "5", "6", "7"}},
              .y = {.title = "share accepted"}};
  for (const int n : {2, 3}) {
    Series bars{.name = kNames[n], .points = {}};
    Series conditional{
        .name = std::string(kNames[n]) + ", given the one before", .points = {}, .dashed = true};
    double all = 1;
    for (int i = 0; i < 7; ++i) {
      const double p = 0.86 - 0.015 * i - (n == 2 ? 0.1 : 0);
      all *= p;
      bars.points.push_back({.x = static_cast<double>(i), .y = all, .sources = {SourceOf(n, 0)}});
      conditional.points.push_back(
          {.x = static_cast<double>(i), .y = p, .sources = {SourceOf(n, 0)}});
    }
    chart.series.push_back(std::move(bars));
    chart.series.push_back(std::move(conditional));
  }
  return chart;
}

Chart Ecdf() {
  Chart chart{.id = "tpot-ecdf",
              .kind = ChartKind::kEcdf,
              .title = "Distribution of TPOT at c=32",
              .x = {.title = "TPOT ms", .log = true},
              .y = {.title = "share of requests"}};
  for (const int n : {0, 1, 3}) {
    Series series{.name = kNames[n], .points = {}};
    for (int i = 1; i <= 3000; ++i) {
      const double p = i / 3001.0;
      series.points.push_back({.x = Tpot(n, 32) * std::exp(0.25 * std::log(p / (1 - p))),
                               .y = p,
                               .sources = {SourceOf(n, 5)}});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart Histogram() {
  Chart chart{.id = "itl-histogram",
              .kind = ChartKind::kHistogram,
              .title = "Gaps between stream events at c=32",
              .x = {.title = "gap ms", .log = true},
              .y = {.title = "share of samples"}};
  for (const int n : {0, 3}) {
    Series series{.name = kNames[n], .points = {}};
    for (int i = 0; i < 60; ++i) {
      const double x = 4 * std::exp(i * 0.08);
      const double d = std::log(x / (Tpot(n, 32) * (n == 3 ? 1.9 : 1)));
      series.points.push_back(
          {.x = x, .y = 0.09 * std::exp(-4 * d * d), .sources = {SourceOf(n, 5)}});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart Heatmap() {
  Chart chart{.id = "speedup",
              .kind = ChartKind::kHeatmap,
              .title = "Speedup over none",
              .x = {.title = "concurrency", .categories = {"1", "8", "32", "128"}},
              .y = {.title = "scenario", .categories = {"chat_short", "rag_medium"}}};
  Series series{.name = "dspark", .points = {}};
  const double values[2][4] = {{2.31, 1.92, 1.31, 0.97}, {1.72, 1.4, 1.06, 0.88}};
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 4; ++x) {
      series.points.push_back({.x = static_cast<double>(x),
                               .y = static_cast<double>(y),
                               .value = values[y][x],
                               .sources = {SourceOf(3, x), SourceOf(0, x)}});
    }
  }
  chart.series.push_back(std::move(series));
  return chart;
}

Table Core() {
  Table table{.id = "throughput",  // as its section and a chart
              .title = "All runs",
              .columns = {{.id = "scenario", .title = "Scenario"},
                          {.id = "concurrency", .title = "Concurrency", .numeric = true},
                          {.id = "method", .title = "Method"},
                          {.id = "output",
                           .title = "Out tok/s",
                           .unit = "tok/s",
                           .numeric = true,
                           .better = Better::kHigher},
                          {.id = "tpot",
                           .title = "Mean TPOT",
                           .unit = "ms",
                           .numeric = true,
                           .better = Better::kLower},
                          {.id = "tau", .title = "Accept length", .numeric = true}},
              .rows = {},
              .notes = {"Bold: best of its cell; underlined: within the noise of the best."}};
  for (size_t l = 0; l < std::size(kLevels); l += 2) {
    for (int n = 0; n < 4; ++n) {
      const SourceRefs refs = {SourceOf(n, l)};
      const double speed = Speed(n, kLevels[l]);
      const Emphasis mark = n == 3             ? Emphasis::kBest
                            : n == 2 && l > 5  ? Emphasis::kTie
                            : n == 1 && l == 4 ? Emphasis::kVoid
                                               : Emphasis::kNone;
      table.rows.push_back(
          {{.text = "chat_short"},
           {.value = kLevels[l], .decimals = 0},
           {.text = kNames[n]},
           {.value = speed,
            .low = speed * 0.95,
            .high = speed * 1.05,
            .emphasis = mark,
            .sources = refs},
           {.value = Tpot(n, kLevels[l]), .emphasis = mark, .sources = refs},
           n == 0 ? Cell{.text = "–"} : Cell{.value = 1 + 0.9 * n, .sources = refs}});
    }
  }
  return table;
}

}  // namespace

Document TestDocument(Language language) {
  Document document{.language = language,
                    .title = "dspark and others on the demo model",
                    .sections = {},
                    .sources = {}};
  for (const char* name : kNames) {
    for (const int32_t level : kLevels) {
      document.sources.push_back({.id = fmt::format("R{}", document.sources.size() + 1),
                                  .file = fmt::format("out/demo/runs/{}-c{}.run.json", name, level),
                                  .campaign = "demo",
                                  .scenario = "chat_short",
                                  .configuration = name,
                                  .concurrency = level});
    }
  }
  document.sources.push_back({.id = "R\"><i>",
                              .file = "</script><script>throw 1</script>",
                              .line = 7,
                              .configuration = "<img src=x onerror=alert(1)>",
                              .invalid = "3 of 4 requests failed"});
  const auto hostile = static_cast<int32_t>(document.sources.size() - 1);

  const Finding jitter{
      .id = "F1",
      .rule = "TTFT_JITTER",
      .grade = "severe",
      .severity = Severity::kSevere,
      .confidence = Confidence::kHigh,
      .scenario = "chat_short",
      .configuration = "dspark",
      .concurrency = 32,
      .headline = "At c=32 the slowest first tokens of dspark come 9.1 times later than the mean.",
      .meaning =
          "Slow requests are spread over the run, which speaks for queueing, not for warm-up.",
      .evidence = {{.key = "mean",
                    .label = "mean TTFT",
                    .figure = {.value = 120.4, .decimals = 1, .sources = {SourceOf(3, 5)}},
                    .unit = "ms"},
                   {.key = "p99",
                    .label = "P99 TTFT",
                    .figure = {.value = 1095.2, .decimals = 1, .sources = {SourceOf(3, 5)}},
                    .unit = "ms"}},
      .alternatives = {"prompts of very different length", "a busy client"},
      .sources = {SourceOf(3, 5)}};
  const Finding note{.id = "F2",
                     .rule = "SATURATION",
                     .severity = Severity::kNote,
                     .headline = "From c=64 to c=96 throughput of none grows by 3.2 %.",
                     .meaning = "The knee lies at c=32."};
  const Advice advice{.id = "A1",
                      .priority = Priority::kP0,
                      .action = "Use 3 draft tokens from c=32 on.",
                      .effect = "+4.1 % to +8.3 % output throughput at c=64",
                      .experiment = "firesteel bench grid grids/demo.yaml",
                      .findings = {"F1", "F2"}};
  document.sections = {
      {.id = "summary",
       .title = "Verdict",
       .blocks = {Paragraph{
                      "dspark gives 2.1 times the output throughput of plain decoding at c=1 and "
                      "1.3 times at c=128; no configuration is slower than none at any level."},
                  BulletList{{"36 runs, three repeats each, 200 requests a run",
                              "Output ids of all configurations are equal"}},
                  Banner{Severity::kWarning, "One run does not count: 3 of 4 requests failed."}}},
      {.id = "throughput",
       .title = "Throughput and latency",
       .blocks = {Core(), Throughput(), Latency(), Pareto(), Heatmap()}},
      {.id = "speculation",
       .title = "Speculation",
       .blocks = {Paragraph{"Positions are accepted one after another; the line is the share among "
                            "rounds that got that far."},
                  Acceptance()}},
      {.id = "distributions", .title = "Distributions", .blocks = {Ecdf(), Histogram()}},
      {.id = "findings", .title = "Findings", .blocks = {jitter, note}},
      {.id = "advice", .title = "Recommendations", .blocks = {advice}},
      {.id = "hostile",
       .title = "<b>Text</b> & \"quotes\"",
       .blocks = {Paragraph{"</p><script>throw new Error('planted')</script>"},
                  Table{.id = "x\" onload=\"alert(1)",
                        .title = "<!--",
                        .columns = {{.id = "a", .title = "</th><img src=x>", .numeric = true}},
                        .rows = {{{.text = "<script>throw 2</script>",
                                   .emphasis = Emphasis::kVoid,
                                   .sources = {hostile}}}}},
                  Chart{.id = "hostile-chart",
                        .title = "</script><script>throw 3</script>",
                        .x = {.title = "<x>", .categories = {"<img src=x onerror=throw>", "{b|c}"}},
                        .y = {.title = "</script>"},
                        .series = {{.name = "<!--<script>",
                                    .points = {{.x = 0,
                                                .y = 1,
                                                .label = "</script>{a|b}",
                                                .sources = {hostile}},
                                               {.x = 1, .y = std::nan("")},
                                               {.x = 1, .y = 2}}}},
                        .marks = {{.at_x = false, .at = 1.5, .label = "<i>mark"}}}}},
  };
  return document;
}

}  // namespace firesteel
