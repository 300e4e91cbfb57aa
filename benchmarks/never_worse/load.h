// A closed loop of clients against an engine in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "firesteel/engine.h"
#include "firesteel/status.h"

namespace firesteel {

struct Load {
  int32_t concurrency = 1;
  int32_t num_requests = 1;  // in all; the next is sent when one ends
  int32_t spec_tokens = -1;  // SamplingParams::spec_tokens of every request
  // The i-th prompt and how many tokens it is answered with. Called from one thread.
  std::function<std::vector<int32_t>(int64_t)> prompt;
  std::function<int32_t(int64_t)> max_tokens;
};

struct LoadResult {
  // All tokens over the time from the first request to the last token: each setting does the same
  // work, prompts and the emptying end included.
  double tokens_per_second = 0;
  int64_t tokens = 0;
  double seconds = 0;
  std::vector<double> tpot_seconds;  // of each request: (last token - first token) / (tokens - 1)
};

// Greedy, end marks ignored. A request that fails is the error.
Result<LoadResult> RunLoad(Engine& engine, const Load& load);

}  // namespace firesteel
