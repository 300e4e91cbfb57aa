// Element types as safetensors spells them ("BF16", "F8_E4M3", …).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace firesteel {

enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool
};

size_t SizeOf(DType dtype);
std::string_view Name(DType dtype);                         // "BF16"
std::optional<DType> DTypeFromName(std::string_view name);  // nullopt: not a type that we know

}  // namespace firesteel
