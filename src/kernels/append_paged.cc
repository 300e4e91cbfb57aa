#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/paged_attention.h"

namespace firesteel {
namespace {

// The largest value of a head becomes 448, the largest that e4m3 has.
void AppendF8(const float* from, const RowFormat& format, std::byte* to) {
  std::byte* scales = to + int64_t{format.heads} * format.head_dim;
  for (int32_t h = 0; h < format.heads; ++h) {
    float largest = 0;
    for (int32_t i = 0; i < format.head_dim; ++i) largest = std::max(largest, std::fabs(from[i]));
    const float scaled = largest / 448.0f;
    const float scale = scaled == 0.0f ? 1.0f : scaled;
    for (int32_t i = 0; i < format.head_dim; ++i) to[i] = std::byte{F32ToF8E4M3(from[i] / scale)};
    std::memcpy(scales + int64_t{h} * 4, &scale, sizeof(scale));
    from += format.head_dim;
    to += format.head_dim;
  }
}

void AppendRow(const float* from, const RowFormat& format, std::byte* to) {
  const int64_t count = int64_t{format.heads} * format.head_dim;
  switch (format.dtype) {
    case DType::kF32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::kBF16: {
      auto* elements = reinterpret_cast<uint16_t*>(to);
      for (int64_t i = 0; i < count; ++i) elements[i] = F32ToBF16(from[i]);
      return;
    }
    case DType::kF8E4M3:
      AppendF8(from, format, to);
      return;
    default:
      FS_CHECK(false, "a cache of {}", Name(format.dtype));
  }
}

}  // namespace

void AppendPaged(Exec& exec, ConstMatrix rows, std::span<const AppendRows> sequences,
                 const PagedPlane& plane) {
  FS_DCHECK(rows.cols == int64_t{plane.format.heads} * plane.format.head_dim);
  int64_t total = 0;
  for (const AppendRows& sequence : sequences) total += sequence.row_count;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(rows.cols, 1));
  exec.pool.ParallelFor(total, grain, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;  // of this sequence, counted over all
    for (const AppendRows& sequence : sequences) {
      const int64_t lo = std::max(begin - first, int64_t{0});
      const int64_t hi = std::min(end - first, sequence.row_count);
      for (int64_t i = lo; i < hi; ++i) {
        AppendRow(rows.Row(sequence.row_begin + i), plane.format,
                  plane.Row(sequence.table, sequence.first_position + i));
      }
      first += sequence.row_count;
    }
  });
}

}  // namespace firesteel
