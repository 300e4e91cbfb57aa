#include "bench/load_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/numpy_random.h"

namespace firesteel {
namespace {

constexpr double kNsPerSecond = 1e9;

// Requests per second of the request that is `progress` in [0, 1] of the way through.
double RateAt(const LoadShape& shape, double progress) {
  if (shape.ramp_up.empty()) return *shape.request_rate;
  const double start = *shape.ramp_start_rate;
  const double end = *shape.ramp_end_rate;
  if (shape.ramp_up == "linear") return start + (end - start) * progress;
  return start * std::pow(end / start, progress);
}

Status Check(const LoadShape& shape) {
  const bool positive_rate = shape.request_rate && *shape.request_rate > 0;
  if (shape.ramp_up.empty() && !positive_rate) {
    return InvalidArgument(fmt::format("arrivals by {} need a request rate above 0", shape.kind));
  }
  if (!shape.ramp_up.empty() && shape.ramp_up != "linear" && shape.ramp_up != "exponential") {
    return InvalidArgument(
        fmt::format("ramp-up is {}, expected linear or exponential", shape.ramp_up));
  }
  if (!shape.ramp_up.empty() &&
      !(shape.ramp_start_rate.value_or(0) > 0 && shape.ramp_end_rate.value_or(0) > 0)) {
    return InvalidArgument("a ramp-up needs a start and an end rate above 0");
  }
  if (!(shape.burstiness > 0)) {
    return InvalidArgument(fmt::format("burstiness is {}, expected more than 0", shape.burstiness));
  }
  return {};
}

Result<std::vector<int64_t>> TraceArrivals(size_t count, const std::vector<double>& timestamps_ms) {
  if (timestamps_ms.size() != count) {
    return InvalidArgument("a trace needs rows with timestamps, found some without");
  }
  std::vector<int64_t> offsets;
  for (const double ms : timestamps_ms) {
    offsets.push_back(std::llround((ms - timestamps_ms.front()) * 1e6));
  }
  if (!std::is_sorted(offsets.begin(), offsets.end())) {
    return InvalidArgument("a trace needs rows in the order of their timestamps");
  }
  return offsets;
}

}  // namespace

Result<std::vector<int64_t>> ArrivalsOf(const LoadShape& shape, Dialect dialect, size_t count,
                                        const std::vector<double>& timestamps_ms) {
  if (shape.kind == "closed") return std::vector<int64_t>();
  if (shape.kind == "trace") return TraceArrivals(count, timestamps_ms);
  FS_TRY(Check(shape));
  const double burstiness = shape.kind == "poisson" ? 1.0 : shape.burstiness;
  MersenneTwister random = MersenneTwister::FromWord(static_cast<uint32_t>(shape.seed));
  std::vector<double> times;
  double now = 0;
  for (size_t i = 0; i < count; ++i) {
    const double progress =
        count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.0;
    const double rate = RateAt(shape, progress);
    // numpy multiplies the standard variate by the scale: the same here, to the bit.
    const double gap =
        shape.kind == "constant" ? 1 / rate : random.Gamma(burstiness) * (1 / (rate * burstiness));
    if (dialect == Dialect::kVllm) {
      now += gap;
      times.push_back(now);
    } else {
      times.push_back(now);
      now += gap;
    }
  }
  if (dialect == Dialect::kVllm && shape.ramp_up.empty() && !times.empty() && times.back() > 0) {
    const double stretch = static_cast<double>(count) / *shape.request_rate / times.back();
    for (double& time : times) time *= stretch;
  }
  std::vector<int64_t> offsets;
  for (const double time : times) offsets.push_back(std::llround(time * kNsPerSecond));
  return offsets;
}

}  // namespace firesteel
