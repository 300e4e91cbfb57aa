#include <fmt/format.h>

#include <cmath>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

void CheckFailures(const Thresholds& limits, Run* run) {
  const RunWork& work = run->work;
  if (!work.failed || *work.failed <= 0) return;
  const double n = static_cast<double>(work.completed.value_or(0) + *work.failed);
  const double share = static_cast<double>(*work.failed) / n;
  const std::string text = fmt::format("{} of {:.0f} requests failed", *work.failed, n);
  if (share > limits.failure_share) {
    run->void_reasons.push_back(text);
  } else {
    run->notes.push_back(text);
  }
}

void CheckEarlyEnd(const Thresholds& limits, Run* run) {
  const RunWork& work = run->work;
  const auto mean = work.MeanOutput();
  if (work.ignore_eos != true || !mean || !work.requested_output) return;
  const double asked = static_cast<double>(*work.requested_output);
  if (*mean < limits.early_eos_share * asked) {
    run->void_reasons.push_back(
        fmt::format("{:.1f} output tokens per request where {:.0f} were asked for without an end",
                    *mean, asked));
  }
}

// Little's law: what is in flight cannot exceed what was let in.
void CheckInFlight(const Thresholds& limits, Run* run) {
  constexpr double kHalfDigit = 0.005;
  const auto rate = run->measures.Get(Metric::kRequestThroughput);
  const auto e2e = run->measures.Get(Metric::kMeanE2e);
  if (!rate || !e2e || *rate <= 0 || run->concurrency <= 0) return;
  const double in_flight = *rate * *e2e / 1000;
  const double allowed = run->concurrency * (1 + limits.in_flight_excess + kHalfDigit / *rate);
  if (in_flight > allowed) {
    run->void_reasons.push_back(
        fmt::format("{:.2f} requests in flight on average at a concurrency of {}", in_flight,
                    run->concurrency));
  }
}

}  // namespace

void ValidateRuns(const Thresholds& limits, Results* results) {
  for (Run& run : results->runs) {
    CheckFailures(limits, &run);
    CheckEarlyEnd(limits, &run);
    CheckInFlight(limits, &run);
  }
}

}  // namespace firesteel
