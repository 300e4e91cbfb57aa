#include "models/ggml_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/convert.h"

namespace firesteel {
namespace {

constexpr int64_t kBlock = 32;

struct TypeRow {
  GgmlType type;
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};
constexpr TypeRow kTypes[] = {
    {GgmlType::kF32, "f32", 1, 4},         {GgmlType::kF16, "f16", 1, 2},
    {GgmlType::kBF16, "bf16", 1, 2},       {GgmlType::kQ8_0, "q8_0", kBlock, 34},
    {GgmlType::kQ4_0, "q4_0", kBlock, 18},
};

const TypeRow& Find(GgmlType type) {
  const auto* row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.type == type; });
  FS_CHECK(row != std::end(kTypes));
  return *row;
}

void StoreF16(float value, std::byte* out) {
  const uint16_t bits = F32ToF16(value);
  std::memcpy(out, &bits, 2);
}

int Round(float value, int lo, int hi) {
  return std::clamp(static_cast<int>(std::lrint(value)), lo, hi);
}

void EncodeQ8_0(const float* x, std::byte* out) {
  float largest = 0;
  for (int64_t j = 0; j < kBlock; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float scale = largest / 127;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  StoreF16(scale, out);
  for (int64_t j = 0; j < kBlock; ++j) out[2 + j] = std::byte(Round(x[j] * inverse, -127, 127));
}

template <typename Quantize>
void StoreNibbles(const float* x, std::byte* out, Quantize quantize) {
  for (int64_t j = 0; j < kBlock / 2; ++j) {
    out[j] = std::byte(quantize(x[j]) | quantize(x[kBlock / 2 + j]) << 4);
  }
}

// The element of the largest magnitude becomes -8, the one value without a counterpart.
void EncodeQ4_0(const float* x, std::byte* out) {
  const float* largest =
      std::max_element(x, x + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float scale = *largest / -8;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  StoreF16(scale, out);
  StoreNibbles(x, out + 2, [&](float v) { return Round(v * inverse + 8, 0, 15); });
}

void EncodeBlock(GgmlType type, const float* x, std::byte* out) {
  switch (type) {
    case GgmlType::kF32:
      std::memcpy(out, x, 4);
      return;
    case GgmlType::kF16:
      StoreF16(*x, out);
      return;
    case GgmlType::kBF16: {
      const uint16_t bits = F32ToBF16(*x);
      std::memcpy(out, &bits, 2);
      return;
    }
    case GgmlType::kQ8_0:
      EncodeQ8_0(x, out);
      return;
    case GgmlType::kQ4_0:
      EncodeQ4_0(x, out);
      return;
  }
}

}  // namespace

std::string_view Name(GgmlType type) { return Find(type).name; }

std::optional<GgmlType> GgmlTypeFromName(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

int64_t BlockElements(GgmlType type) { return Find(type).block_elements; }

int64_t RowBytes(GgmlType type, int64_t elements) {
  const TypeRow& row = Find(type);
  return elements / row.block_elements * row.block_bytes;
}

void EncodeRow(GgmlType type, std::span<const float> row, std::byte* out) {
  const TypeRow& t = Find(type);
  FS_CHECK(static_cast<int64_t>(row.size()) % t.block_elements == 0);
  for (size_t i = 0; i < row.size(); i += static_cast<size_t>(t.block_elements)) {
    EncodeBlock(type, row.data() + i, out);
    out += t.block_bytes;
  }
}

uint16_t F32ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  // Below the smallest normal number the unit is 2^-24: a sum with 0.5 leaves it in the last bits.
  if (magnitude < 0x1p-14f) {
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(magnitude + 0.5f) - 0x3f000000);
  }
  const auto m = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = m + 0xfff + (m >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

}  // namespace firesteel
