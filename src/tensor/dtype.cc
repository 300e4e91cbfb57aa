#include "tensor/dtype.h"

#include <iterator>

#include "base/check.h"

namespace firesteel {
namespace {

struct Row {
  DType dtype;
  size_t bytes;
  std::string_view name;
};

constexpr Row kTypes[] = {
    {DType::kF64, 8, "F64"},        {DType::kF32, 4, "F32"},        {DType::kF16, 2, "F16"},
    {DType::kBF16, 2, "BF16"},      {DType::kF8E4M3, 1, "F8_E4M3"}, {DType::kF8E5M2, 1, "F8_E5M2"},
    {DType::kF8E8M0, 1, "F8_E8M0"}, {DType::kI64, 8, "I64"},        {DType::kI32, 4, "I32"},
    {DType::kI16, 2, "I16"},        {DType::kI8, 1, "I8"},          {DType::kU8, 1, "U8"},
    {DType::kBool, 1, "BOOL"},
};

const Row& RowOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  FS_DCHECK(index < std::size(kTypes) && kTypes[index].dtype == dtype);
  return kTypes[index];
}

}  // namespace

size_t SizeOf(DType dtype) { return RowOf(dtype).bytes; }

std::string_view Name(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace firesteel
