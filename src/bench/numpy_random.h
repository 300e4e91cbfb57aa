// The random generators of the two public tools, bit for bit, so that their request sets can be
// made again: Python's and numpy's Mersenne Twister, and numpy's PCG64.
//
// Our own data sets use Philox (base/rng.h), where row i does not depend on the number of rows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace firesteel {

// MT19937 (Matsumoto and Nishimura, 1998).
class MersenneTwister {
 public:
  // numpy.random.seed(word)
  static MersenneTwister FromWord(uint32_t word);
  // random.seed(number): the number's 32-bit words as the key
  static MersenneTwister FromNumber(uint64_t number);

  uint32_t Next();
  double Double();  // [0, 1), 53 bits

  // numpy.random.randint(lo, hi): by masking and rejecting. REQUIRES: lo < hi, a range below 2^32
  int64_t Integer(int64_t lo, int64_t hi);
  // numpy.random.gamma(shape, 1), numpy's legacy stream. REQUIRES: shape > 0
  double Gamma(double shape);
  // Python's Random._randbelow. REQUIRES: 0 < n < 2^32
  uint32_t Below(uint32_t n);
  // random.shuffle
  template <typename T>
  void Shuffle(std::vector<T>* list) {
    for (size_t i = list->size(); i-- > 1;) {
      std::swap((*list)[i], (*list)[Below(static_cast<uint32_t>(i + 1))]);
    }
  }

 private:
  explicit MersenneTwister(uint32_t word);
  void Refill();
  double Gauss();

  std::array<uint32_t, 624> state_;
  size_t at_ = 624;
  std::optional<double> spare_gauss_;
};

// numpy.random.default_rng(seed): PCG64 seeded through SeedSequence.
class Pcg64 {
 public:
  explicit Pcg64(uint64_t seed);

  uint64_t Next();
  // Generator.integers(lo, hi): Lemire's method. REQUIRES: lo < hi, a range of at most 2^32
  int64_t Integer(int64_t lo, int64_t hi);

 private:
  using Wide = unsigned __int128;
  uint32_t Next32();

  Wide state_ = 0;
  Wide increment_ = 0;
  std::optional<uint32_t> spare_;  // the upper half of the last 64 bits
};

}  // namespace firesteel
