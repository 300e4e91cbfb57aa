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
  friend class AcceptanceModel;
  explicit PreTokenConfidence(std::span<const float> values) : values_(values) {}

  std::span<const float> values_;
};

// Chances that were known before the drafts of a step were made. Only AcceptanceModel makes them.
class ChancesKnownBefore {
 public:
  std::span<const float> values() const { return confidence_.values(); }
  operator PreTokenConfidence() const { return confidence_; }  // NOLINT: what is known before is

 private:
  friend class AcceptanceModel;
  explicit ChancesKnownBefore(PreTokenConfidence confidence) : confidence_(confidence) {}

  PreTokenConfidence confidence_;
};

// Number of tokens to verify of a draft of `length`. threshold <= 0, or no confidences: all of
// them.
int32_t TrimLength(PreTokenConfidence confidence, int32_t length, double threshold);

}  // namespace firesteel
