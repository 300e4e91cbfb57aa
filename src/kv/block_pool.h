// Ids of KV blocks: which are free, who holds the others. Owns no bytes, only numbers.
//
// A block is free, or held by one or more owners (sequences and the prefix cache). Acquire hands
// out free blocks with one owner; Share adds an owner; Release drops one and frees the block with
// the last. Sum of owners == sum of all block tables plus the prefix cache's entries.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/paged_view.h"

namespace firesteel {

class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  // Appends `count` blocks to `*blocks`, or leaves it untouched and returns false when fewer are
  // free: a caller that wants three blocks has no use for two.
  [[nodiscard]] bool Acquire(int32_t count, std::vector<BlockId>* blocks);
  void Share(BlockId block);    // REQUIRES: held
  void Release(BlockId block);  // REQUIRES: held
  int32_t Owners(BlockId block) const { return owners_[static_cast<size_t>(block)]; }
  // Marks that one of the owners is the prefix cache, so that blocks which it alone holds can be
  // counted in O(1).
  void SetCached(BlockId block, bool cached);  // REQUIRES: held; a change
  int32_t NumCachedOnly() const { return num_cached_only_; }
  int32_t NumFree() const { return static_cast<int32_t>(free_.size()); }
  int32_t NumBlocks() const { return static_cast<int32_t>(owners_.size()); }

  void CheckInvariants() const;  // ends the process when the lists disagree

 private:
  std::vector<int32_t> owners_;  // 0: free
  std::vector<bool> cached_;
  std::vector<BlockId> free_;
  int32_t num_cached_only_ = 0;
};

}  // namespace firesteel
