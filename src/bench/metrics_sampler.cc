#include "bench/metrics_sampler.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "bench/prometheus_text.h"
#include "net/http_client.h"

namespace firesteel {
namespace {

// Under vLLM's names (its older one for the cache among them) and SGLang's.
struct Family {
  const char* key;
  std::vector<const char*> names;
};

const std::vector<Family>& Gauges() {
  static const std::vector<Family> kGauges = {
      {"running", {"vllm:num_requests_running", "sglang:num_running_reqs"}},
      {"waiting", {"vllm:num_requests_waiting", "sglang:num_queue_reqs"}},
      {"kv_cache_usage",
       {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"}}};
  return kGauges;
}

const std::vector<Family>& Counters() {
  static const std::vector<Family> kCounters = {
      {"preemptions", {"vllm:num_preemptions_total"}},
      {"prefix_cache_queries",
       {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"}},
      {"prefix_cache_hits", {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}}};
  return kCounters;
}

std::optional<double> ValueOf(const std::map<std::string, double>& sample, const Family& family) {
  for (const char* name : family.names) {
    if (const auto it = sample.find(name); it != sample.end()) return it->second;
  }
  return std::nullopt;
}

}  // namespace

MetricsSampler::MetricsSampler(std::string base_url, std::string api_key, int64_t interval_ms)
    : base_url_(std::move(base_url)), api_key_(std::move(api_key)) {
  Sample();
  thread_ = std::thread([this, interval_ms] {
    std::unique_lock lock(mutex_);
    while (
        !wake_.wait_for(lock, std::chrono::milliseconds(interval_ms), [this] { return done_; })) {
      lock.unlock();
      Sample();
      lock.lock();
    }
  });
}

MetricsSampler::~MetricsSampler() {
  if (thread_.joinable()) Finish();
}

void MetricsSampler::Sample() {
  HttpCall call;
  call.url = base_url_ + "/metrics";
  call.timeout_ms = 5'000;
  if (!api_key_.empty()) call.headers.emplace_back("Authorization", "Bearer " + api_key_);
  const auto response = HttpClient::Fetch(std::move(call));
  if (response.ok() && response->status == 200) samples_.push_back(PrometheusSums(response->body));
}

Json MetricsSampler::Finish() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  Sample();
  Json json;
  if (samples_.empty()) return json;
  json["samples"] = samples_.size();
  for (const Family& family : Gauges()) {
    double sum = 0;
    double most = 0;
    size_t count = 0;
    for (const auto& sample : samples_) {
      const auto value = ValueOf(sample, family);
      if (!value) continue;
      sum += *value;
      most = count == 0 ? *value : std::max(most, *value);
      ++count;
    }
    if (count > 0) json[family.key] = {{"mean", sum / static_cast<double>(count)}, {"max", most}};
  }
  for (const Family& family : Counters()) {
    const auto first = ValueOf(samples_.front(), family);
    const auto last = ValueOf(samples_.back(), family);
    if (first && last) json[family.key] = *last - *first;
  }
  return json.size() > 1 ? json : Json();
}

}  // namespace firesteel
