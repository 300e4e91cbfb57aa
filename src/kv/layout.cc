#include "kv/layout.h"

namespace firesteel {

std::vector<RowFormat> KeyValuePlanes(DType dtype, int32_t heads, int32_t head_dim) {
  return {{dtype, heads, head_dim, TileOrder::kByDimension},
          {dtype, heads, head_dim, TileOrder::kByPosition}};
}

int64_t CacheLayout::BytesPerPosition() const {
  int64_t bytes = 0;
  for (const CacheGroup& group : groups) {
    for (const RowFormat& plane : group.planes) bytes += group.num_layers * plane.RowBytes();
  }
  return bytes;
}

}  // namespace firesteel
