#include <fmt/format.h>

#include <cmath>

#include "kernels/convert.h"
#include "kernels/panel_layout_internal.h"
#include "kernels/weight_source_internal.h"

namespace firesteel {
namespace {

bool IsByte(DType dtype) { return dtype == DType::kU8 || dtype == DType::kI8; }

uint8_t ByteAt(const WeightView& view, int64_t row, int64_t col) {
  return std::to_integer<uint8_t>(view.data[row * view.cols + col]);
}

float ScaleElement(const WeightView& scale, int64_t row, int64_t col) {
  const int64_t i = row * scale.cols + col;
  if (scale.dtype == DType::kF8E8M0 || IsByte(scale.dtype)) {
    return F8E8M0ToF32(std::to_integer<uint8_t>(scale.data[i]));
  }
  float wide = 0;
  const auto size = static_cast<int64_t>(SizeOf(scale.dtype));
  WidenToF32({scale.data + i * size, scale.dtype, 1, 1, {}}, {&wide, 1});
  return wide;
}

Status CheckScaleShape(const WeightSource& source, int64_t rows, int64_t cols) {
  const WeightView& scale = source.scale;
  if (scale.rows == rows && scale.cols == cols) return {};
  return DataCorrupt(fmt::format("weights: {} is [{}, {}], expected [{}, {}] for {} of [{}, {}]",
                                 scale.name, scale.rows, scale.cols, rows, cols, source.weight.name,
                                 source.weight.rows, SourceCols(source)));
}

// Elements are multiplied by 2^8 of the scale, and a product beyond float32 helps nobody.
constexpr float kMaxScale = 0x1p118f;

Status CheckScales(const WeightSource& source, WeightFormat stored) {
  const WeightView& scale = source.scale;
  const int64_t rows = source.weight.rows, cols = SourceCols(source);
  if (scale.data == nullptr) return {};
  if (stored == WeightFormat::kFp8) {
    if (scale.dtype != DType::kF32 && scale.dtype != DType::kBF16 &&
        scale.dtype != DType::kF8E8M0) {
      return Unsupported(fmt::format("weights: {} is {}, expected F32, BF16 or F8_E8M0", scale.name,
                                     Name(scale.dtype)));
    }
    FS_TRY(CheckScaleShape(source, (rows + kFp8Block - 1) / kFp8Block,
                           (cols + kFp8Block - 1) / kFp8Block));
  } else {
    if (scale.dtype != DType::kF8E8M0 && scale.dtype != DType::kU8) {
      return Unsupported(
          fmt::format("weights: {} is {}, expected F8_E8M0 or U8", scale.name, Name(scale.dtype)));
    }
    FS_TRY(CheckScaleShape(source, rows, (cols + kFp4Group - 1) / kFp4Group));
  }
  for (int64_t r = 0; r < scale.rows; ++r) {
    for (int64_t c = 0; c < scale.cols; ++c) {
      const float value = ScaleElement(scale, r, c);
      if (std::fabs(value) <= kMaxScale) continue;
      return DataCorrupt(fmt::format("weights: {} holds {} at [{}, {}], expected at most 2^118",
                                     scale.name, value, r, c));
    }
  }
  return {};
}

}  // namespace

std::optional<WeightFormat> StoredFormat(const WeightSource& source) {
  switch (source.weight.dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kBF16:
      return WeightFormat::kBF16;
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kF8E4M3:
      return WeightFormat::kFp8;
    case DType::kU8:
    case DType::kI8:
      if (source.scale.data != nullptr) return WeightFormat::kFp4;
      return std::nullopt;  // bytes without a meaning
    default:
      return std::nullopt;
  }
}

int64_t SourceCols(const WeightSource& source) {
  return source.weight.cols * (IsByte(source.weight.dtype) ? 2 : 1);
}

Status CheckSources(std::span<const WeightSource> parts, std::optional<WeightFormat> format) {
  if (parts.empty()) return InvalidArgument("weights: no tensor to pack, expected at least one");
  const WeightSource& first = parts[0];
  for (size_t i = 0; i < parts.size(); ++i) {
    const WeightView& weight = parts[i].weight;
    const std::optional<WeightFormat> stored = StoredFormat(parts[i]);
    const bool double_precision = weight.dtype == DType::kF64 && format.has_value();
    if (!stored && !double_precision) {
      return Unsupported(fmt::format(
          "weights: {} is {}, expected F32, BF16, F16, F8_E4M3, or U8 with scales of FP4",
          weight.name, Name(weight.dtype)));
    }
    if (!format && weight.dtype != first.weight.dtype) {
      return Unsupported(fmt::format("weights: {} is {}, expected {} as {} beside it", weight.name,
                                     Name(weight.dtype), Name(first.weight.dtype),
                                     first.weight.name));
    }
    if (SourceCols(parts[i]) != SourceCols(first)) {
      return DataCorrupt(fmt::format("weights: {} has {} columns, expected {} as {} beside it",
                                     weight.name, SourceCols(parts[i]), SourceCols(first),
                                     first.weight.name));
    }
    const WeightFormat target = format ? *format : *stored;
    const bool only_as_stored = target == WeightFormat::kF16 || target == WeightFormat::kFp8 ||
                                target == WeightFormat::kFp4;
    if (only_as_stored && stored != target) {
      return Unsupported(fmt::format("weights: {} is {}, which is not converted to {}", weight.name,
                                     Name(weight.dtype), Name(target)));
    }
    // A panel has one scale for each block of columns.
    if (target == WeightFormat::kFp8 && i + 1 < parts.size() &&
        weight.rows % PackedWeight::kPanel != 0) {
      return Unsupported(fmt::format(
          "weights: {} has {} rows, expected a multiple of {} to stack F8_E4M3 parts behind it",
          weight.name, weight.rows, PackedWeight::kPanel));
    }
    if (stored) FS_TRY(CheckScales(parts[i], *stored));
  }
  return {};
}

float ScaleAt(const WeightSource& source, int64_t row, int64_t col) {
  if (source.scale.data == nullptr) return 1.0f;
  if (source.weight.dtype == DType::kF8E4M3) {
    return ScaleElement(source.scale, row / kFp8Block, col / kFp8Block);
  }
  return ScaleElement(source.scale, row, col / kFp4Group);
}

void WidenRow(const WeightSource& source, int64_t row, std::span<float> to) {
  const WeightView& weight = source.weight;
  const auto cols = static_cast<int64_t>(to.size());
  if (weight.dtype == DType::kF8E4M3) {
    for (int64_t k = 0; k < cols; ++k) {
      to[static_cast<size_t>(k)] = F8E4M3ToF32(ByteAt(weight, row, k)) * ScaleAt(source, row, k);
    }
  } else if (IsByte(weight.dtype)) {
    for (int64_t k = 0; k < cols; ++k) {
      const auto nibble = static_cast<uint8_t>(ByteAt(weight, row, k / 2) >> k % 2 * 4);
      to[static_cast<size_t>(k)] = F4E2M1ToF32(nibble) * ScaleAt(source, row, k);
    }
  } else {
    const int64_t row_bytes = cols * static_cast<int64_t>(SizeOf(weight.dtype));
    WidenToF32({weight.data + row * row_bytes, weight.dtype, 1, cols, {}}, to);
  }
}

}  // namespace firesteel
