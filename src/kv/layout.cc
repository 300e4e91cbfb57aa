#include "kv/layout.h"

namespace firesteel {

int64_t CacheLayout::BytesPerPosition() const {
  int64_t bytes = 0;
  for (const CacheGroup& group : groups) {
    for (const RowFormat& plane : group.planes) bytes += group.num_layers * plane.RowBytes();
  }
  return bytes;
}

}  // namespace firesteel
