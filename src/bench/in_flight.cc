#include "bench/in_flight.h"

#include <algorithm>
#include <cmath>

namespace firesteel {

std::vector<InFlightStep> InFlightSteps(std::span<const RequestRecord> records) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const RequestRecord& record : records) {
    changes.emplace_back(record.send_ns, 1);
    changes.emplace_back(std::max(record.send_ns, record.done_ns), -1);
  }
  std::sort(changes.begin(), changes.end());  // -1 before 1 at one time
  std::vector<InFlightStep> steps;
  int64_t count = 0;
  for (const auto& [time_ns, change] : changes) {
    count += change;
    if (!steps.empty() && steps.back().time_ns == time_ns) {
      steps.back().count = count;
    } else {
      steps.push_back({.time_ns = time_ns, .count = count});
    }
  }
  return steps;
}

int64_t PeakInFlight(std::span<const InFlightStep> steps) {
  int64_t peak = 0;
  for (const InFlightStep& step : steps) peak = std::max(peak, step.count);
  return peak;
}

double MeanInFlight(std::span<const InFlightStep> steps, int64_t from_ns, int64_t to_ns) {
  double integral = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t begin = std::max(from_ns, steps[i].time_ns);
    const int64_t end = std::min(to_ns, i + 1 < steps.size() ? steps[i + 1].time_ns : to_ns);
    if (end > begin) {
      integral += static_cast<double>(steps[i].count) * static_cast<double>(end - begin);
    }
  }
  return integral / static_cast<double>(to_ns - from_ns);
}

std::optional<std::pair<int64_t, int64_t>> SteadySpan(std::span<const RequestRecord> records,
                                                      std::span<const InFlightStep> steps,
                                                      int64_t concurrency) {
  if (records.empty()) return std::nullopt;
  std::optional<std::pair<int64_t, int64_t>> span;
  if (concurrency > 0) {
    const auto full = std::min(concurrency, static_cast<int64_t>(records.size()));
    int64_t last_send = records.front().send_ns;
    for (const RequestRecord& record : records) last_send = std::max(last_send, record.send_ns);
    const auto reached = std::find_if(steps.begin(), steps.end(),
                                      [full](const InFlightStep& s) { return s.count >= full; });
    if (reached != steps.end()) span.emplace(reached->time_ns, last_send);
  } else {
    const double enough = 0.8 * static_cast<double>(PeakInFlight(steps));
    std::optional<int64_t> since;
    for (const InFlightStep& step : steps) {
      const bool in = static_cast<double>(step.count) >= enough;
      if (in && !since) since = step.time_ns;
      if (in || !since) continue;
      if (!span || step.time_ns - *since > span->second - span->first) {
        span.emplace(*since, step.time_ns);
      }
      since.reset();
    }
  }
  if (span && span->second <= span->first) span.reset();
  return span;
}

}  // namespace firesteel
