// Passes over one row of a large vocabulary, for sampling: each reads its row about once at memory
// speed. Thread-safe.
//
// Every element goes through the same instructions wherever it stands, and sums have an order that
// depends on the length alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace firesteel {

// Lowest id among the largest; NaN never wins, unless all are NaN: then 0. REQUIRES: not empty.
int32_t ArgMax(std::span<const float> values);

// weights[i] = exp((logits[i] - max) * inverse_temperature) in float32; 0 where that is NaN or
// below the smallest normal float32. REQUIRES: max is finite and no logit is larger; weights has
// the size of logits, and may be the same.
void ExpWeights(std::span<const float> logits, float max, float inverse_temperature,
                std::span<float> weights);

// The sum of the values that reach `threshold` (NaN does not), in double precision.
double SumAtLeast(std::span<const float> values, float threshold);

// Writes the indices of the values that reach `threshold`, ascending, and returns how many. `ids`
// has room for values.size() of them.
int64_t SelectAtLeast(std::span<const float> values, float threshold, int32_t* ids);

// A threshold that at least min(count, values that are not NaN) values reach, and hardly more when
// `count` is small against the vocabulary: the count-th largest of the maxima of blocks; -infinity
// when `count` is more than a quarter of the blocks. `scratch` holds a float for every 64 values.
// REQUIRES: count >= 1.
float ThresholdOfTop(std::span<const float> values, int64_t count, std::span<float> scratch);

// out[4 i + j] = word j of Philox4x32({counter[0] + i, counter[1], counter[2], counter[3]}, key)
// for i < quads (base/rng.h). `out` has room for 4 * quads words.
void PhiloxRange(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key, int64_t quads,
                 uint32_t* out);

// The indices i, ascending, at which 1 - (words[i] + 0.5) / 2^32 < bound * probs[i] may hold; none
// at which it holds is left out. Returns how many. `indices` has room for probs.size(). REQUIRES:
// probs are normal float32 numbers.
int64_t MayArriveBefore(std::span<const uint32_t> words, std::span<const float> probs, double bound,
                        int32_t* indices);

}  // namespace firesteel
