// What ends a text: end tokens, stop strings, limits.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"

namespace firesteel {

// True for an end token of the model (unless the request ignores these) and for the request's own
// stop tokens.
bool EndsText(int32_t token, const SamplingParams& sampling, std::span<const int32_t> eos);

struct EndRules {
  std::span<const int32_t> eos;
  int32_t max_model_len = 0;
};

// Adds verified tokens one at a time to the sequence, its text and its next event, and stops behind
// the one that ends it (sequence.finish). Returns how many were added; those after the end are not.
// At the end, the text that was held back comes out too.
int32_t AppendTokens(const EndRules& rules, std::span<const int32_t> tokens, Sequence* sequence);

}  // namespace firesteel
