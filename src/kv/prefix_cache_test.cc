#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace firesteel {
namespace {

constexpr int32_t kBlock = 4;

// A pool, a cache and sequences that hold blocks by hand.
struct Fixture {
  explicit Fixture(int32_t num_blocks, PrefixCache::HashFunction hash = &PrefixCache::DefaultHash)
      : pool(num_blocks), cache(pool, kBlock, hash) {}

  // Runs a sequence over `tokens` from the cached prefix on, and leaves it open.
  std::vector<BlockId> Run(std::span<const int32_t> tokens) {
    std::vector<BlockId> blocks;
    cache.Match(tokens, &blocks);
    const auto need = static_cast<int32_t>((tokens.size() + kBlock - 1) / kBlock - blocks.size());
    if (need > pool.NumFree()) cache.Evict(need - pool.NumFree());
    EXPECT_TRUE(pool.Acquire(need, &blocks));
    cache.Insert(tokens, blocks, static_cast<int64_t>(tokens.size()));
    return blocks;
  }
  void Close(std::span<const BlockId> blocks) {
    for (BlockId block : blocks) pool.Release(block);
  }
  void RunAndClose(std::span<const int32_t> tokens) { Close(Run(tokens)); }
  int64_t Hit(std::span<const int32_t> tokens) {
    std::vector<BlockId> blocks;
    const int64_t hit = cache.Match(tokens, &blocks);
    Close(blocks);
    return hit;
  }
  void Check() {
    pool.CheckInvariants();
    cache.CheckInvariants();
  }

