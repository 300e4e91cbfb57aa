#include "kv/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace firesteel {
namespace {

int64_t LayerBytes(const CacheGroup& group, int32_t block_size) {
  int64_t bytes = 0;
  for (const RowFormat& plane : group.planes) bytes += plane.RowBytes() * block_size;
  return bytes;
}

}  // namespace

KvCache::KvCache(const CacheLayout& layout, const Options& options)
    : layout_(layout),
      options_(options),
      pool_(options.num_blocks),
      prefix_(pool_, options.block_size),
      sequences_(static_cast<size_t>(options.max_slots)) {
  FS_CHECK(options.block_size > 0 && options.block_size % kAttentionTile == 0,
           "block size {} is no multiple of {}", options.block_size, kAttentionTile);
  for (const CacheGroup& group : layout_.groups) {
    storage_.emplace_back(int64_t{options.num_blocks} * group.num_layers *
                          LayerBytes(group, options.block_size));
  }
}

int64_t KvCache::Open(SequenceSlot slot, std::span<const int32_t> tokens) {
  Sequence& sequence = sequences_[static_cast<size_t>(slot)];
  FS_CHECK(!sequence.open, "slot {} is open already", slot);
  sequence.open = true;
  if (options_.prefix_caching) sequence.length = prefix_.Match(tokens, &sequence.table);
  return sequence.length;
}

bool KvCache::Reserve(SequenceSlot slot, int64_t positions) {
  Sequence& sequence = sequences_[static_cast<size_t>(slot)];
  FS_CHECK(sequence.open, "slot {} is not open", slot);
  const int32_t more = BlocksFor(positions) - static_cast<int32_t>(sequence.table.size());
  if (more <= 0) return true;
  if (more > NumAvailable()) return false;
  if (more > pool_.NumFree()) prefix_.Evict(more - pool_.NumFree());
  const bool acquired = pool_.Acquire(more, &sequence.table);
  FS_CHECK(acquired, "{} blocks were available, {} are free", more, pool_.NumFree());
  return true;
}

void KvCache::Commit(SequenceSlot slot, std::span<const int32_t> tokens, int64_t length,
                     int64_t keep_positions) {
  Sequence& sequence = sequences_[static_cast<size_t>(slot)];
  FS_CHECK(sequence.open, "slot {} is not open", slot);
  // A shorter length would let the next step overwrite rows that the prefix cache may have handed
  // to others.
  FS_CHECK(length >= sequence.length && length <= Capacity(slot) && length <= keep_positions &&
               length <= static_cast<int64_t>(tokens.size()),
           "slot {}: length {} after {}, capacity {}, keep {}, {} tokens", slot, length,
           sequence.length, Capacity(slot), keep_positions, tokens.size());
  const bool block_filled = length / options_.block_size > sequence.length / options_.block_size;
  sequence.length = length;
  if (options_.prefix_caching && block_filled) prefix_.Insert(tokens, sequence.table, length);
  const auto keep = static_cast<size_t>(BlocksFor(keep_positions));
  while (sequence.table.size() > keep) {
    pool_.Release(sequence.table.back());
    sequence.table.pop_back();
  }
}

void KvCache::Close(SequenceSlot slot) {
  Sequence& sequence = sequences_[static_cast<size_t>(slot)];
  FS_CHECK(sequence.open, "slot {} is not open", slot);
  for (BlockId block : sequence.table) pool_.Release(block);
  sequence = Sequence();
}

int64_t KvCache::Length(SequenceSlot slot) const {
  return sequences_[static_cast<size_t>(slot)].length;
}

int64_t KvCache::Capacity(SequenceSlot slot) const {
  return static_cast<int64_t>(sequences_[static_cast<size_t>(slot)].table.size()) *
         options_.block_size;
}

int32_t KvCache::BlocksFor(int64_t positions) const {
  return static_cast<int32_t>((positions + options_.block_size - 1) / options_.block_size);
}

int32_t KvCache::NumAvailable() const { return pool_.NumFree() + prefix_.NumEvictable(); }
int32_t KvCache::NumUsed() const { return pool_.NumBlocks() - NumAvailable(); }
int32_t KvCache::NumCached() const { return prefix_.NumEvictable(); }
void KvCache::ClearPrefixCache() { prefix_.Clear(); }

void KvCache::CheckInvariants() const {
  pool_.CheckInvariants();
  prefix_.CheckInvariants();
  std::vector<int32_t> owners(static_cast<size_t>(pool_.NumBlocks()), 0);
  for (BlockId block : prefix_.Blocks()) ++owners[static_cast<size_t>(block)];
  for (size_t slot = 0; slot < sequences_.size(); ++slot) {
    const Sequence& sequence = sequences_[slot];
    FS_CHECK(sequence.open || sequence.table.empty(), "slot {} is closed and holds {} blocks", slot,
             sequence.table.size());
    FS_CHECK(sequence.length <= Capacity(static_cast<SequenceSlot>(slot)),
             "slot {} has {} rows in {} blocks", slot, sequence.length, sequence.table.size());
    for (BlockId block : sequence.table) ++owners[static_cast<size_t>(block)];
  }
  for (BlockId block = 0; block < pool_.NumBlocks(); ++block) {
    FS_CHECK(owners[static_cast<size_t>(block)] == pool_.Owners(block),
             "block {} has {} owners, tables and cache name {}", block, pool_.Owners(block),
             owners[static_cast<size_t>(block)]);
  }
}

PagedPlane KvCache::Plane(int32_t group, int32_t layer, int32_t plane) const {
  const auto g = static_cast<size_t>(group);
  const CacheGroup& where = layout_.groups[g];
  const int64_t layer_bytes = LayerBytes(where, options_.block_size);
  int64_t offset = layer * layer_bytes;
  for (int32_t p = 0; p < plane; ++p) {
    offset += where.planes[static_cast<size_t>(p)].RowBytes() * options_.block_size;
  }
  return {storage_[g].data() + offset, where.num_layers * layer_bytes, options_.block_size,
          where.planes[static_cast<size_t>(plane)]};
}

std::span<const BlockId> KvCache::Table(SequenceSlot slot, int32_t group) const {
  return sequences_[static_cast<size_t>(slot)].table;
}

}  // namespace firesteel
