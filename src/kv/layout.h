// What a model or drafter keeps per position: a list of groups. The cache is handed a layout and
// does not ask whose it is.
//
// All groups here keep every position, so one block id covers block_size positions of all of them,
// one hash covers target and draft state, and a hit or truncation can never part them. A group that
// keeps less (a window, compressed entries) gets a block table of its own; models address rows only
// through KvView::Table(slot, group) and KvView::Plane(group, …), and rollback is "set the length",
// so neither they nor the drafters change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/paged_view.h"

namespace firesteel {

// The planes of attention, 0 keys and 1 values, each in the order that the kernels read.
std::vector<RowFormat> KeyValuePlanes(DType dtype, int32_t heads, int32_t head_dim);

struct CacheGroup {
  std::string name;  // "target", "dspark"
  int32_t num_layers = 0;
  std::vector<RowFormat> planes;  // what a layer stores per position: keys, values
};

struct CacheLayout {
  std::vector<CacheGroup> groups;

  int64_t BytesPerPosition() const;
};

}  // namespace firesteel
