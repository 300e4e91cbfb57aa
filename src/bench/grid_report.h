// What a grid run found: cells, whether their output ids agree, the table and summary.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/load_generator.h"
#include "bench/serve_report.h"
#include "bench/server_banner.h"

namespace firesteel {

// One configuration at one concurrency, over all repeats.
struct GridCell {
  std::string configuration;
  int32_t concurrency = 0;
  std::string scenario = {};  // "" in a grid of one
  ServerBanner server = {};
  std::vector<ServeMetrics> runs = {};  // one per repeat
  bool ids_compared = true;  // false where other ids are no fault: other engines, unseeded noise
  bool ids_equal = true;  // every output of every repeat is the reference's, and no request failed
  size_t prompts_compared = 0;  // outputs compared with a reference from another run
  std::string difference = {};  // the first one, in words; "" while equal
};

// Compares the output ids of every run with the first run that had the same prompt. The first run
// is the baseline at the lowest concurrency; prompts that only larger runs have are compared with
// the baseline's run of them.
class IdentityCheck {
 public:
  // Call in the order of the runs. Updates ids_equal, prompts_compared and difference of `cell`.
  void Add(const std::vector<RequestRecord>& records, GridCell* cell);

 private:
  std::map<std::string, std::vector<int32_t>> reference_;
};

struct GridReport {
  std::vector<GridCell>
      cells;  // by scenario, configuration, concurrency; the first configuration is the baseline
  std::vector<std::string> failures = {};  // one line each: which cell, why
  std::vector<std::string> voids = {};     // runs that must not be compared: which, why
  size_t measured_before = 0;  // cells whose result an earlier start of the grid had left

  bool AllIdsEqual() const;  // of the cells that were compared
  // Distinct outputs of one cell at most, over cells: "N prompts × M cells".
  size_t NumPrompts() const;
};

// Figures of a cell are medians over its repeats. A list as `summary.json` holds it. Speedups are
// against the first configuration of the same model at the same scenario and concurrency.
Json GridSummaryJson(const GridReport& report);

// The table, the note on ballast, what each configuration reads, and the line on output ids.
std::string FormatGridReport(const GridReport& report);

}  // namespace firesteel
