// One measured run: what was asked for, what was measured, and whether it may be used. Computed
// from the records (run_summary.h), written as JSON, read back by grids, reports and analyses.
//
// Latencies are in milliseconds and say so in their names. What was not measured is absent (null in
// JSON), never 0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/server_metrics.h"
#include "bench/statistics.h"
#include "firesteel/status.h"

namespace firesteel {

// Of the JSON below. Readers take this one and older ones.
inline constexpr int32_t kRunSchema = 1;

enum class RunStatus {
  kValid,
  kUnverified,  // usable, but the amount of work is not known: output was not counted by anybody
  kVoid,        // must not be compared: see the findings with severity kVoid
};

enum class FindingSeverity { kNote, kWarning, kUnverified, kVoid };

// Something about a run that a reader has to know. `id` is stable, the message is one sentence with
// the figures.
//
// Void: NO_SUCCESS, FAILURES, EARLY_EOS, CACHE_HITS, FOREIGN_TRAFFIC, CLIENT_BEHIND, CLIENT_LIMIT
// (the client itself was too slow), CPU_WITHHELD (the machine did not give the client its core),
// SELF_CHECK. Unverified: OUTPUT_NOT_COUNTED. Warnings and notes: SOME_FAILURES, SHORT_RUN,
// EDGE_DOMINATED, WARMUP_UNSTABLE, CLIENT_QUEUE, CHUNKED_ITL, PROMPT_LEN_DRIFT, RETOKENIZED_DRIFT,
// ACCEPTANCE_DRIFT, SHORT_OUTPUT, RECONNECTS, NOT_STREAMED, INTERRUPTED, SYNTHETIC_TEXT.
struct RunFinding {
  std::string id;
  FindingSeverity severity = FindingSeverity::kNote;
  std::string message;
};

// How requests were let go.
struct LoadShape {
  std::string kind = "closed";         // closed | poisson | gamma | constant | trace
  std::optional<double> request_rate;  // per second; nullopt: closed loop or trace
  double burstiness = 1;               // shape of the gamma distribution
  std::string ramp_up;                 // "" | linear | exponential
  std::optional<double> ramp_start_rate;
  std::optional<double> ramp_end_rate;
  int32_t max_concurrency = 0;  // 0: no cap
  uint64_t seed = 0;
};

struct RunCounts {
  int64_t requests = 0;    // N
  int64_t completed = 0;   // succeeded
  int64_t failed = 0;      // with an answer or without, timeouts and cancelled ones not among them
  int64_t incomplete = 0;  // timed out or cancelled
  std::map<std::string, int64_t> failures;                   // class -> how many, see FailureName
  std::map<std::string, std::vector<std::string>> messages;  // class -> the first three
  int64_t reconnects = 0;
  int64_t unterminated_events = 0;
  int64_t not_streamed = 0;
  int64_t short_outputs = 0;  // completed, below the requested length with ignore_eos
  int64_t wasted_tokens = 0;  // of failed requests
};

// Figures of the whole run or of its steady part.
//
// Metrics by name: ttft_ms, ttft_event_ms, ttft_content_ms, ttft_sched_ms, tpot_ms, tpot_burst_ms,
// itl_ms, icl_ms, e2e_ms, e2e_done_ms, e2e_sched_ms, schedule_delay_ms, client_queue_ms,
// connect_ms, tokens_per_burst, tps_user, input_tokens, output_tokens. One without samples is
// absent.
struct RunWindow {
  double start_s = 0;  // from the run's first send
  double duration_s = 0;
  int64_t completed = 0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  double requests_per_s = 0;
  double input_tokens_per_s = 0;
  double output_tokens_per_s = 0;
  double total_tokens_per_s = 0;
  double mean_in_flight = 0;
  std::map<std::string, Statistics> metrics;

  const Statistics* Find(const std::string& name) const;  // null: no samples
};

// Limits that a request meets or misses; all of them together make it good.
struct GoodputLimits {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> e2e_ms;
  std::optional<double> itl_p95_ms;
  std::optional<double> min_tps_user;

