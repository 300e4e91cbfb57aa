// Full blocks of committed tokens, found again by their content.
//
// An entry's key is (parent entry, the block's tokens): a chain, so equal blocks behind different
// prefixes differ. Tokens are kept and compared, so a hash collision is never a hit. The cache is
// one owner of each of its blocks; entries that nobody else holds can be evicted, least recently
// used first, children before parents.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace firesteel {

class PrefixCache {
 public:
  // Of a block behind a prefix with hash `parent`. Only speed depends on it.
  using HashFunction = uint64_t (*)(uint64_t parent, std::span<const int32_t> tokens);
  static uint64_t DefaultHash(uint64_t parent, std::span<const int32_t> tokens);

  PrefixCache(BlockPool& pool, int32_t block_size, HashFunction hash = &DefaultHash);
  ~PrefixCache();

  // Appends the blocks that hold the longest cached prefix of `tokens`, whole blocks only and at
  // least one token less than all, adding the caller as an owner. Returns the number of tokens
  // covered.
  int64_t Match(std::span<const int32_t> tokens, std::vector<BlockId>* blocks);

  // Takes note of the full blocks among tokens[0, committed): blocks[i] holds tokens [i *
  // block_size, (i+1) * block_size). Blocks whose content is cached already (under another id) are
  // left alone. The walk starts behind the last block that is an entry itself, so a sequence that
  // grows block by block pays for the new block alone.
  void Insert(std::span<const int32_t> tokens, std::span<const BlockId> blocks, int64_t committed);

  // Frees up to `count` blocks that only the cache holds; returns how many: min(count,
  // NumEvictable()). An entry whose children are held by sequences goes last, and takes the
  // children's entries (not their blocks) with it.
  int32_t Evict(int32_t count);
  int32_t NumEvictable() const;  // entries that only the cache holds
  int32_t NumEntries() const;
  void Clear();                         // drops every entry (blocks held by sequences stay theirs)
  std::vector<BlockId> Blocks() const;  // of all entries, in no order

  void CheckInvariants() const;  // ends the process when entries, counts and orders disagree

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace firesteel
