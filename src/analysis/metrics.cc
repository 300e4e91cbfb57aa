#include "analysis/metrics.h"

#include "base/check.h"

namespace firesteel {
namespace {

constexpr double kThroughputNoise = 0.03;
constexpr double kMeanNoise = 0.10;
constexpr double kTailNoise = 0.25;

constexpr std::array<MetricInfo, kNumMetrics> kMetrics = {{
    {Metric::kTotalThroughput, "total_throughput", "total_token_throughput", "tok/s", true,
     kThroughputNoise},
    {Metric::kOutputThroughput, "output_throughput", "output_throughput", "tok/s", true,
     kThroughputNoise},
    {Metric::kInputThroughput, "input_throughput", "", "tok/s", true, kThroughputNoise},
    {Metric::kRequestThroughput, "request_throughput", "request_throughput", "req/s", true,
     kThroughputNoise},
    {Metric::kMeanE2e, "mean_e2e_latency_ms", "mean_e2el_ms", "ms", false, kMeanNoise},
    {Metric::kMedianE2e, "median_e2e_latency_ms", "median_e2el_ms", "ms", false, kMeanNoise},
    {Metric::kP95E2e, "p95_e2e_latency_ms", "p95_e2el_ms", "ms", false, kTailNoise},
    {Metric::kP99E2e, "p99_e2e_latency_ms", "p99_e2el_ms", "ms", false, kTailNoise},
    {Metric::kMeanTtft, "mean_ttft_ms", "mean_ttft_ms", "ms", false, kMeanNoise},
    {Metric::kMedianTtft, "median_ttft_ms", "median_ttft_ms", "ms", false, kMeanNoise},
    {Metric::kP95Ttft, "p95_ttft_ms", "p95_ttft_ms", "ms", false, kTailNoise},
    {Metric::kP99Ttft, "p99_ttft_ms", "p99_ttft_ms", "ms", false, kTailNoise},
    {Metric::kMeanTpot, "mean_tpot_ms", "mean_tpot_ms", "ms", false, kMeanNoise},
    {Metric::kMedianTpot, "median_tpot_ms", "median_tpot_ms", "ms", false, kMeanNoise},
    {Metric::kP95Tpot, "p95_tpot_ms", "p95_tpot_ms", "ms", false, kTailNoise},
    {Metric::kP99Tpot, "p99_tpot_ms", "p99_tpot_ms", "ms", false, kTailNoise},
    {Metric::kMeanItl, "mean_itl_ms", "mean_itl_ms", "ms", false, kMeanNoise},
    {Metric::kP95Itl, "p95_itl_ms", "p95_itl_ms", "ms", false, kTailNoise},
    {Metric::kP99Itl, "p99_itl_ms", "p99_itl_ms", "ms", false, kTailNoise},
    {Metric::kMeanIcl, "mean_icl_ms", "", "ms", false, kMeanNoise},
    {Metric::kAcceptLength, "accept_length", "spec_decode_acceptance_length", "tok", true,
     kThroughputNoise},
    {Metric::kAcceptRate, "spec_decode_acceptance_rate", "spec_decode_acceptance_rate", "%", true,
     kThroughputNoise},
    {Metric::kGoodput, "request_goodput", "request_goodput", "req/s", true, kMeanNoise},
    {Metric::kDuration, "duration", "duration", "s", false, kThroughputNoise},
}};

}  // namespace

const std::array<MetricInfo, kNumMetrics>& AllMetrics() { return kMetrics; }

const MetricInfo& Info(Metric metric) {
  const MetricInfo& info = kMetrics[static_cast<size_t>(metric)];
  FS_CHECK(info.metric == metric);
  return info;
}

std::optional<Metric> FindMetric(std::string_view name) {
  for (const MetricInfo& info : kMetrics) {
    if (name == info.name || (info.vllm[0] != '\0' && name == info.vllm)) return info.metric;
  }
  if (name == "avg_spec_accept_length") return Metric::kAcceptLength;  // of the server's own answer
  return std::nullopt;
}

}  // namespace firesteel