  bool any() const { return ttft_ms || tpot_ms || e2e_ms || itl_p95_ms || min_tps_user; }
};

// How the load generator itself fared.
struct ClientHealth {
  // From a byte's being readable, as far as the client can know it, to its being parsed. Samples
  // are reads, and ticks of a timer that see what happens between reads. 0 samples: not measured.
  int64_t lag_samples = 0;
  double lag_p50_ms = 0;
  double lag_p99_ms = 0;
  double lag_max_ms = 0;
  double cpu_s = 0;       // of the client's thread
  double busy_s = 0;      // wall time outside of waiting
  double withheld_s = 0;  // runnable, not running: the machine gave the core to somebody else
  double wall_s = 0;
  int64_t events = 0;  // stream events parsed
  int32_t cpus = 0;    // of the machine
};

struct RunSpeculation {
  SpecCounters counters;                           // over the measured phase
  std::optional<double> acceptance_length;         // 1 + accepted / drafts
  std::optional<double> acceptance_rate;           // accepted / draft tokens, 0 … 1
  std::vector<double> per_position;                // accepted at p / drafts
  std::vector<double> per_position_conditional;    // accepted at p / accepted at p - 1
  std::optional<double> tokens_per_draft;          // draft tokens / drafts
  std::optional<double> client_acceptance_length;  // tokens per burst after each first
};

struct RunWorkload {
  std::string dataset;      // "sharegpt", "random", …
  std::string rule;         // how lengths came about, in words
  std::string fingerprint;  // hash over prompts, lengths and sampling: equal means equal work
  uint64_t seed = 0;
  std::string synthetic_text;  // "" | cyclic | noise | past_eos: what it does to acceptance
  bool ignore_eos = false;
};

struct RunResult {
  int32_t schema = kRunSchema;
  std::string id;       // of this run: time and a random part
  std::string created;  // UTC, ISO 8601
  std::string version;  // of the product

  RunWorkload workload;
  LoadShape load;
  std::string base_url;
  std::string endpoint;
  std::string api;  // completions | chat | sglang
  std::string model;
  Json sampling = Json::object();               // what went into every request
  Json server_info;                             // what the server says about itself; null: nothing
  std::map<std::string, std::string> metadata;  // --metadata

  RunCounts counts;
  double duration_client_s = 0;  // first dispatch to the return of the last request, as vLLM counts
  std::optional<double> server_info_s;  // time of the call that SGLang counts in
  RunWindow whole;
  std::optional<RunWindow> steady;
  double steady_fraction = 0;
  double waves = 0;  // N / c; 0 without a cap
  int64_t input_tokens_planned = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens_requested = 0;
  std::optional<int64_t> output_tokens_retokenized;
  std::string output_count_basis;       // usage | token_ids | retokenized | chunks | mixed
  std::string itl_basis;                // of the bursts: token_ids | usage | … | chunk | mixed
  double peak_output_tokens_per_s = 0;  // the fullest second
  double peak_output_tokens_per_s_10s = 0;  // the fullest ten seconds, sliding
  int64_t peak_in_flight = 0;
  double multi_event_bursts = 0;  // share of bursts made of more than one event
  double requested_rate = 0;      // 0: no rate asked for
  double achieved_rate = 0;       // sends per second
  GoodputLimits goodput_limits;
  std::optional<double> goodput_per_s;
  std::optional<double> goodput_pct;  // of all N

  std::optional<RunSpeculation> speculation;
  ClientHealth client;
  int64_t warmup_requests = 0;
  std::optional<double> warmup_first_ms;  // latency of the first one: shows compile stalls

  std::vector<RunFinding> findings;
  RunStatus Status() const;
  // The messages of findings with severity kVoid.
  std::vector<std::string> VoidReasons() const;
};

const char* RunStatusName(RunStatus status);                // valid | unverified | void
const char* FindingSeverityName(FindingSeverity severity);  // note | warning | unverified | void

Json RunResultJson(const RunResult& run);
// Takes what RunResultJson wrote, alone or inside the object that `bench serve` and `bench grid`
// write. kDataCorrupt names `where` and the field.
Result<RunResult> RunResultFromJson(const Json& json, const std::string& where);

}  // namespace firesteel
