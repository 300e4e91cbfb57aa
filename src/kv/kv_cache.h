// The paged cache of all groups: storage, block tables of the running sequences, prefix cache.
//
// Per sequence: `length` positions hold valid rows (committed), `capacity` positions have a slot.
// Rows between them are stale, not free: the next step overwrites them. Only blocks wholly below
// `length` enter the prefix cache.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "firesteel/status.h"
#include "kv/block_pool.h"
#include "kv/layout.h"
#include "kv/prefix_cache.h"
#include "kv/view.h"
#include "tensor/buffer.h"

namespace firesteel {

class KvCache : public KvView {
 public:
  struct Options {
    int32_t block_size = 16;  // REQUIRES: a multiple of kAttentionTile
    int32_t num_blocks = 0;
    int32_t max_slots = 0;
    bool prefix_caching = true;
  };
  KvCache(const CacheLayout& layout, const Options& options);

  // Opens an empty slot for a sequence and shares the cached prefix of `tokens` (at most
  // tokens.size() - 1 of them). Returns the number of positions that are valid at once.
  int64_t Open(SequenceSlot slot, std::span<const int32_t> tokens);
  // Makes room for positions [0, positions), evicting cached blocks that nobody runs; false (and no
  // change) when even that is too little.
  [[nodiscard]] bool Reserve(SequenceSlot slot, int64_t positions);
  // Positions [0, length) are committed and hold `tokens`: full blocks become findable; blocks
  // wholly above `keep_positions` (>= length) go back to the pool.
  void Commit(SequenceSlot slot, std::span<const int32_t> tokens, int64_t length,
              int64_t keep_positions);
  void Close(SequenceSlot slot);

  // A branch of a sequence, for a draft that is a tree: a slot of its own, from max_slots on, whose
  // rows [0, Length(slot)) are those of the sequence and which has room of its own for positions
  // [Length(slot), positions). Where the room begins within a block, the rows below are copied, in
  // every group. Null (and no change) when blocks are short, evictable ones included.
  std::optional<SequenceSlot> Fork(SequenceSlot slot, int64_t positions);
  // Ends the branches of a sequence, which goes on with the rows of `kept`: one of them, or itself.
  void Join(SequenceSlot slot, SequenceSlot kept);

  int64_t Length(SequenceSlot slot) const;
  int64_t Capacity(SequenceSlot slot) const;
  int32_t BlocksFor(int64_t positions) const;  // ceil(positions / block_size)
  int32_t NumAvailable() const;                // free plus evictable
  int32_t NumBlocks() const { return pool_.NumBlocks(); }
  int32_t NumUsed() const;    // held by at least one sequence
  int32_t NumCached() const;  // held by the prefix cache alone
  void ClearPrefixCache();

  // Every block is free or accounted for by tables and cache; ends the process otherwise. For tests
  // and debug builds.
  void CheckInvariants() const;

  PagedPlane Plane(int32_t group, int32_t layer, int32_t plane) const override;
  std::span<const BlockId> Table(SequenceSlot slot, int32_t group) const override;

 private:
  struct Sequence {
    bool open = false;
    int64_t length = 0;
    std::vector<BlockId> table;
    std::vector<SequenceSlot> branches;
  };

  void Take(int32_t count, std::vector<BlockId>* table);  // REQUIRES: as many are available
  SequenceSlot OpenBranch();
  void EndBranches(Sequence& sequence);
  void CopyRows(BlockId from, BlockId to, int64_t rows);

  CacheLayout layout_;
  Options options_;
  BlockPool pool_;
  PrefixCache prefix_;
  std::vector<Buffer<std::byte>> storage_;  // one per group: [block][layer][plane][row]
  std::vector<Sequence> sequences_;         // by slot, branches last
  std::vector<SequenceSlot> free_branches_;
};

}  // namespace firesteel
