// From logits to the distribution that is really sampled, and drawing from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "firesteel/request.h"
#include "sampling/noise.h"

namespace firesteel {

// A distribution over the vocabulary as its support. Greedy decoding is a support of one.
struct Distribution {
  std::vector<int32_t> ids;  // ascending; the support
  std::vector<float> probs;  // same length, > 0, sums to 1

  float Prob(int32_t token) const;  // 0 outside the support; O(log n)
  static Distribution OneHot(int32_t token) { return {{token}, {1.0f}}; }
};

// Lowest id among the largest; NaN never wins. REQUIRES: not empty.
int32_t ArgMax(std::span<const float> logits);

// Temperature, then min-p, top-k, top-p over the processed logits [V] (vLLM's order). Greedy
// gives OneHot(ArgMax). Ties at the top-k boundary keep the lower ids. -inf logits are outside the
// support; if nothing is left (all -inf or NaN) the result is OneHot(ArgMax).
Distribution MakeDistribution(std::span<const float> logits, const SamplingParams& params);

// argmax over the support of log p + Gumbel noise: a sample of `d` that is a function of key,
// position and purpose. Computed as the race it equals, argmin of (-log u) / p in double precision,
// ties to the lowest id. REQUIRES: not empty.
int32_t SampleWithNoise(const Distribution& d, NoiseKey key, int64_t position,
                        NoisePurpose purpose);

// Raw log-probabilities: log softmax(logits)[token] and the `count` most likely tokens.
TokenLogprob RawLogprob(std::span<const float> logits, int32_t token, int32_t count);

}  // namespace firesteel
