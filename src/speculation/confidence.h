// Static trimming: cut a draft before the first token whose confidence is below a threshold.
#pragma once

#include <cstdint>
#include <span>

namespace firesteel {

// Confidences that were computed before the tokens they speak of. The only view of a draft that a
// decision about what to verify may take (docs/speculation.md): it cannot be made from tokens or
// their probabilities.
class PreTokenConfidence {
 public:
  explicit PreTokenConfidence(const struct Draft& draft);
  std::span<const float> values() const { return values_; }

 private:
  std::span<const float> values_;
};

// Number of tokens to verify of a draft of `length`. threshold <= 0, or no confidences: all of
// them.
int32_t TrimLength(PreTokenConfidence confidence, int32_t length, double threshold);

}  // namespace firesteel
