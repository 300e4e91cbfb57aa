// One cell of a grid: load on its server, and everything about it as one JSON object.
#pragma once

#include <atomic>
#include <functional>

#include "base/json.h"
#include "bench/grid_config.h"
#include "bench/grid_plan.h"
#include "bench/grid_report.h"
#include "bench/grid_server.h"
#include "bench/grid_work.h"
#include "firesteel/status.h"

namespace firesteel {

// What `bench serve` writes of a run, with the cell, the server and what its metrics were. An
// error: the server does not answer, no request succeeded; kCancelled.
Result<Json> MeasureGridCell(const GridConfig& config, const PlannedCell& cell,
                             const GridWork& work, const GridServer& server,
                             const std::function<void(double part)>& progress,
                             const std::atomic<bool>* stop);

// What a stored result says about its cell. kDataCorrupt names `where` and the field.
struct StoredRun {
  ServerBanner server;
  ServeMetrics metrics;
  std::vector<std::string> void_reasons;
  std::vector<RequestRecord> outputs;  // prompt ids, output ids and errors alone
};
Result<StoredRun> ReadGridCell(const Json& result, const std::string& where);

}  // namespace firesteel
