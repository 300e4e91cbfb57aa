// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A value is a pure function
// of its key and counter.
#pragma once

#include <array>
#include <cstdint>

namespace firesteel {

// The ten-round bijection itself.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in (0, 1), never 0 or 1: 24 bits plus a half.
inline double UniformOpen(uint32_t bits) { return ((bits >> 8) + 0.5) * (1.0 / 16777216.0); }

// A 64-bit seed from the operating system, for requests that name none.
uint64_t RandomSeed();

}  // namespace firesteel
