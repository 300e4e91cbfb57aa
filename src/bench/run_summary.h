// From the records of a run to its figures.
//
// Functions without state, thread-safe.
#pragma once

#include "bench/load_generator.h"
#include "bench/run_result.h"

namespace firesteel {

// Everything but RunResult::findings, which run_validity.h adds.
RunResult SummarizeRun(const LoadGeneratorOptions& options, const LoadResult& load);

// Whether a successful request meets all limits. A time per token that one token does not have
// counts as 0.
bool MeetsLimits(const RequestRecord& record, const GoodputLimits& limits);

}  // namespace firesteel
