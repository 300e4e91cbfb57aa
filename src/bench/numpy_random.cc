#include "bench/numpy_random.h"

#include <bit>
#include <cmath>
#include <utility>

namespace firesteel {
namespace {

constexpr uint32_t kInitA = 0x43b0d7e5, kMultA = 0x931e8875;
constexpr uint32_t kInitB = 0x8b51f9dd, kMultB = 0x58f38ded;
constexpr uint32_t kMixL = 0xca01f9dd, kMixR = 0x4973f715;

// The hash of numpy's SeedSequence (after O'Neill's seed_seq_fe).
uint32_t HashWord(uint32_t value, uint32_t* constant) {
  value ^= *constant;
  *constant *= kMultA;
  value *= *constant;
  return value ^ (value >> 16);
}

uint32_t MixWords(uint32_t x, uint32_t y) {
  const uint32_t mixed = x * kMixL - y * kMixR;
  return mixed ^ (mixed >> 16);
}

}  // namespace

MersenneTwister::MersenneTwister(uint32_t word) {
  for (uint32_t i = 0; i < state_.size(); ++i) {
    state_[i] = word;
    word = 1812433253U * (word ^ (word >> 30)) + i + 1;
  }
}

MersenneTwister MersenneTwister::FromWord(uint32_t word) { return MersenneTwister(word); }

MersenneTwister MersenneTwister::FromNumber(uint64_t number) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(number)};
  if (number >> 32 != 0) key.push_back(static_cast<uint32_t>(number >> 32));
  MersenneTwister twister(19650218U);
  auto& s = twister.state_;
  size_t i = 1, j = 0;
  const auto wrap = [&] {
    if (++i >= s.size()) {
      s[0] = s.back();
      i = 1;
    }
  };
  for (size_t k = std::max(s.size(), key.size()); k > 0; --k) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525U)) + key[j] + static_cast<uint32_t>(j);
    wrap();
    if (++j >= key.size()) j = 0;
  }
  for (size_t k = s.size() - 1; k > 0; --k) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941U)) - static_cast<uint32_t>(i);
    wrap();
  }
  s[0] = 0x80000000U;
  return twister;
}

void MersenneTwister::Refill() {
  constexpr size_t kN = 624, kM = 397;
  for (size_t i = 0; i < kN; ++i) {
    const uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kN] & 0x7fffffffU);
    state_[i] = state_[(i + kM) % kN] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfU : 0U);
  }
  at_ = 0;
}

uint32_t MersenneTwister::Next() {
  if (at_ == state_.size()) Refill();
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double MersenneTwister::Double() {
  const uint32_t a = Next() >> 5, b = Next() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

int64_t MersenneTwister::Integer(int64_t lo, int64_t hi) {
  const auto range = static_cast<uint32_t>(hi - lo - 1);  // inclusive
  if (range == 0) return lo;
  const uint32_t mask = ~uint32_t{0} >> std::countl_zero(range);
  uint32_t value = Next() & mask;
  while (value > range) value = Next() & mask;
  return lo + value;
}

double MersenneTwister::Gauss() {
  if (spare_gauss_) return *std::exchange(spare_gauss_, std::nullopt);
  double x1 = 0, x2 = 0, r2 = 0;
  do {
    x1 = 2.0 * Double() - 1.0;
    x2 = 2.0 * Double() - 1.0;
    r2 = x1 * x1 + x2 * x2;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double f = std::sqrt(-2.0 * std::log(r2) / r2);
  spare_gauss_ = f * x1;
  return f * x2;
}

// Marsaglia and Tsang (2000) from shape 1 up, Ahrens and Dieter (1974) below.
double MersenneTwister::Gamma(double shape) {
  const auto exponential = [this] { return -std::log(1.0 - Double()); };
  if (shape == 1.0) return exponential();
  if (shape < 1.0) {
    for (;;) {
      const double u = Double();
      const double v = exponential();
      if (u <= 1.0 - shape) {
        const double x = std::pow(u, 1.0 / shape);
        if (x <= v) return x;
      } else {
        const double y = -std::log((1.0 - u) / shape);
        const double x = std::pow(1.0 - shape + shape * y, 1.0 / shape);
        if (x <= v + y) return x;
      }
    }
  }
  const double b = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * b);
  for (;;) {
    double x = 0, v = 0;
    do {
      x = Gauss();
      v = 1.0 + c * x;
    } while (v <= 0.0);
    v = v * v * v;
    const double u = Double();
    if (u < 1.0 - 0.0331 * (x * x) * (x * x)) return b * v;
    if (std::log(u) < 0.5 * x * x + b * (1.0 - v + std::log(v))) return b * v;
  }
}

uint32_t MersenneTwister::Below(uint32_t n) {
  const int shift = std::countl_zero(n);  // 32 minus the bit length
  uint32_t value = Next() >> shift;
  while (value >= n) value = Next() >> shift;
  return value;
}

Pcg64::Pcg64(uint64_t seed) {
  const std::array<uint32_t, 2> words = {static_cast<uint32_t>(seed),
                                         static_cast<uint32_t>(seed >> 32)};
  const size_t num_words = seed >> 32 != 0 ? 2 : 1;
  std::array<uint32_t, 4> pool{};
  uint32_t constant = kInitA;
  for (size_t i = 0; i < pool.size(); ++i) {
    pool[i] = HashWord(i < num_words ? words[i] : 0, &constant);
  }
  for (size_t from = 0; from < pool.size(); ++from) {
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = MixWords(pool[to], HashWord(pool[from], &constant));
    }
  }
  std::array<uint64_t, 4> out{};
  constant = kInitB;
  for (size_t i = 0; i < 8; ++i) {
    uint32_t value = pool[i % pool.size()] ^ constant;
    constant *= kMultB;
    value *= constant;
    value ^= value >> 16;
    out[i / 2] |= uint64_t{value} << (i % 2 == 0 ? 0 : 32);
  }
  increment_ = (((Wide{out[2]} << 64) | out[3]) << 1) | 1;
  Next();
  state_ += (Wide{out[0]} << 64) | out[1];
  Next();
}

uint64_t Pcg64::Next() {
  constexpr Wide kMultiplier = (Wide{2549297995355413924ULL} << 64) | 4865540595714422341ULL;
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

uint32_t Pcg64::Next32() {
  if (spare_) return *std::exchange(spare_, std::nullopt);
  const uint64_t next = Next();
  spare_ = static_cast<uint32_t>(next >> 32);
  return static_cast<uint32_t>(next);
}

int64_t Pcg64::Integer(int64_t lo, int64_t hi) {
  const auto range = static_cast<uint64_t>(hi - lo - 1);  // inclusive
  if (range == 0) return lo;
  if (range == 0xffffffffU) return lo + Next32();
  const auto bound = static_cast<uint32_t>(range + 1);
  uint64_t product = uint64_t{Next32()} * bound;
  auto left = static_cast<uint32_t>(product);
  if (left < bound) {
    const uint32_t threshold = (0xffffffffU - static_cast<uint32_t>(range)) % bound;
    while (left < threshold) {
      product = uint64_t{Next32()} * bound;
      left = static_cast<uint32_t>(product);
    }
  }
  return lo + static_cast<int64_t>(product >> 32);
}

}  // namespace firesteel
