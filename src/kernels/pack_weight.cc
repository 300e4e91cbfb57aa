#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/convert.h"
#include "kernels/panel_layout_internal.h"
#include "kernels/quantize_internal.h"
#include "kernels/weight_packer.h"
#include "kernels/weight_source_internal.h"

namespace firesteel {
namespace {

constexpr int64_t kPanel = PackedWeight::kPanel;

// A row of the checkpoint that goes into column `n` of a panel.
struct RowOf {
  const WeightSource* part;
  int64_t row;
  int64_t n;

  const std::byte* data() const {
    const WeightView& w = part->weight;
    return w.data + row * w.cols * static_cast<int64_t>(SizeOf(w.dtype));
  }
};

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

void PackF32(const RowOf& row, std::span<const float> wide, std::byte* panel) {
  auto* out = reinterpret_cast<float*>(panel) + row.n;
  for (size_t k = 0; k < wide.size(); ++k) out[static_cast<int64_t>(k) * kPanel] = wide[k];
}

void PackBF16(const RowOf& row, std::span<const float> wide, std::byte* panel) {
  auto* out = reinterpret_cast<uint16_t*>(panel) + row.n * 2;
  const auto at = [&](int64_t k) -> uint16_t& { return out[k / 2 * kPanel * 2 + k % 2]; };
  const auto cols = static_cast<int64_t>(wide.size());
  if (row.part->weight.dtype == DType::kBF16) {
    for (int64_t k = 0; k < cols; ++k) at(k) = LoadUnaligned<uint16_t>(row.data() + k * 2);
  } else {
    for (int64_t k = 0; k < cols; ++k) at(k) = F32ToBF16(wide[static_cast<size_t>(k)]);
  }
}

// This and the next two return the first k that holds no number, or kNone.
int64_t FirstNotFinite(std::span<const float> wide) {
  float sums[8] = {};  // of zeros, as long as all is well
  size_t i = 0;
  for (; i + 8 <= wide.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += wide[i + j] * 0.0f;
  }
  for (; i < wide.size(); ++i) sums[0] += wide[i] * 0.0f;
  if (std::ranges::all_of(sums, [](float s) { return s == 0; })) return kNone;
  const auto at = std::ranges::find_if_not(wide, [](float x) { return std::isfinite(x); });
  return at - wide.begin();
}

int64_t PackF16(const RowOf& row, int64_t cols, std::byte* panel) {
  auto* out = reinterpret_cast<uint16_t*>(panel) + row.n;
  int64_t bad = kNone;
  for (int64_t k = 0; k < cols; ++k) {
    const auto bits = LoadUnaligned<uint16_t>(row.data() + k * 2);
    if ((bits & 0x7C00) == 0x7C00) bad = std::min(bad, k);
    out[k * kPanel] = bits;
  }
  return bad;
}

int64_t PackFp8(const RowOf& row, int64_t cols, std::byte* panel) {
  int64_t bad = kNone;
  const std::byte* from = row.data();
  for (int64_t begin = 0; begin < cols; begin += kFp8Block) {
    if (row.n == 0) {
      auto* scale = reinterpret_cast<float*>(panel);
      std::fill_n(scale, kFp8ScaleBytes / 4, 0x1p8f * ScaleAt(*row.part, row.row, begin));
    }
    panel += kFp8ScaleBytes;
    const int64_t count = std::min(kFp8Block, cols - begin);
    for (int64_t k = 0; k < count; ++k) {
      const std::byte element = from[begin + k];
      panel[k / 2 * kPanel * 2 + row.n * 2 + k % 2] = element;
      if ((element & std::byte{0x7F}) == std::byte{0x7F}) bad = std::min(bad, begin + k);
    }
    panel += (count + 1) / 2 * kPanel * 2;
  }
  return bad;
}

constexpr uint8_t kOne = 127;  // as e8m0

void PackFp4(const RowOf& row, int64_t cols, std::byte* panel) {
  const std::byte* from = row.data();
  const auto* scales = row.part->scale.data + row.row * row.part->scale.cols;
  for (int64_t begin = 0; begin < cols; begin += kFp4Block) {
    const int64_t count = std::min(kFp4Block, cols - begin);
    if (row.n == 0) std::memset(panel, kOne, kFp4ScaleBytes);  // of features that are missing, too
    auto* words = reinterpret_cast<uint32_t*>(panel + kFp4ScaleBytes) + row.n;
    for (int64_t group = 0; group * kFp4Group < count; ++group) {
      const int64_t k_end = std::min(count, (group + 1) * kFp4Group);
      bool zero = true;
      for (int64_t k = group * kFp4Group; k < k_end; ++k) {
        const uint32_t byte = std::to_integer<uint32_t>(from[(begin + k) / 2]);
        const uint32_t nibble = byte >> k % 2 * 4 & 15;
        words[k / 8 * kPanel] |= nibble << 4 * kNibbleOrder[k % 8];
        zero = zero && (nibble & 7) == 0;
      }
      // Groups of zeros come with the smallest scale, a subnormal, which would slow the kernel.
      panel[group * kPanel + row.n] = zero ? std::byte{kOne} : scales[begin / kFp4Group + group];
    }
    panel += kFp4ScaleBytes + (count + 7) / 8 * kPanel * 4;
  }
}

// The rows of one panel, at most kPanel of them.
class PanelPacker {
 public:
  PanelPacker(WeightFormat format, int64_t cols) : format_(format), cols_(cols) {
    const bool narrow = format == WeightFormat::kF16 || format == WeightFormat::kFp8 ||
                        format == WeightFormat::kFp4;
    if (!narrow) wide_ = Buffer<float>(kPanel * cols);
  }

