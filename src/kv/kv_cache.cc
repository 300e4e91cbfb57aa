#include "kv/kv_cache.h"

#include <algorithm>
#include <cstring>

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
  Take(more, &sequence.table);
  return true;
}

void KvCache::Take(int32_t count, std::vector<BlockId>* table) {
  if (count > pool_.NumFree()) prefix_.Evict(count - pool_.NumFree());
  const bool acquired = pool_.Acquire(count, table);
  FS_CHECK(acquired, "{} blocks were available, {} are free", count, pool_.NumFree());
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
  EndBranches(sequence);
  for (BlockId block : sequence.table) pool_.Release(block);
  sequence = Sequence();
}

std::optional<SequenceSlot> KvCache::Fork(SequenceSlot slot, int64_t positions) {
  const int64_t length = Length(slot);
  FS_CHECK(sequences_[static_cast<size_t>(slot)].open && slot < options_.max_slots &&
               positions > length && length < Capacity(slot),
           "slot {}: a branch of {} positions, {} of {} are valid", slot, positions, length,
           Capacity(slot));
  const auto shared = static_cast<size_t>(length / options_.block_size);
  const int32_t more = BlocksFor(positions) - static_cast<int32_t>(shared);
  if (more > NumAvailable()) return std::nullopt;
  const SequenceSlot opened = OpenBranch();
  Sequence& sequence = sequences_[static_cast<size_t>(slot)];
  Sequence& branch = sequences_[static_cast<size_t>(opened)];
  sequence.branches.push_back(opened);
  branch.length = length;
  for (size_t i = 0; i < shared; ++i) {
    pool_.Share(sequence.table[i]);
    branch.table.push_back(sequence.table[i]);
  }
  Take(more, &branch.table);
  CopyRows(sequence.table[shared], branch.table[shared], length % options_.block_size);
  return opened;
}

void KvCache::Join(SequenceSlot slot, SequenceSlot kept) {
  Sequence& sequence = sequences_[static_cast<size_t>(slot)];
  if (kept != slot) {
    FS_CHECK(std::ranges::count(sequence.branches, kept) == 1, "slot {} has no branch {}", slot,
             kept);
    // Both share what lies below Length(slot), so only the blocks behind it change hands.
    sequence.table.swap(sequences_[static_cast<size_t>(kept)].table);
  }
  EndBranches(sequence);
}

SequenceSlot KvCache::OpenBranch() {
  if (free_branches_.empty()) {
    free_branches_.push_back(static_cast<SequenceSlot>(sequences_.size()));
    sequences_.emplace_back();
  }
  const SequenceSlot branch = free_branches_.back();
  free_branches_.pop_back();
  sequences_[static_cast<size_t>(branch)].open = true;
  return branch;
}

void KvCache::EndBranches(Sequence& sequence) {
  for (const SequenceSlot slot : sequence.branches) {
    Sequence& branch = sequences_[static_cast<size_t>(slot)];
    for (BlockId block : branch.table) pool_.Release(block);
    branch.table.clear();  // keeps its memory for the next
    branch.length = 0;
    branch.open = false;
    free_branches_.push_back(slot);
  }
  sequence.branches.clear();
}

void KvCache::CopyRows(BlockId from, BlockId to, int64_t rows) {
  const int64_t tiles = (rows + kAttentionTile - 1) / kAttentionTile;
  for (size_t g = 0; g < layout_.groups.size(); ++g) {
    const CacheGroup& group = layout_.groups[g];
    for (int32_t layer = 0; layer < group.num_layers; ++layer) {
      for (size_t p = 0; p < group.planes.size(); ++p) {
        const PagedPlane plane = Plane(static_cast<int32_t>(g), layer, static_cast<int32_t>(p));
        std::memcpy(plane.base + to * plane.block_stride, plane.base + from * plane.block_stride,
                    static_cast<size_t>(tiles * plane.format.TileBytes()));
      }
    }
  }
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
