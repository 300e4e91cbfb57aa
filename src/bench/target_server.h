// What a benchmark asks of a server besides generating: its models, its counters, its cache.
//
// Functions without state, thread-safe; each waits for its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "bench/server_metrics.h"
#include "firesteel/status.h"

namespace firesteel {

struct TargetServer {
  std::string base_url;  // without /v1
  std::string api_key;
};

// The first model of /v1/models; SGLang's /get_model_info where that is absent. kUnavailable with
// what the server said.
Result<std::string> FirstServedModel(const TargetServer& server);

// Drops the prefix cache: SGLang's /flush_cache, else vLLM's /reset_prefix_cache. Asks again for up
// to `timeout_ms` while the server refuses because requests run. kUnsupported: it offers neither.
Status FlushCache(const TargetServer& server, int64_t timeout_ms);

// /server_info, older /get_server_info; null where neither is there.
Json ServerInfo(const TargetServer& server);

struct ServerCounters {
  std::optional<SpecCounters> spec;
  std::optional<double> requests;  // that ended well
};

// /metrics. Empty for a server without them; kUnavailable for one that does not answer.
Result<ServerCounters> FetchServerCounters(const TargetServer& server);

}  // namespace firesteel