  BlockPool pool;
  PrefixCache cache;
};

std::vector<int32_t> Tokens(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<int32_t> Concat(std::vector<int32_t> a, std::span<const int32_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(PrefixCache, LeavesOneTokenToCompute) {
  Fixture f(8);
  f.RunAndClose(Tokens(0, 8));
  EXPECT_EQ(f.cache.NumEntries(), 2);
  EXPECT_EQ(f.Hit(Tokens(0, 8)), 4);  // the second block would cover all
  EXPECT_EQ(f.Hit(Tokens(0, 9)), 8);
  EXPECT_EQ(f.Hit(Tokens(0, 4)), 0);
  EXPECT_EQ(f.Hit({}), 0);
  f.Check();
}

TEST(PrefixCache, SharesTheSameBlocks) {
  Fixture f(8);
  const auto a = f.Run(Tokens(0, 10));
  EXPECT_EQ(f.cache.NumEntries(), 2);  // the third block is not full
  EXPECT_EQ(f.cache.NumEvictable(), 0);
  std::vector<BlockId> b;
  EXPECT_EQ(f.cache.Match(Tokens(0, 10), &b), 8);
  EXPECT_EQ(b, (std::vector<BlockId>{a[0], a[1]}));
  EXPECT_EQ(f.pool.Owners(a[0]), 3);
  f.Close(a);
  EXPECT_EQ(f.cache.NumEvictable(), 0);
  f.Close(b);
  EXPECT_EQ(f.cache.NumEvictable(), 2);
  f.Check();
}

TEST(PrefixCache, EqualBlocksBehindDifferentPrefixesDiffer) {
  Fixture f(8);
  f.RunAndClose(Concat(Tokens(0, 4), Tokens(50, 4)));
  f.RunAndClose(Concat(Tokens(10, 4), Tokens(50, 4)));
  EXPECT_EQ(f.cache.NumEntries(), 4);
  EXPECT_EQ(f.Hit(Concat(Tokens(20, 4), Tokens(50, 5))), 0);
  EXPECT_EQ(f.Hit(Concat(Tokens(10, 4), Tokens(50, 5))), 8);
}

TEST(PrefixCache, LeavesContentThatIsCachedAlone) {
  Fixture f(8);
  // Two sequences compute the same prompt at the same time; the second goes on behind it.
  const auto a = f.Run(Tokens(0, 8));
  std::vector<BlockId> b;
  ASSERT_TRUE(f.pool.Acquire(3, &b));
  f.cache.Insert(Tokens(0, 12), b, 12);
  EXPECT_EQ(f.cache.NumEntries(), 3);
  EXPECT_EQ(f.pool.Owners(b[0]), 1);
  EXPECT_EQ(f.pool.Owners(b[2]), 2);
  EXPECT_EQ(f.Hit(Tokens(0, 13)), 12);
  f.Close(a);
  EXPECT_EQ(f.cache.NumEvictable(), 2);
  f.Check();
  // The entries before b[2] can go although b runs: b's own blocks hold the content.
  EXPECT_EQ(f.cache.Evict(1), 1);
  f.Check();
  EXPECT_EQ(f.cache.Evict(5), 1);
  EXPECT_EQ(f.cache.NumEntries(), 0);
  EXPECT_EQ(f.pool.Owners(b[2]), 1);
  f.Check();
  // And its next block finds nothing above it, so the whole chain enters again.
  ASSERT_TRUE(f.pool.Acquire(1, &b));
  f.cache.Insert(Tokens(0, 16), b, 16);
  EXPECT_EQ(f.Hit(Tokens(0, 17)), 16);
  f.Close(b);
  f.Check();
}

TEST(PrefixCache, EvictsLeastRecentlyUsedFromTheEnd) {
  Fixture f(6);
  f.RunAndClose(Tokens(0, 12));
  f.RunAndClose(Tokens(100, 12));
  EXPECT_EQ(f.Hit(Tokens(0, 9)), 8);  // the first chain's first two blocks are younger now
  EXPECT_EQ(f.cache.Evict(1), 1);
  EXPECT_EQ(f.Hit(Tokens(0, 13)), 8);  // it lost the third, used before the other chain's end
  EXPECT_EQ(f.cache.Evict(2), 2);
  EXPECT_EQ(f.Hit(Tokens(100, 13)), 4);
  EXPECT_EQ(f.Hit(Tokens(0, 13)), 8);
  EXPECT_EQ(f.cache.Evict(1), 1);
  EXPECT_EQ(f.Hit(Tokens(100, 13)), 0);
  EXPECT_EQ(f.cache.Evict(10), 2);
  EXPECT_EQ(f.pool.NumFree(), 6);
  f.Check();
}

TEST(PrefixCache, AUsedChainOutlivesAnIdleOne) {
  Fixture f(16);
  const auto a = f.Run(Tokens(0, 4));  // enters first …
  f.RunAndClose(Tokens(100, 8));
  auto blocks = a;
  ASSERT_TRUE(f.pool.Acquire(3, &blocks));
  f.cache.Insert(Tokens(0, 16), blocks, 16);  // … but grows after the other
  f.Close(blocks);
  EXPECT_EQ(f.cache.Evict(2), 2);
  EXPECT_EQ(f.Hit(Tokens(100, 9)), 0);
  EXPECT_EQ(f.Hit(Tokens(0, 17)), 16);
}

TEST(PrefixCache, NeverEvictsWhatASequenceHolds) {
  Fixture f(4);
  const auto a = f.Run(Tokens(0, 8));
  f.RunAndClose(Tokens(100, 8));
  EXPECT_EQ(f.cache.Evict(4), 2);
  EXPECT_EQ(f.Hit(Tokens(0, 9)), 8);
  EXPECT_EQ(f.pool.Owners(a[0]), 2);
}

TEST(PrefixCache, ClearKeepsTheSequencesBlocks) {
  Fixture f(8);
  const auto a = f.Run(Tokens(0, 8));
  f.RunAndClose(Tokens(100, 12));
  f.cache.Clear();
  EXPECT_EQ(f.cache.NumEntries(), 0);
  EXPECT_EQ(f.pool.NumFree(), 6);
  EXPECT_EQ(f.pool.Owners(a[0]), 1);
  f.Check();
}

// With a constant hash every entry is in one bucket: only the comparison of parents and tokens
// tells them apart.
TEST(PrefixCache, ACollisionIsNeverAHit) {
  Fixture f(64, [](uint64_t, std::span<const int32_t>) { return uint64_t{7}; });
  for (int32_t i = 0; i < 8; ++i) f.RunAndClose(Concat(Tokens(i, 4), Tokens(50, 4)));
  EXPECT_EQ(f.cache.NumEntries(), 16);
  EXPECT_EQ(f.Hit(Tokens(40, 9)), 0);
  EXPECT_EQ(f.Hit(Concat(Tokens(3, 4), Tokens(51, 5))), 4);
  for (int32_t i = 0; i < 8; ++i) {
    const auto tokens = Concat(Tokens(i, 4), Tokens(50, 5));
    std::vector<BlockId> blocks;
    EXPECT_EQ(f.cache.Match(tokens, &blocks), 8);
    f.Close(blocks);
  }
  EXPECT_EQ(f.cache.Evict(5), 5);
  f.Check();
}

// Evictions of single blocks from a large cache: quadratic work would take minutes here.
TEST(PrefixCache, EvictionIsCheap) {
  constexpr int32_t kBlocks = 60'000;
  Fixture f(kBlocks);
  const auto shared = Tokens(0, kBlock);
  for (int32_t i = 0; i < kBlocks / 2 - 1; ++i) {
    f.RunAndClose(Concat(shared, std::vector<int32_t>(2 * kBlock, 10 + i)));
  }
  const auto running = f.Run(Tokens(0, kBlock + 1));
  int32_t freed = 0;
  while (f.cache.Evict(1) == 1) ++freed;
  EXPECT_EQ(freed, 2 * (kBlocks / 2 - 1));
  f.Check();
}

TEST(PrefixCache, RandomOperationsKeepTheInvariants) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return random() % n; };
    Fixture f(
        12,
        seed % 2 == 0 ? &PrefixCache::DefaultHash
                      : [](uint64_t p, std::span<const int32_t> t) -> uint64_t {
          return (p + static_cast<uint32_t>(t[0])) % 3;
        });
    struct Running {
      std::vector<int32_t> tokens;
      std::vector<BlockId> blocks;
    };
    std::vector<Running> running;
    for (int step = 0; step < 2000; ++step) {
      const uint32_t what = below(10);
      if (what < 4) {
        // Two letters, so prefixes repeat and duplicates arise.
        Running r;
        for (uint32_t n = 1 + below(16); n > 0; --n) {
          r.tokens.push_back(static_cast<int32_t>(below(8) == 0));
        }
        const int64_t hit = f.cache.Match(r.tokens, &r.blocks);
        EXPECT_EQ(hit, static_cast<int64_t>(r.blocks.size()) * kBlock);
        EXPECT_LT(hit, static_cast<int64_t>(r.tokens.size()));
        running.push_back(std::move(r));
      } else if (what < 7 && !running.empty()) {
        Running& r = running[below(static_cast<uint32_t>(running.size()))];
        const auto need =
            static_cast<int32_t>((r.tokens.size() + kBlock - 1) / kBlock - r.blocks.size());
        const int32_t available = f.pool.NumFree() + f.cache.NumEvictable();
        if (need > f.pool.NumFree()) {
          const int32_t want = need - f.pool.NumFree();
          const int32_t evictable = f.cache.NumEvictable();
          EXPECT_EQ(f.cache.Evict(want), std::min(want, evictable));
        }
        ASSERT_EQ(f.pool.Acquire(need, &r.blocks), need <= available);
        if (need <= available) {
          f.cache.Insert(r.tokens, r.blocks,
                         static_cast<int64_t>(below(static_cast<uint32_t>(r.tokens.size()) + 1)));
        }
      } else if (what < 9 && !running.empty()) {
        const size_t i = below(static_cast<uint32_t>(running.size()));
        f.Close(running[i].blocks);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (what == 9 && below(20) == 0) {
        f.cache.Clear();
      }
      f.Check();
    }
    for (const Running& r : running) f.Close(r.blocks);
    f.cache.Clear();
    EXPECT_EQ(f.pool.NumFree(), 12);
  }
}

}  // namespace
}  // namespace firesteel
