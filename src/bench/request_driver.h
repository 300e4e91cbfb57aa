// Sends prepared requests at their times over one thread's event loop, and times what comes back.
//
// One use, one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/client_monitor.h"
#include "bench/completion_stream.h"
#include "bench/request_record.h"
#include "firesteel/status.h"
#include "net/http_client.h"

namespace firesteel {

struct DriverTimeouts {
  int64_t connect_ms = 30'000;
  int64_t first_ms = 600'000;  // to the first token; 0, as for all: none
  int64_t idle_ms = 120'000;   // between bursts
  int64_t total_ms = 6 * 3'600'000;
};

struct DriverOptions {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  size_t max_concurrency = 0;  // 0: no cap
  // From the start, ascending, one for each body; empty: a closed loop, each slot taking the next
  // request the moment its last one ended.
  std::vector<int64_t> arrivals_ns;
  int64_t duration_ns = 0;  // none are sent after it; 0: until all are
  bool new_connections = false;
  bool stop_gracefully = false;  // on `*stop`: keep what ended, cancel the rest
  DriverTimeouts timeouts;
};

// Figures of the moment, for people who watch.
struct LiveFigures {
  size_t finished = 0;
  size_t total = 0;
  size_t failed = 0;
  size_t in_flight = 0;
  int64_t output_tokens = 0;
  double elapsed_s = 0;
  double output_tokens_per_s = 0;  // over the last second or so
  double mean_ttft_s = 0;          // of requests that ended; 0: none yet
};

struct DriverResult {
  std::vector<RequestRecord> records;  // of the requests that were sent, in that order
  ClientHealth client;
  double client_duration_s = 0;  // start to the return of the last request
  bool interrupted = false;
};

// Hears about every request that ended, and at least every 200 ms. May be null.
using LiveProgress = std::function<void(const LiveFigures&)>;

// `records` hold what is known before (prompt_id, requested_tokens …), one for each body.
// kCancelled once `*stop` (may be null) is true, unless it stops gracefully.
Result<DriverResult> DriveRequests(const DriverOptions& options, std::vector<std::string> bodies,
                                   std::vector<RequestRecord> records, const LiveProgress& progress,
                                   const std::atomic<bool>* stop);

}  // namespace firesteel
