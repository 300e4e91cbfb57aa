// Whether a run may be used: findings, each with its figures. Thresholds are those that the
// published serving benchmarks lack; what was overridden is said in the finding.
//
// Functions without state, thread-safe.
#pragma once

#include "bench/load_generator.h"
#include "bench/run_result.h"

namespace firesteel {

// Sets run->findings.
void JudgeRun(const LoadGeneratorOptions& options, const LoadResult& load, RunResult* run);

// SummarizeRun and JudgeRun.
RunResult MakeRunResult(const LoadGeneratorOptions& options, const LoadResult& load);

}  // namespace firesteel
