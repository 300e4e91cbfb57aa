// How many requests were in flight when: mean, peak, and the part of a run that is steady.
//
// Functions without state, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/request_record.h"

namespace firesteel {

// From `time_ns` on, `count` requests are in flight.
struct InFlightStep {
  int64_t time_ns = 0;
  int64_t count = 0;
};

// Over all requests, failed ones too, from sending to the end. An end comes before a start at the
// same time.
std::vector<InFlightStep> InFlightSteps(std::span<const RequestRecord> records);

int64_t PeakInFlight(std::span<const InFlightStep> steps);
// Time integral over [from, to], divided by its length. REQUIRES: from < to
double MeanInFlight(std::span<const InFlightStep> steps, int64_t from_ns, int64_t to_ns);

// Of a closed loop at `concurrency`: from the first instant that min(concurrency, N) are in flight
// to the last sending. Otherwise (0) the longest span with at least 0.8 of the peak, the first of
// equals. nullopt where there is none.
std::optional<std::pair<int64_t, int64_t>> SteadySpan(std::span<const RequestRecord> records,
                                                      std::span<const InFlightStep> steps,
                                                      int64_t concurrency);

}  // namespace firesteel
