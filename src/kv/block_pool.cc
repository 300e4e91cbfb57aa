#include "kv/block_pool.h"

#include "base/check.h"

namespace firesteel {

BlockPool::BlockPool(int32_t num_blocks) {
  FS_CHECK(num_blocks >= 0, "a pool of {} blocks", num_blocks);
  owners_.assign(static_cast<size_t>(num_blocks), 0);
  cached_.assign(static_cast<size_t>(num_blocks), false);
  free_.reserve(static_cast<size_t>(num_blocks));
  // The list is a stack: the block freed last is the one most likely still in the CPU's cache.
  for (BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

bool BlockPool::Acquire(int32_t count, std::vector<BlockId>* blocks) {
  if (count > NumFree()) return false;
  for (int32_t i = 0; i < count; ++i) {
    const BlockId block = free_.back();
    free_.pop_back();
    owners_[static_cast<size_t>(block)] = 1;
    blocks->push_back(block);
  }
  return true;
}

void BlockPool::Share(BlockId block) {
  int32_t& owners = owners_[static_cast<size_t>(block)];
  FS_CHECK(owners > 0, "block {} is free and cannot be shared", block);
  if (++owners == 2 && cached_[static_cast<size_t>(block)]) --num_cached_only_;
}

void BlockPool::Release(BlockId block) {
  int32_t& owners = owners_[static_cast<size_t>(block)];
  FS_CHECK(owners > 0, "block {} is free and cannot be released", block);
  const bool cached = cached_[static_cast<size_t>(block)];
  FS_CHECK(!cached || owners > 1, "block {} is still in the prefix cache", block);
  if (--owners == 0) free_.push_back(block);
  if (owners == 1 && cached) ++num_cached_only_;
}

void BlockPool::SetCached(BlockId block, bool cached) {
  const auto b = static_cast<size_t>(block);
  FS_CHECK(owners_[b] > 0 && cached_[b] != cached, "block {} has {} owners, cached: {}", block,
           owners_[b], static_cast<bool>(cached_[b]));
  cached_[b] = cached;
  if (owners_[b] == 1) num_cached_only_ += cached ? 1 : -1;
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> listed(owners_.size(), false);
  for (BlockId block : free_) {
    const auto b = static_cast<size_t>(block);
    FS_CHECK(!listed[b], "block {} is twice in the free list", block);
    listed[b] = true;
  }
  int32_t cached_only = 0;
  for (size_t b = 0; b < owners_.size(); ++b) {
    FS_CHECK(listed[b] == (owners_[b] == 0), "block {} has {} owners, in the free list: {}", b,
             owners_[b], static_cast<bool>(listed[b]));
    FS_CHECK(!cached_[b] || owners_[b] > 0, "block {} is cached and free", b);
    cached_only += cached_[b] && owners_[b] == 1 ? 1 : 0;
  }
  FS_CHECK(cached_only == num_cached_only_, "{} cached blocks counted as {}", cached_only,
           num_cached_only_);
}

}  // namespace firesteel
