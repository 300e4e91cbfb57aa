// Past outputs by tenant, within one budget of bytes and of texts. No text of one tenant is ever
// looked up for another.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>

#include "speculation/suffix_index_internal.h"

namespace firesteel {

class SuffixPools {
 public:
  struct Limits {
    int64_t max_texts = 10'000;
    int64_t max_bytes = int64_t{64} << 20;
  };
  SuffixPools(const Limits& limits, uint64_t hash_seed) : limits_(limits), hash_seed_(hash_seed) {}

  // Keeps a finished text. What no longer fits is forgotten: the oldest texts of the tenant that
  // has gone without a draft for longest.
  void Add(const std::string& tenant, std::span<const int32_t> text);
  SuffixDraft Find(const std::string& tenant, std::span<const int32_t> context,
                   const SuffixLimits& limits, int32_t max_tokens);

  int64_t num_texts() const { return num_texts_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Pool {
    SuffixIndex index;
    std::deque<int64_t> lengths;  // of its texts with their borders, oldest first
    uint64_t last_use = 0;
  };

  void DropOne();

  Limits limits_;
  uint64_t hash_seed_;
  std::map<std::string, Pool> pools_;  // by tenant
  int64_t num_texts_ = 0;
  int64_t bytes_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace firesteel
