#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace firesteel {
namespace {

TEST(BlockPool, AcquiresAllOrNothing) {
  BlockPool pool(4);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Acquire(3, &blocks));
  EXPECT_EQ(pool.NumFree(), 1);
  EXPECT_FALSE(pool.Acquire(2, &blocks));
  EXPECT_EQ(blocks.size(), 3u);
  EXPECT_EQ(pool.NumFree(), 1);
  ASSERT_TRUE(pool.Acquire(1, &blocks));
  std::ranges::sort(blocks);
  EXPECT_EQ(blocks, (std::vector<BlockId>{0, 1, 2, 3}));
  EXPECT_TRUE(pool.Acquire(0, &blocks));
  pool.CheckInvariants();
}

TEST(BlockPool, FreesWithTheLastOwner) {
  BlockPool pool(2);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Acquire(1, &blocks));
  pool.Share(blocks[0]);
  pool.Release(blocks[0]);
  EXPECT_EQ(pool.Owners(blocks[0]), 1);
  EXPECT_EQ(pool.NumFree(), 1);
  pool.Release(blocks[0]);
  EXPECT_EQ(pool.NumFree(), 2);
  pool.CheckInvariants();
}

TEST(BlockPool, CountsBlocksThatOnlyTheCacheHolds) {
  BlockPool pool(2);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.Acquire(1, &blocks));
  pool.Share(blocks[0]);
  pool.SetCached(blocks[0], true);
  EXPECT_EQ(pool.NumCachedOnly(), 0);
  pool.Release(blocks[0]);
  EXPECT_EQ(pool.NumCachedOnly(), 1);
  pool.Share(blocks[0]);
  EXPECT_EQ(pool.NumCachedOnly(), 0);
  pool.Release(blocks[0]);
  pool.SetCached(blocks[0], false);
  EXPECT_EQ(pool.NumCachedOnly(), 0);
  pool.Release(blocks[0]);
  EXPECT_EQ(pool.NumFree(), 2);
  pool.CheckInvariants();
}

TEST(BlockPoolDeathTest, RefusesWhatNobodyHolds) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.Release(0), "block 0 is free and cannot be released");
  EXPECT_DEATH(pool.Share(0), "block 0 is free and cannot be shared");
}

}  // namespace
}  // namespace firesteel
