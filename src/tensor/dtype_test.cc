#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include "tensor/paged_view.h"

namespace firesteel {
namespace {

TEST(DType, NamesAndSizesAgree) {
  constexpr DType kAll[] = {DType::kF64,    DType::kF32,    DType::kF16,    DType::kBF16,
                            DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0, DType::kI64,
                            DType::kI32,    DType::kI16,    DType::kI8,     DType::kU8,
                            DType::kBool};
  for (DType dtype : kAll) {
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
    EXPECT_GE(SizeOf(dtype), 1u);
  }
  EXPECT_EQ(SizeOf(DType::kF64), 8u);
  EXPECT_EQ(SizeOf(DType::kF32), 4u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kF8E4M3), 1u);
  EXPECT_EQ(Name(DType::kF8E4M3), "F8_E4M3");
}

TEST(DType, UnknownNames) {
  for (std::string_view name : {"", "bf16", "BF16 ", "F4", "U16"}) {
    EXPECT_EQ(DTypeFromName(name), std::nullopt);
  }
}

TEST(RowFormat, CountsScalesAndPadding) {
  EXPECT_EQ((RowFormat{DType::kF32, 2, 64}.RowBytes()), 512);
  EXPECT_EQ((RowFormat{DType::kBF16, 3, 5}.RowBytes()), 32);
  EXPECT_EQ((RowFormat{DType::kF8E4M3, 2, 64}.RowBytes()), 144);
}

TEST(PagedPlane, FollowsTheTable) {
  std::byte bytes[4 * 64 * 16];
  const PagedPlane plane{bytes, 64 * 16, 16, {DType::kF32, 1, 4}};
  const BlockId table[] = {3, 0};
  EXPECT_EQ(plane.Row(table, 0) - bytes, 3 * 64 * 16);
  EXPECT_EQ(plane.Row(table, 15) - bytes, 3 * 64 * 16 + 15 * 16);
  EXPECT_EQ(plane.Row(table, 17) - bytes, 16);
}

}  // namespace
}  // namespace firesteel
