#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <vector>

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

// Every element and every scale of a tile has bytes of its own, inside the tile.
TEST(RowFormat, TilesHoldEverythingOnce) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    for (TileOrder order : {TileOrder::kByPosition, TileOrder::kByDimension}) {
      for (int32_t head_dim : {1, 5, 24}) {
        const RowFormat format{dtype, 3, head_dim, order};
        std::vector<int> uses(static_cast<size_t>(format.TileBytes()), 0);
        const auto use = [&](int64_t offset, int64_t bytes) {
          for (int64_t b = 0; b < bytes; ++b) ++uses.at(static_cast<size_t>(offset + b));
        };
        for (int64_t h = 0; h < 3; ++h) {
          for (int64_t r = 0; r < kAttentionTile; ++r) {
            for (int64_t d = 0; d < head_dim; ++d) {
              use(format.ElementOffset(h, r, d), format.ElementBytes());
            }
            if (dtype == DType::kF8E4M3) use(format.ScaleOffset(h, r), 4);
          }
        }
        for (int n : uses) EXPECT_LE(n, 1);
      }
    }
  }
}

TEST(RowFormat, NeighboursInATile) {
  const RowFormat values{DType::kBF16, 2, 8}, keys{DType::kBF16, 2, 8, TileOrder::kByDimension};
  EXPECT_EQ(values.ElementOffset(0, 0, 1), 2);
  EXPECT_EQ(values.ElementOffset(0, 1, 0), 16);
  EXPECT_EQ(keys.ElementOffset(0, 1, 0), 2);
  EXPECT_EQ(keys.ElementOffset(0, 0, 1), 32);
  EXPECT_EQ(keys.ElementOffset(1, 0, 0), values.ElementOffset(1, 0, 0));
}

TEST(PagedPlane, FollowsTheTable) {
  std::byte bytes[4 * 2 * 256];
  const PagedPlane plane{bytes, 2 * 256, 32, {DType::kF32, 1, 4}};
  const BlockId table[] = {3, 0};
  EXPECT_EQ(plane.Tile(table, 0) - bytes, 3 * 512);
  EXPECT_EQ(plane.Tile(table, 15) - bytes, 3 * 512);
  EXPECT_EQ(plane.Tile(table, 16) - bytes, 3 * 512 + 256);
  EXPECT_EQ(plane.Tile(table, 33) - bytes, 0);
}

}  // namespace
}  // namespace firesteel
