// Checks a request's sampling parameters; the struct itself is public (firesteel/request.h).
#pragma once

#include <cstdint>

#include "firesteel/request.h"
#include "firesteel/status.h"

namespace firesteel {

// kInvalidArgument names the parameter, its value and the range. NaN and infinities are refused.
Status ValidateSampling(const SamplingParams& params, int32_t vocab_size);

inline bool IsGreedy(const SamplingParams& params) { return params.temperature < 1e-5; }

}  // namespace firesteel
