#include "sampling/noise.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/vocab_ops.h"

namespace firesteel {

namespace {

std::array<uint32_t, 4> Counter(NoiseKey key, int64_t position, NoisePurpose purpose,
                                int32_t quad) {
  FS_DCHECK(position >= 0 && position < int64_t{1} << 56, "position {}", position);
  const auto high = static_cast<uint32_t>(position >> 32);
  return {static_cast<uint32_t>(quad), static_cast<uint32_t>(position), key.choice,
          static_cast<uint32_t>(purpose) << 24 | high};
}

std::array<uint32_t, 2> PhiloxKey(NoiseKey key) {
  return {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)};
}

}  // namespace

std::array<uint32_t, 4> NoiseLanes(NoiseKey key, int64_t position, NoisePurpose purpose,
                                   int32_t quad) {
  return Philox4x32(Counter(key, position, purpose, quad), PhiloxKey(key));
}

void NoiseRange(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t quad, int32_t quads,
                uint32_t* out) {
  PhiloxRange(Counter(key, position, purpose, quad), PhiloxKey(key), quads, out);
}

double UniformNoise(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t token) {
  const auto lanes = NoiseLanes(key, position, purpose, token / 4);
  return UniformFromLane(lanes[static_cast<size_t>(token % 4)]);
}

float GumbelNoise(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t token) {
  return static_cast<float>(-std::log(-std::log(UniformNoise(key, position, purpose, token))));
}

}  // namespace firesteel
