// The measures that runs have, under one name whichever tool wrote them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace firesteel {

enum class Metric {
  kTotalThroughput,
  kOutputThroughput,
  kInputThroughput,
  kRequestThroughput,
  kMeanE2e,
  kMedianE2e,
  kP95E2e,
  kP99E2e,
  kMeanTtft,
  kMedianTtft,
  kP95Ttft,
  kP99Ttft,
  kMeanTpot,
  kMedianTpot,
  kP95Tpot,
  kP99Tpot,
  kMeanItl,
  kP95Itl,
  kP99Itl,
  kMeanIcl,  // gap between stream events: the time of a step, when each step is one event
  kAcceptLength,
  kAcceptRate,  // per cent
  kGoodput,
  kDuration,  // s
};
inline constexpr size_t kNumMetrics = static_cast<size_t>(Metric::kDuration) + 1;

struct MetricInfo {
  Metric metric;
  const char* name;  // ours, also SGLang's where it has one; the id of table columns
  const char* vllm;  // "" where vLLM has none
  const char* unit;  // "tok/s", "req/s", "ms", "tok", "%", "s"
  bool higher_is_better;
  double default_noise;  // coefficient of variation between repeats, where nothing is known
};

const std::array<MetricInfo, kNumMetrics>& AllMetrics();
const MetricInfo& Info(Metric metric);
// By either name, or one of the aliases that releases of the tools have used.
std::optional<Metric> FindMetric(std::string_view name);

// Absent stays absent: a figure nobody measured is no zero.
class Measures {
 public:
  std::optional<double> Get(Metric metric) const { return values_[static_cast<size_t>(metric)]; }
  bool Has(Metric metric) const { return Get(metric).has_value(); }
  void Set(Metric metric, std::optional<double> value) {
    values_[static_cast<size_t>(metric)] = value;
  }

 private:
  std::array<std::optional<double>, kNumMetrics> values_ = {};
};

}  // namespace firesteel
