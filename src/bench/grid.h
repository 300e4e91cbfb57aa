// Runs a grid: servers of several configurations, each measured on every scenario at every
// concurrency, one at a time. A grid that was stopped, by whatever, goes on where it stood.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "bench/grid_config.h"
#include "bench/grid_report.h"
#include "firesteel/status.h"

namespace firesteel {

struct GridRun {
  std::string binary;      // path of `firesteel`
  std::string output_dir;  // made when absent; see grid_store.h
  bool restart = false;    // sets aside what was measured before, and measures all of it
  // Hears about phases ("dspark, repeat 1 of 3, concurrency 8") with the fraction of the whole that
  // is done. May be null.
  std::function<void(const std::string& phase, double fraction)> progress = nullptr;
  const std::atomic<bool>* stop =
      nullptr;  // may be null; once true, servers are ended and kCancelled returned
};

// Measures the cells that have no result yet, in an order against drift (grid_plan.h), and writes
// each into the output directory as soon as it is there; then summary.json over all of them, and
// environment.json. Outputs that differ are not an error here: see GridReport::AllIdsEqual.
//
// A cell that fails is noted in GridReport::failures and the grid goes on; after three in a row, or
// when a server does not start or is not healthy any more, with the next configuration. Errors:
// files; kUnavailable while another grid runs in the directory; kCancelled; the first failure when
// no cell has a result. No server outlives the call.
Result<GridReport> RunGrid(const GridConfig& config, const GridRun& run);

// What RunGrid would do, in words; starts and writes nothing.
Result<std::string> DescribeGrid(const GridConfig& config, const GridRun& run);

}  // namespace firesteel
