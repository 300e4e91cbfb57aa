// Random numbers as a pure function of what they are for: (seed, choice, absolute position,
// purpose, token). Never of batch row, step or slot, which change with load.
//
// Philox4x32-10 with key = {seed low, seed high} and
//   counter = {token / 4, position bits 0-31, choice, purpose << 24 | position bits 32-55};
// lane token % 4 of the result is the token's, so that four neighbours of the vocabulary cost one
// call. A number without a token is that of token 0.
#pragma once

#include <array>
#include <cstdint>

namespace firesteel {

enum class NoisePurpose : uint32_t {
  kTargetGumbel =
      0,  // the token at a position when the target alone decides; in coupled mode the draft's too
  kDraftGumbel = 1,    // a draft token with noise of its own, at RoundPosition
  kAcceptUniform = 2,  // the accept test of a draft token, at RoundPosition
  kResidual = 3,       // the correction after a refusal
  kTree = 4,
};

// Where draft token k (0-based) behind `anchor` has noise of its own: unlike the absolute position
// this never comes again. A refused token's position is drafted anew in the next round, and a rule
// that looks at the whole draft (block verification) has let the old draw decide how far it got.
// REQUIRES: 0 <= k < 256, anchor < 2^48.
constexpr int64_t RoundPosition(int64_t anchor, int32_t k) { return anchor << 8 | k; }

struct NoiseKey {
  uint64_t seed = 0;
  uint32_t choice = 0;
};

// The lanes of tokens 4 * quad … 4 * quad + 3. REQUIRES: 0 <= position < 2^56.
std::array<uint32_t, 4> NoiseLanes(NoiseKey key, int64_t position, NoisePurpose purpose,
                                   int32_t quad);
// The same for `quads` quads from `quad` on, four words each, made together: out [4 * quads].
void NoiseRange(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t quad, int32_t quads,
                uint32_t* out);
// Uniform in (0, 1), never 0 or 1. All 32 bits count: with the 24 of a float no token below 3e-8
// could win a race.
inline double UniformFromLane(uint32_t lane) { return (lane + 0.5) * 0x1p-32; }

double UniformNoise(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t token = 0);
// Standard Gumbel for one token of the vocabulary: -log(-log u).
float GumbelNoise(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t token);

}  // namespace firesteel
