// Runs a grid: for each repeat and configuration one server of our own, measured at every
// concurrency, one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "bench/grid_config.h"
#include "bench/grid_report.h"
#include "firesteel/status.h"

namespace firesteel {

struct GridRun {
  std::string binary;      // path of `firesteel`
  std::string output_dir;  // made when absent
  // Hears about phases ("dspark, repeat 1 of 3, concurrency 8") with the fraction of the whole that
  // is done. May be null.
  std::function<void(const std::string& phase, double fraction)> progress = nullptr;
  const std::atomic<bool>* stop =
      nullptr;  // may be null; once true, servers are ended and kCancelled returned
};

// Writes `output_dir`/cells/<configuration>-c<concurrency>-r<repeat>.json (raw results), logs/
// (what the servers wrote) and summary.json. Outputs that differ are not an error here: see
// GridReport::AllIdsEqual. Errors: a server that does not start, naming the last line it wrote;
// files; kCancelled. No server outlives the call.
Result<GridReport> RunGrid(const GridConfig& config, const GridRun& run);

}  // namespace firesteel
