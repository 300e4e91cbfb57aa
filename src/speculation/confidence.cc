#include "speculation/confidence.h"

#include <algorithm>

#include "speculation/drafter.h"

namespace firesteel {

PreTokenConfidence::PreTokenConfidence(const Draft& draft) : values_(draft.confidence) {}

int32_t TrimLength(PreTokenConfidence confidence, int32_t length, double threshold) {
  if (threshold <= 0) return length;
  const std::span<const float> values = confidence.values();
  const auto judged = std::min(values.size(), static_cast<size_t>(std::max(length, 0)));
  for (size_t k = 0; k < judged; ++k) {
    // Written so that NaN, which says nothing good, ends the draft.
    if (!(values[k] >= threshold)) return static_cast<int32_t>(k);
  }
  return length;
}

}  // namespace firesteel
