// Where a grid's results lie: one file for each measured cell, written whole or not at all, so that
// a grid which was killed goes on where it stood.
//
//   DIR/cells/…json      results
//   DIR/failed/…json     why a cell has no result; gone once it has one
//   DIR/superseded/…     results of cells whose work or server is another now; never read
//   DIR/logs/            what servers wrote
//
// One grid at a time: the directory is locked while the store is open. One thread.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "bench/grid_plan.h"
#include "firesteel/status.h"

namespace firesteel {

class GridStore {
 public:
  // Makes what is missing. kUnavailable while another grid has the directory.
  static Result<GridStore> Open(const std::string& directory);
  GridStore(GridStore&& other) noexcept;
  GridStore& operator=(GridStore&& other) = delete;
  ~GridStore();

  // The result of this cell's work on this cell's server. nullopt: to be measured.
  std::optional<Json> Find(const PlannedCell& cell) const;
  // Adds to `result` which cell it is of. What lay there before is set aside.
  Status Put(const PlannedCell& cell, Json result);
  Status PutFailure(const PlannedCell& cell, const std::string& error);
  // Sets the cell's result aside, if there is one, so that it is measured again.
  Status SetAside(const PlannedCell& cell);

  // DIR/logs/NAME; makes folders that the name holds.
  std::string LogStem(const std::string& name) const;
  const std::string& directory() const { return directory_; }

 private:
  GridStore(std::string directory, int lock) : directory_(std::move(directory)), lock_(lock) {}

  std::string directory_;
  int lock_;
};

}  // namespace firesteel