  // Returns where in the panel, as n * cols + k, the first element is that is no number; or kNone.
  int64_t Pack(std::span<const RowOf> rows, std::byte* panel) {
    int64_t bad = kNone;
    for (const RowOf& row : rows) {
      const int64_t k = PackRow(row, panel);
      if (k != kNone) bad = std::min(bad, row.n * cols_ + k);
    }
    if (IsInteger(format_)) {
      QuantizePanel(format_, ConstMatrix(wide_.data(), static_cast<int64_t>(rows.size()), cols_),
                    panel);
    }
    return bad;
  }

 private:
  int64_t PackRow(const RowOf& row, std::byte* panel) {
    if (format_ == WeightFormat::kF16) {
      return PackF16(row, cols_, panel);
    } else if (format_ == WeightFormat::kFp8) {
      return PackFp8(row, cols_, panel);
    } else if (format_ == WeightFormat::kFp4) {
      PackFp4(row, cols_, panel);
    } else {
      const std::span<float> wide(wide_.data() + row.n * cols_, static_cast<size_t>(cols_));
      WidenRow(*row.part, row.row, wide);
      if (format_ == WeightFormat::kF32) PackF32(row, wide, panel);
      if (format_ == WeightFormat::kBF16) PackBF16(row, wide, panel);
      return FirstNotFinite(wide);
    }
    return kNone;
  }

  WeightFormat format_;
  int64_t cols_;
  Buffer<float> wide_;  // [kPanel, cols]
};

Status NotFiniteAt(std::span<const WeightSource> parts, int64_t row, int64_t col) {
  size_t part = 0;
  while (row >= parts[part].weight.rows) row -= parts[part++].weight.rows;
  std::vector<float> wide(static_cast<size_t>(SourceCols(parts[part])));
  WidenRow(parts[part], row, wide);
  return DataCorrupt(
      fmt::format("weights: {} holds {} at [{}, {}], expected numbers", parts[part].weight.name,
                  std::isinf(wide[static_cast<size_t>(col)]) ? "infinity" : "NaN", row, col));
}

}  // namespace

std::string_view Name(WeightFormat format) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f16",        "fp8",
                                         "fp4", "int8", "int8_group", "int4"};
  return kNames[static_cast<size_t>(format)];
}

int64_t WeightPacker::PanelBytes(WeightFormat format, int64_t cols) {
  return IsInteger(format) ? firesteel::PanelBytes(format, cols) : FloatPanelBytes(format, cols);
}

int64_t WeightPacker::Bytes(WeightFormat format, int64_t rows, int64_t cols) {
  return (rows + kPanel - 1) / kPanel * PanelBytes(format, cols);
}

PackedWeight WeightPacker::Allocate(WeightFormat format, int64_t rows, int64_t cols) {
  PackedWeight packed;
  packed.rows_ = rows;
  packed.cols_ = cols;
  packed.format_ = format;
  packed.panel_bytes_ = PanelBytes(format, cols);
  packed.bytes_ = Buffer<std::byte>(Bytes(format, rows, cols));
  return packed;
}

Result<PackedWeight> PackWeight(Exec& exec, std::span<const WeightSource> parts,
                                std::optional<WeightFormat> format) {
  FS_TRY(CheckSources(parts, format));
  if (!format) format = StoredFormat(parts[0]);
  int64_t num_rows = 0;
  for (const WeightSource& part : parts) num_rows += part.weight.rows;
  const int64_t cols = SourceCols(parts[0]);
  PackedWeight packed = WeightPacker::Allocate(*format, num_rows, cols);
  std::atomic<int64_t> bad = kNone;
  exec.pool.ParallelFor(packed.num_panels(), 1, [&](int64_t begin, int64_t end, int) {
    PanelPacker packer(*format, cols);
    std::vector<RowOf> rows;
    for (int64_t p = begin; p < end; ++p) {
      rows.clear();
      int64_t first_row = 0;
      for (const WeightSource& part : parts) {
        const int64_t lo = std::max(p * kPanel - first_row, int64_t{0});
        const int64_t hi = std::min((p + 1) * kPanel - first_row, part.weight.rows);
        for (int64_t r = lo; r < hi; ++r) rows.push_back({&part, r, first_row + r - p * kPanel});
        first_row += part.weight.rows;
      }
      const int64_t at = packer.Pack(rows, WeightPacker::Panel(packed, p));
      if (at == kNone) continue;
      int64_t earliest = bad.load();
      const int64_t here = p * kPanel * cols + at;
      while (here < earliest && !bad.compare_exchange_weak(earliest, here)) {
      }
    }
  });
  if (bad != kNone) return NotFiniteAt(parts, bad / cols, bad % cols);
  return packed;
}

}  // namespace firesteel
