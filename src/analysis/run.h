// Results as one model, whichever tool wrote them: runs with configuration, workload, measures and
// where each was read. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/metrics.h"
#include "base/json.h"

namespace firesteel {

enum class ResultFormat { kNative, kSummary, kVllm, kSglang, kReportTable };

const char* ResultFormatName(ResultFormat format);  // "firesteel", "summary", "vllm", …

// Where a run was read. A run that several files tell has several.
struct RunOrigin {
  std::string file;
  int32_t line = 0;         // 1-based; 0: the file as a whole
  std::string record = {};  // the file's own name for it: "C001", a run id
  ResultFormat format = ResultFormat::kNative;
};

// What was measured against what. Runs with equal names are repeats of one configuration.
struct Configuration {
  std::string name;    // "DSpark-st5"
  std::string engine;  // "vllm-dspark", "sglang"; "" when the file does not say
  std::string engine_version;
  std::string method;                  // "DSpark", "EAGLE", "none"; "" unknown
  std::optional<int32_t> spec_tokens;  // drafted per step; 0: no speculation
  std::optional<int32_t> gpus;
  std::map<std::string, std::string> settings;  // whatever else the file says

  bool IsBaseline() const { return spec_tokens == 0; }
};

// What the requests were. Everything may be unknown.
struct RunWork {
  std::string dataset;
  std::optional<int64_t> max_input;  // bounds: lengths are uniform from range_ratio * bound
  std::optional<int64_t> max_output;
  std::optional<double> range_ratio;        // 1: lengths are the bounds
  std::optional<int64_t> requested_output;  // one length for all, as asked for
  std::optional<uint64_t> seed;
  std::optional<int64_t> prompts;  // N, as asked for
  std::optional<int64_t> completed;
  std::optional<int64_t> failed;
  std::optional<int64_t> input_tokens;  // of completed requests
  std::optional<int64_t> output_tokens;
  std::optional<bool> ignore_eos;
  std::string fingerprint;  // equal: the same requests; "" unknown
  std::string count_basis;  // who counted the output: "usage", "requested", …; "" unknown
  std::optional<int64_t> warmups;
  std::optional<double> cached_share;  // of the input, from the server's prefix cache

  std::optional<double> MeanInput() const;
  std::optional<double> MeanOutput() const;  // from totals only
};

// Lists over requests, where the file has them; in ms.
struct RunSamples {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2e;
  std::vector<double> output_lengths;
};

struct Run {
  std::string id;  // unique within the results
  std::vector<RunOrigin> origins;
  std::string campaign;  // runs that were made to be compared share it
  std::string scenario;
  Configuration configuration;
  int32_t concurrency = 0;  // 0: unknown or open loop
  int32_t repeat = 1;
  RunWork work;
  Measures measures;
  RunSamples samples;
  std::vector<double> acceptance_per_position;  // accepted at p / drafts
  std::optional<double> tokens_per_draft;       // drafted tokens per step
  std::optional<double> step_cost_share;        // bytes of a draft pass / bytes of a target step
  std::optional<double> preemptions;            // of the server during the run
  std::optional<double> kv_usage_max;           // 0 … 1
  std::optional<bool> ids_equal;                // outputs are the reference's
  bool ballast = false;  // the target carries layers that cost time and change nothing
  bool quoted = false;   // a figure that the file quotes or rounds, not a measurement of its own
  std::vector<std::string> void_reasons;  // why it must not be compared; empty: it may
  std::vector<std::string> notes;
  Json raw;  // the object as read; null for a table's row

  bool valid() const { return void_reasons.empty(); }
};

// A figure that a report's author computed or wrote in prose. Checked against the runs, never
// used as one.
struct Claim {
  std::string campaign;
  std::string what;  // key: "speedup", "improvement_pct", "p99_over_mean", "drop_pct", "text", …
  std::string scenario;
  std::string configuration;  // as far as the claim names one
  std::string baseline;
  int32_t concurrency = 0;
  std::optional<int32_t> spec_tokens;
  std::optional<double> value;
  std::optional<double> high;  // of a range
  std::optional<Metric> metric;
  std::string text;
  RunOrigin origin;
};

// Runs that were made together and are compared with each other.
struct Campaign {
  std::string id;
  std::string title = {};  // "" when the files say none
  std::string date = {};
  std::map<std::string, std::string> facts = {};  // hardware, model, client, warm-up …
};

struct Results {
  std::vector<Campaign> campaigns;
  std::vector<Run> runs;
  std::vector<Claim> claims;
  std::vector<std::string> log;  // one line per rule that the import applied
};

}  // namespace firesteel
