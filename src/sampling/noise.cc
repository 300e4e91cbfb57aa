#include "sampling/noise.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace firesteel {

std::array<uint32_t, 4> NoiseLanes(NoiseKey key, int64_t position, NoisePurpose purpose,
                                   int32_t quad) {
  FS_DCHECK(position >= 0 && position < int64_t{1} << 56, "position {}", position);
  const auto high = static_cast<uint32_t>(position >> 32);
  return Philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(position), key.choice,
                     static_cast<uint32_t>(purpose) << 24 | high},
                    {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

double UniformNoise(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t token) {
  const auto lanes = NoiseLanes(key, position, purpose, token / 4);
  return UniformFromLane(lanes[static_cast<size_t>(token % 4)]);
}

float GumbelNoise(NoiseKey key, int64_t position, NoisePurpose purpose, int32_t token) {
  return static_cast<float>(-std::log(-std::log(UniformNoise(key, position, purpose, token))));
}

}  // namespace firesteel
