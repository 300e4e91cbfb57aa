#include "base/rng.h"

#include <gtest/gtest.h>

namespace firesteel {
namespace {

using Block = std::array<uint32_t, 4>;

// The published vectors of Random123 (kat_vectors, "philox4x32 10").
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformOpen, StaysInsideTheInterval) {
  EXPECT_GT(UniformOpen(0), 0.0);
  EXPECT_LT(UniformOpen(~0u), 1.0);
  EXPECT_GT(static_cast<float>(UniformOpen(0)), 0.0f);
  EXPECT_DOUBLE_EQ(UniformOpen(1u << 31), 0.5 + 0.5 / 16777216);
}

TEST(UniformOpen, IsFlat) {
  int counts[16] = {};
  constexpr int kDraws = 160'000;
  for (uint32_t i = 0; i < kDraws / 4; ++i) {
    for (uint32_t bits : Philox4x32({i, 0, 0, 0}, {7, 9})) {
      ++counts[static_cast<int>(UniformOpen(bits) * 16)];
    }
  }
  double chi2 = 0;
  for (int count : counts)
    chi2 += (count - kDraws / 16.0) * (count - kDraws / 16.0) / (kDraws / 16.0);
  EXPECT_LT(chi2,
            37.7);  // 15 degrees of freedom, p = 0.001; the draws are fixed, so this cannot flake
}

TEST(RandomSeed, Differs) { EXPECT_NE(RandomSeed(), RandomSeed()); }

}  // namespace
}  // namespace firesteel
