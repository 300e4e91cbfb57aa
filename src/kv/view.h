// How a forward pass sees the cache: where rows lie, and each sequence's block table. Copies are
// cheap; never owns.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/paged_view.h"

namespace firesteel {

// A running sequence's index, stable from admission to its end (or preemption), then reused. Those
// behind the last sequence are branches of sequences, for the length of a step (KvCache::Fork).
using SequenceSlot = int32_t;

class KvView {
 public:
  virtual ~KvView() = default;
  // `plane`: index into CacheGroup::planes (0 keys, 1 values).
  virtual PagedPlane Plane(int32_t group, int32_t layer, int32_t plane) const = 0;
  virtual std::span<const BlockId> Table(SequenceSlot slot, int32_t group) const = 0;
};

}  // namespace firesteel
