#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/matmul.h"

namespace firesteel {
namespace {

constexpr int64_t kPanel = PackedWeight::kPanel;

template <typename T>
T LoadUnaligned(const std::byte* p) {  // tensors of a file start where they like
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// One row of the checkpoint into column `n` of its panel.
void PackRowBF16(const std::byte* row, int64_t cols, uint16_t* panel, int64_t n) {
  for (int64_t k = 0; k < cols; ++k) {
    panel[(k / 2 * kPanel + n) * 2 + k % 2] = LoadUnaligned<uint16_t>(row + k * 2);
  }
}

void PackRowF32(const std::byte* row, DType dtype, int64_t cols, float* panel, int64_t n) {
  for (int64_t k = 0; k < cols; ++k) {
    panel[k * kPanel + n] = dtype == DType::kF32 ? LoadUnaligned<float>(row + k * 4)
                                                 : F16ToF32(LoadUnaligned<uint16_t>(row + k * 2));
  }
}

Status CheckParts(std::span<const WeightView> parts) {
  if (parts.empty()) return InvalidArgument("weights: no tensor to pack, expected at least one");
  const WeightView& first = parts[0];
  if (first.dtype != DType::kBF16 && first.dtype != DType::kF32 && first.dtype != DType::kF16) {
    return Unsupported(
        fmt::format("weights: {} is {}, expected BF16, F16 or F32", first.name, Name(first.dtype)));
  }
  for (const WeightView& part : parts) {
    if (part.dtype != first.dtype) {
      return Unsupported(fmt::format("weights: {} is {}, expected {} as {} beside it", part.name,
                                     Name(part.dtype), Name(first.dtype), first.name));
    }
    if (part.cols != first.cols) {
      return DataCorrupt(fmt::format("weights: {} has {} columns, expected {} as {} beside it",
                                     part.name, part.cols, first.cols, first.name));
    }
  }
  return {};
}

}  // namespace

Result<PackedWeight> PackWeight(Exec& exec, std::span<const WeightView> parts) {
  FS_TRY(CheckParts(parts));
  const DType stored = parts[0].dtype;
  PackedWeight packed;
  packed.cols_ = parts[0].cols;
  packed.dtype_ = stored == DType::kBF16 ? DType::kBF16 : DType::kF32;
  for (const WeightView& part : parts) packed.rows_ += part.rows;
  // An odd K is padded to a pair.
  const int64_t panel_bytes =
      (packed.cols_ + 1) / 2 * 2 * kPanel * static_cast<int64_t>(SizeOf(packed.dtype_));
  const int64_t panels = (packed.rows_ + kPanel - 1) / kPanel;
  packed.bytes_ = Buffer<std::byte>(panels * panel_bytes);
  exec.pool.ParallelFor(panels, 1, [&](int64_t begin, int64_t end, int) {
    int64_t first_row = 0;
    for (const WeightView& part : parts) {
      const int64_t row_bytes = part.cols * static_cast<int64_t>(SizeOf(stored));
      const int64_t lo = std::max(begin * kPanel - first_row, int64_t{0});
      const int64_t hi = std::min(end * kPanel - first_row, part.rows);
      for (int64_t r = lo; r < hi; ++r) {
        const int64_t n = first_row + r;
        std::byte* panel = packed.bytes_.data() + n / kPanel * panel_bytes;
        const std::byte* row = part.data + r * row_bytes;
        if (stored == DType::kBF16) {
          PackRowBF16(row, part.cols, reinterpret_cast<uint16_t*>(panel), n % kPanel);
        } else {
          PackRowF32(row, stored, part.cols, reinterpret_cast<float*>(panel), n % kPanel);
        }
      }
      first_row += part.rows;
    }
  });
  return packed;
}

}  // namespace firesteel
