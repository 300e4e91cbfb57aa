// Load on a server that generates text: requests streamed and timed, a fixed number in flight or at
// given times.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "bench/request_body.h"
#include "bench/request_driver.h"
#include "bench/request_record.h"
#include "bench/run_result.h"
#include "bench/server_metrics.h"
#include "bench/workload.h"
#include "firesteel/status.h"
#include "text/tokenizer.h"

namespace firesteel {

struct LoadGeneratorOptions {
  // With or without a trailing /v1.
  std::string base_url = "http://127.0.0.1:8000";
  // One that ends in /chat/completions gets chat requests, in /generate SGLang's.
  std::string endpoint = "/v1/completions";
  std::string model;  // "": the first one that the server lists
  std::string api_key;
  std::vector<std::pair<std::string, std::string>> headers;  // of every request
  Dialect dialect = Dialect::kNative;                        // whose bodies
  Dialect rules = Dialect::kNative;                          // whose arrivals
  int32_t max_concurrency = 1;                               // 0, open loop: no cap
  int32_t output_len = 128;                                  // max_tokens of prompts that name none
  // Closed loop by default; for others request_rate and what belongs to it. Its max_concurrency is
  // not read.
  LoadShape shape;
  double duration_s = 0;  // requests are sent for so long at most; 0: all are
  // Requests before the measured ones, with the first prompts (or `warmup_prompts`) and at most 16
  // output tokens each. Their figures are discarded.
  int32_t num_warmups = 0;
  std::vector<Prompt> warmup_prompts;
  bool ignore_eos = false;
  // Sampling parameters and whatever else goes into every request; keys here win over ours.
  Json extra_body = Json::object();
  DriverTimeouts timeouts;
  bool new_connections = false;    // one for each request
  bool flush_cache = false;        // drop the server's prefix cache before measuring
  bool keep_when_stopped = false;  // a run that is interrupted gives what it has
  const Tokenizer* tokenizer =
      nullptr;  // the model's: counts what the server does not; may be null
  // What goes into the result as it is.
  RunWorkload workload;
  GoodputLimits goodput;
  std::map<std::string, std::string> metadata;
  double max_client_lag_ms = 1;  // P99 above which a run is void
  LiveProgress live;             // may be null
};

struct LoadResult {
  std::string model;
  std::vector<RequestRecord> records;  // in the order of sending; failed ones among them
  double duration_s = 0;               // first send to last end
  std::optional<SpecCounters>
      spec;  // over the measured requests; nullopt when the server does not report
  std::vector<std::string> notes;  // what the server did not understand, in words
  ClientHealth client;
  double client_duration_s = 0;
  Json server_info;                        // of a SGLang server
  std::optional<double> server_info_s;     // how long asking for it took
  std::optional<double> requests_counted;  // by the server meanwhile
  std::optional<double> warmup_first_ms;
  bool interrupted = false;
};

// `finished` of `total` requests have ended, `failed` of them with an error.
using LoadProgress = std::function<void(size_t finished, size_t total, size_t failed)>;

// Probes the server with one short request (dropping optional keys that it refuses), warms up, then
// measures `prompts`. No request is sent twice. Errors: the server does not answer the probe, or a
// warm-up fails; arrivals that cannot be made. kCancelled once `*stop` (may be null) is true;
// requests in flight are then cut off.
Result<LoadResult> RunLoad(const LoadGeneratorOptions& options, const std::vector<Prompt>& prompts,
                           const LoadProgress& progress, const std::atomic<bool>* stop);

// Takes /v1 (and slashes) off the end of `*base_url`, and puts it before an endpoint that lacks it.
void NormalizeTarget(std::string* base_url, std::string* endpoint);

}  // namespace firesteel
