#include "base/rng.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

namespace firesteel {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * c0;
    const uint64_t p1 = kMultiplier1 * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

uint64_t RandomSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) == static_cast<ssize_t>(sizeof(seed))) return seed;
  // A kernel without getrandom: the time and the process still tell two servers apart.
  const auto now = static_cast<uint64_t>(Clock::Real().NowNs());
  const auto bits = Philox4x32({static_cast<uint32_t>(now), static_cast<uint32_t>(now >> 32), 0, 0},
                               {static_cast<uint32_t>(getpid()), 0});
  return uint64_t{bits[0]} << 32 | bits[1];
}

}  // namespace firesteel
