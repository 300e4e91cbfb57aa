// Reads a server's /metrics once a second while it is measured: how long its queue was, how full
// its KV cache.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"

namespace firesteel {

class MetricsSampler {
 public:
  // Takes the first sample before it returns.
  MetricsSampler(std::string base_url, std::string api_key, int64_t interval_ms = 1000);
  ~MetricsSampler();

  // Takes the last sample and ends. {"samples": n, "running": {"mean", "max"}, "waiting": …,
  // "kv_cache_usage": …, "preemptions": n, "prefix_cache_queries": n, "prefix_cache_hits": n}, of
  // which those are there that the server reports; null for a server that reports none. Gauges are
  // as seen once a second; counters are differences from the first sample to the last.
  Json Finish();

 private:
  void Sample();

  const std::string base_url_;
  const std::string api_key_;
  std::vector<std::map<std::string, double>> samples_;  // sampler thread, Finish after its end
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace firesteel
