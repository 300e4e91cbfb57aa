// A closed loop of clients against an engine in the same process: what it gives per second while
// every client always has a request running.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "firesteel/engine.h"
#include "firesteel/status.h"

namespace firesteel {

struct Load {
  int32_t concurrency = 1;
  int32_t max_tokens = 128;
  int32_t spec_tokens = -1;   // SamplingParams::spec_tokens of every request
  double settle_seconds = 1;  // before the window
  double seconds = 10;        // of the window
  // The i-th prompt, from 0 on. Called from one thread.
  std::function<std::vector<int32_t>(int64_t)> prompt;
};

struct LoadResult {
  double tokens_per_second = 0;
  // Of requests that ended within the window: (last token - first token) / (tokens - 1).
  std::vector<double> tpot_seconds;
};

// Greedy, end marks ignored. Requests that still run at the end are cancelled. A request that fails
// is the error.
Result<LoadResult> RunLoad(Engine& engine, const Load& load);

}  // namespace firesteel
