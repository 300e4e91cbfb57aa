// From logits to the distribution that is really sampled, and drawing from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "firesteel/request.h"
#include "kernels/vocab_ops.h"  // ArgMax
#include "sampling/noise.h"

namespace firesteel {

// A distribution over the vocabulary as its support. Greedy decoding is a support of one.
struct Distribution {
  std::vector<int32_t> ids;  // ascending; the support
  std::vector<float> probs;  // same length, > 0, sums to 1

  float Prob(int32_t token) const;  // 0 outside the support; O(log n)
  static Distribution OneHot(int32_t token) { return {{token}, {1.0f}}; }
};

// What MakeDistribution works in, so that it allocates nothing but its result's room once it has
// seen a vocabulary. One thread at a time.
struct DistributionScratch {
  struct Candidate {
    int32_t id = 0;
    float logit = 0;
    float weight = 0;  // probability over that of the most likely token
  };
  std::vector<float> weights;  // [V]
  std::vector<int32_t> ids;    // [V]
  std::vector<Candidate> candidates;
  std::vector<Candidate> unsure;  // of them, those that top-p may or may not keep
};

// Temperature, then min-p, top-k, top-p over the processed logits [V] (vLLM's order). Greedy
// gives OneHot(ArgMax). Ties at the top-k boundary keep the lower ids. -inf logits are outside the
// support, and so is what is less than e^-87 times as likely as the best; if nothing is left (all
// -inf or NaN) the result is OneHot(ArgMax).
//
// A row of 150 000 logits takes a few passes at memory speed: nothing but what top-k and top-p can
// keep is ever sorted.
void MakeDistribution(std::span<const float> logits, const SamplingParams& params,
                      DistributionScratch* scratch, Distribution* out);
Distribution MakeDistribution(std::span<const float> logits, const SamplingParams& params);

// argmax over the support of log p + Gumbel noise: a sample of `d` that is a function of key,
// position and purpose. Computed as the race it equals, argmin of (-log u) / p in double precision,
// ties to the lowest id. REQUIRES: not empty.
int32_t SampleWithNoise(const Distribution& d, NoiseKey key, int64_t position,
                        NoisePurpose purpose);

// Raw log-probabilities: log softmax(logits)[token] and the `count` most likely tokens.
TokenLogprob RawLogprob(std::span<const float> logits, int32_t token, int32_t count);

}  // namespace firesteel
