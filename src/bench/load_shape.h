// When requests go out: an absolute schedule, computed before the run.
//
// Functions without state, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/request_body.h"
#include "bench/run_result.h"
#include "firesteel/status.h"

namespace firesteel {

// Offsets from the start in nanoseconds, ascending, one for each of `count` requests; empty for a
// closed loop. `timestamps_ms` are the rows' times, for traces alone.
//
// Gaps are exponential (poisson), gamma distributed with shape `burstiness` and the same mean, or
// all equal (constant); with a ramp, request i's gap has the rate at i / (count - 1) of the way.
// vLLM's dialect draws from numpy's generator and, without a ramp, stretches the schedule so that
// it ends at count / rate; SGLang's lets the first request go at 0. kInvalidArgument where the
// shape lacks what its kind needs.
Result<std::vector<int64_t>> ArrivalsOf(const LoadShape& shape, Dialect dialect, size_t count,
                                        const std::vector<double>& timestamps_ms);

}  // namespace firesteel
