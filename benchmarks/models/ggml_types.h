// Rows of float32 in the element types of GGUF files, little-endian.
//
// The quantized types keep 32 elements of a row together: Q8_0 a float16 scale and 32 int8; Q4_0 a
// float16 scale and 32 nibbles, less 8. Element j of a block is in the low half of byte j, element
// 16 + j in its high half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace firesteel {

// Values as in the file.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ8_0 = 8,
  kBF16 = 30,
};

std::string_view Name(GgmlType type);                             // "f32", … "q4_0"
std::optional<GgmlType> GgmlTypeFromName(std::string_view name);  // nullopt: not one of these
int64_t BlockElements(GgmlType type);                             // 1 or 32
int64_t RowBytes(GgmlType type, int64_t elements);

// Rounds `row` into `out`, RowBytes(type, row.size()) of it. REQUIRES: row.size() is a multiple of
// BlockElements(type).
void EncodeRow(GgmlType type, std::span<const float> row, std::byte* out);

uint16_t F32ToF16(float value);  // to nearest even; what is too large becomes infinite

}  // namespace firesteel
