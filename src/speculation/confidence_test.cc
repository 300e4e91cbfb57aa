#include "speculation/confidence.h"

#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "speculation/drafter.h"

namespace firesteel {
namespace {

// Nobody can make one from tokens or their probabilities.
static_assert(!std::is_constructible_v<PreTokenConfidence, std::vector<int32_t>>);
static_assert(!std::is_constructible_v<PreTokenConfidence, std::span<const float>>);
static_assert(!std::is_constructible_v<PreTokenConfidence, std::vector<Distribution>>);
static_assert(!std::is_default_constructible_v<PreTokenConfidence>);

Draft WithConfidence(std::vector<float> confidence) {
  Draft draft;
  draft.tokens.assign(confidence.size(), 1);
  draft.confidence = std::move(confidence);
  return draft;
}

int32_t Trimmed(const Draft& draft, double threshold) {
  return TrimLength(PreTokenConfidence(draft), static_cast<int32_t>(draft.tokens.size()),
                    threshold);
}

TEST(TrimLength, CutsBeforeTheFirstBelow) {
  const Draft draft = WithConfidence({0.9f, 0.5f, 0.4f, 0.95f});
  EXPECT_EQ(Trimmed(draft, 0.3), 4);
  EXPECT_EQ(Trimmed(draft, 0.45), 2);
  EXPECT_EQ(Trimmed(draft, 0.5), 2);  // equal stays
  EXPECT_EQ(Trimmed(draft, 0.6), 1);
  EXPECT_EQ(Trimmed(draft, 1.0), 0);
}

TEST(TrimLength, WithoutThresholdOrConfidenceKeepsAll) {
  EXPECT_EQ(Trimmed(WithConfidence({0.0f, 0.0f}), 0.0), 2);
  Draft silent;
  silent.tokens = {1, 2, 3};
  EXPECT_EQ(Trimmed(silent, 0.9), 3);
  EXPECT_EQ(Trimmed(Draft(), 0.9), 0);
}

TEST(TrimLength, LooksAtTheGivenLengthAlone) {
  const Draft draft = WithConfidence({0.9f, 0.9f, 0.1f});
  EXPECT_EQ(TrimLength(PreTokenConfidence(draft), 2, 0.5), 2);
  EXPECT_EQ(TrimLength(PreTokenConfidence(draft), 0, 0.5), 0);
}

TEST(TrimLength, NanEndsTheDraft) {
  EXPECT_EQ(Trimmed(WithConfidence({0.9f, std::numeric_limits<float>::quiet_NaN(), 0.9f}), 0.5), 1);
}

}  // namespace
}  // namespace firesteel
