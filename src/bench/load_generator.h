// Closed-loop load on an OpenAI-compatible server: a fixed number of requests in flight, each
// streamed and timed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/request_record.h"
#include "bench/server_metrics.h"
#include "bench/workload.h"
#include "firesteel/status.h"

namespace firesteel {

struct LoadOptions {
  std::string base_url = "http://127.0.0.1:8000";
  std::string endpoint =
      "/v1/completions";  // one that ends in /chat/completions gets chat requests
  std::string model;      // "": the first one that the server lists
  std::string api_key;
  int32_t max_concurrency = 1;
  int32_t output_len = 128;  // max_tokens of prompts that name none
  // Requests before the measured ones, with the first prompts and at most 16 output tokens each.
  int32_t num_warmups = 0;
  bool ignore_eos = false;
  // Sampling parameters and whatever else goes into every request; keys here win over ours.
  Json extra_body = Json::object();
  int64_t request_timeout_ms = 600'000;
};

struct LoadResult {
  std::string model;
  std::vector<RequestRecord> records;  // in the order of the prompts; failed ones among them
  double duration_s = 0;               // first send to last end
  std::optional<SpecCounters>
      spec;  // over the measured requests; nullopt when the server does not report
  std::vector<std::string> notes;  // what the server did not understand, in words
};

// `finished` of `total` requests have ended, `failed` of them with an error.
using LoadProgress = std::function<void(size_t finished, size_t total, size_t failed)>;

// Probes the server with one short request (dropping optional keys that it refuses), warms up, then
// measures `prompts`. No request is sent twice. Errors: the server does not answer the probe, or a
// warm-up fails. kCancelled once `*stop` (may be null) is true; requests in flight are then cut
// off.
Result<LoadResult> RunLoad(const LoadOptions& options, const std::vector<Prompt>& prompts,
                           const LoadProgress& progress, const std::atomic<bool>* stop);

}  // namespace firesteel
