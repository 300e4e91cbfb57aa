// What the rules find in results. Language and layout come later (report.h): a hit holds figures
// and the keys of sentences.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cells.h"
#include "analysis/document.h"
#include "analysis/run.h"
#include "analysis/thresholds.h"
#include "firesteel/status.h"

namespace firesteel {

struct EvidenceItem {
  std::string key;  // "ttft_share": its label is the text "evidence.ttft_share"
  std::optional<double> value;
  int8_t decimals = 2;
  std::string unit = {};
  std::string text = {};  // when there is no value
};

struct Hit {
  std::string rule;     // "CLIFF"
  std::string grade;    // the rule's own: "cliff", "dip"
  std::string variant;  // which of the rule's sentences: "" or "recovered"
  Severity severity = Severity::kNote;
  Confidence confidence = Confidence::kMedium;
  std::string campaign;
  std::string scenario;
  std::string configuration;
  int32_t concurrency = 0;
  std::vector<EvidenceItem> evidence;
  // {1}, {2}, … of the sentences; {0} is where it was found. One that begins with '@' is the key of
  // a text.
  std::vector<std::string> arguments;
  std::vector<std::string> alternatives;  // keys of texts
  std::vector<int32_t> sources;           // runs

  Hit& Number(std::string key, double value, int8_t decimals, std::string unit = "");
  Hit& Text(std::string key, std::string text);
  // nullptr without such evidence.
  const EvidenceItem* Find(const std::string& key) const;
};

// A recommendation, made from hits only.
struct Recommendation {
  std::string key;  // "advice.<key>" and the sentences beside it
  Priority priority = Priority::kP2;
  std::vector<std::string> arguments;
  std::vector<size_t> hits;  // indices into Analysis::hits
};

// A comparison of all configurations in one cell.
enum class Verdict {
  kWinner,   // beyond the noise
  kTie,      // within it
  kUnequal,  // the work differs too much to be ranked
  kAlone,    // nothing to compare with
};

struct WinnerCell {
  std::string scenario;
  int32_t concurrency = 0;
  Metric metric = Metric::kOutputThroughput;
  const CellRuns* best = nullptr;
  const CellRuns* runner_up = nullptr;  // best of the other sides; null when alone
  RatioEstimate ratio = {};             // best over runner-up
  Verdict verdict = Verdict::kAlone;
  double work_difference = 0;  // of output per request, relative
};

// Configurations of one engine and method are one side; each side is represented by its best.
struct Comparison {
  std::string campaign;
  std::vector<std::string> sides;
  std::vector<WinnerCell> cells;

  // The side of a configuration.
  std::map<std::string, std::string> side_of;
  int Wins(const std::string& side) const;
  int Ties() const;
};

struct AnalysisOptions {
  Thresholds thresholds;
  std::string baseline;  // a configuration's name; "": the one without speculation
};

// Owns what it analyzed. Movable; pointers into it stay.
struct Analysis {
  std::unique_ptr<const Results> results;
  std::unique_ptr<const CellTable> cells;
  AnalysisOptions options;
  std::map<std::string, std::string> baselines;  // campaign -> configuration; absent: none
  std::vector<Comparison> comparisons;           // one per campaign
  std::vector<Hit> hits;
  std::vector<Recommendation> recommendations;
};

// kInvalidArgument when `options.baseline` is no configuration of the results: names those there
// are.
Result<Analysis> Analyze(Results results, AnalysisOptions options);

}  // namespace firesteel
