// Byte-pair encoding of one word: the pair with the lowest rank merges first, the leftmost of equal
// ones.
//
// Immutable after construction, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

class Bpe {
 public:
  using Vocab = std::unordered_map<std::string, int32_t>;  // in the byte spelling
  using Merges = std::vector<std::pair<std::string, std::string>>;

  // kDataCorrupt, beginning with `where`, when a byte has no token or a merge names one that is not
  // in `vocab`.
  static Result<Bpe> Make(const Vocab& vocab, const Merges& merges, std::string_view where);

  // Memory that a caller keeps from word to word.
  class Scratch;

  // Appends the tokens of `word` to `*ids`. O(n log n) in its bytes. REQUIRES: fewer than 2^31 of
  // them.
  void Encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const;

 private:
  struct Merge {
    uint64_t pair = kNoPair;  // left id, right id
    int32_t rank = 0;
    int32_t id = 0;  // what they become
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static uint64_t Pair(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  void Insert(const Merge& merge);
  const Merge* Find(int32_t left, int32_t right) const;
  size_t SlotOf(uint64_t pair) const;

  std::array<int32_t, 256> byte_ids_{};
  std::vector<Merge> table_;  // open addressing, at most half full; its size is a power of two
};

class Bpe::Scratch {
 public:
  Scratch() = default;

 private:
  friend class Bpe;
  // The word as a doubly linked list of symbols over its bytes.
  struct Symbol {
    int32_t id;  // -1: merged into the one on its left
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    int32_t rank;
    int32_t position;
    int32_t id;
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace firesteel
