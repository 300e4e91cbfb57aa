#include <algorithm>
#include <cmath>

#include "kernels/vocab_ops.h"
#include "speculation/max_probability_internal.h"

namespace firesteel {

float MaxProbability(std::span<float> logits, float otherwise) {
  const float max = logits[static_cast<size_t>(ArgMax(logits))];
  if (!std::isfinite(max)) return otherwise;
  ExpWeights(logits, max, 1, logits);
  return static_cast<float>(1 / SumAtLeast(logits, 0));
}

void AddMaxProbability(std::span<float> logits, Draft* draft) {
  draft->confidence.push_back(draft->probs.empty()
                                  ? MaxProbability(logits)
                                  : *std::ranges::max_element(draft->probs.back().probs));
}

}  // namespace firesteel
