// The figures of the last ten seconds as lines of the log, worded as vLLM's, so that eyes and
// scripts that know those find them.
//
// One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "firesteel/engine.h"

namespace firesteel {

class StatsLog {
 public:
  // The lines of the time since the last call, `seconds` ago: throughput and load; and, where
  // anything was drafted, acceptance. Empty while nothing happens.
  std::vector<std::string> Lines(const EngineStats& now, double seconds);

 private:
  EngineStats last_;
};

}  // namespace firesteel
