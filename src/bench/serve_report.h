// The figures of one load run, as a table for people and as JSON for programs. Key names are those
// of vLLM's benchmark.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/load_generator.h"
#include "bench/run_result.h"
#include "bench/statistics.h"

namespace firesteel {

struct ServeMetrics {
  size_t completed = 0;
  size_t failed = 0;
  std::map<std::string, size_t> errors;  // message -> how many requests
  double duration_s = 0;
  int64_t input_tokens = 0;  // of completed requests, as the server counted
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;       // of the input, from the server's prefix cache
  std::string output_count_basis;  // "usage", "token_ids", "chunks", or "mixed"
  std::string itl_basis;           // "token_ids" or "chunk"
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double total_tokens_per_s = 0;
  Statistics ttft_ms;
  Statistics tpot_ms;
  Statistics itl_ms;
  Statistics e2e_ms;
  std::optional<SpecCounters> spec;
};

ServeMetrics ComputeServeMetrics(const LoadResult& result);

// The table, lines of 50 columns ending in '\n'.
std::string FormatServeTable(const ServeMetrics& metrics, int32_t max_concurrency);
// What else a person wants to know of a run: from when requests were due, the steady part, goodput,
// how the client fared; then a line for each finding, the worst last.
std::string FormatRunDetails(const RunResult& run);

// An object: the figures under vLLM's names, and "run" with everything (run_result.h); `detailed`
// adds the requests (request_record.h). `run` null: it is made here.
Json ServeResultJson(const LoadGeneratorOptions& options, const LoadResult& result,
                     const ServeMetrics& metrics, bool detailed, const RunResult* run = nullptr);

}  // namespace firesteel
