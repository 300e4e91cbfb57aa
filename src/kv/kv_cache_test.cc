#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace firesteel {
namespace {

CacheLayout SmallLayout(DType dtype) {
  const RowFormat target{dtype, 2, 8}, draft{dtype, 1, 24};
  return {{{"target", 2, {target, target}}, {"draft", 1, {draft, draft}}}};
}

TEST(CacheLayout, CountsBytesOfEveryFormat) {
  const auto bytes = [](DType dtype) {
    return CacheLayout{{{"target", 3, {{dtype, 2, 64}, {dtype, 2, 64}}}}}.BytesPerPosition();
  };
  EXPECT_EQ(bytes(DType::kF32), 3 * 2 * 2 * 64 * 4);
  EXPECT_EQ(bytes(DType::kBF16), 3 * 2 * 2 * 64 * 2);
  EXPECT_EQ(bytes(DType::kF8E4M3), 3 * 2 * (2 * 64 + 16));  // two scales, padded to 16 bytes
  EXPECT_EQ(SmallLayout(DType::kF32).BytesPerPosition(), 2 * 2 * 64 + 2 * 96);
  EXPECT_EQ(CacheLayout{}.BytesPerPosition(), 0);
}

TEST(KvCache, TilesDoNotOverlap) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    const CacheLayout layout = SmallLayout(dtype);
    KvCache cache(layout, {.block_size = 16, .num_blocks = 3, .max_slots = 1});
    cache.Open(0, std::vector<int32_t>(40));
    ASSERT_TRUE(cache.Reserve(0, 48));
    std::set<std::pair<std::byte*, std::byte*>> tiles;
    int64_t total = 0;
    for (int32_t g = 0; g < 2; ++g) {
      for (int32_t layer = 0; layer < layout.groups[static_cast<size_t>(g)].num_layers; ++layer) {
        for (int32_t p = 0; p < 2; ++p) {
          const PagedPlane plane = cache.Plane(g, layer, p);
          EXPECT_EQ(reinterpret_cast<uintptr_t>(plane.base) % 64, 0u);
          EXPECT_EQ(plane.block_size, 16);
          for (int64_t position = 0; position < 48; position += kAttentionTile) {
            std::byte* tile = plane.Tile(cache.Table(0, g), position);
            std::memset(tile, static_cast<int>(position),
                        static_cast<size_t>(plane.format.TileBytes()));
            tiles.insert({tile, tile + plane.format.TileBytes()});
            total += plane.format.TileBytes();
          }
        }
      }
    }
    EXPECT_EQ(total, 48 * layout.BytesPerPosition());
    EXPECT_EQ(tiles.size(), 3u * (2 * 2 + 2));
    const std::byte* end = nullptr;
    for (const auto& [begin, tile_end] : tiles) {
      EXPECT_TRUE(end == nullptr || begin >= end);
      end = tile_end;
    }
  }
}

TEST(KvCache, ReserveIsAllOrNothing) {
  KvCache cache(SmallLayout(DType::kBF16), {.block_size = 16, .num_blocks = 4, .max_slots = 2});
  const std::vector<int32_t> tokens(64, 1);
  cache.Open(0, tokens);
  ASSERT_TRUE(cache.Reserve(0, 33));
  EXPECT_EQ(cache.Capacity(0), 48);
  cache.Open(1, tokens);
  EXPECT_FALSE(cache.Reserve(1, 17));
  EXPECT_EQ(cache.Capacity(1), 0);
  EXPECT_TRUE(cache.Reserve(1, 16));
  EXPECT_TRUE(cache.Reserve(1, 5));  // never shrinks
  EXPECT_EQ(cache.Capacity(1), 16);
  EXPECT_EQ(cache.NumAvailable(), 0);
  EXPECT_EQ(cache.NumUsed(), 4);
  cache.CheckInvariants();
}

TEST(KvCache, ReturnsBlocksAboveWhatIsKept) {
  KvCache cache(SmallLayout(DType::kBF16), {.block_size = 16, .num_blocks = 8, .max_slots = 1});
  const std::vector<int32_t> tokens(100, 1);
  cache.Open(0, tokens);
  ASSERT_TRUE(cache.Reserve(0, 100));
  cache.Commit(0, tokens, 40, 41);
  EXPECT_EQ(cache.Length(0), 40);
  EXPECT_EQ(cache.Capacity(0), 48);
  cache.CheckInvariants();
  cache.Close(0);
  EXPECT_EQ(cache.NumCached(), 2);  // the third block was not full
  EXPECT_EQ(cache.NumUsed(), 0);
  EXPECT_EQ(cache.NumAvailable(), 8);
}

TEST(KvCache, WithoutPrefixCachingNothingStays) {
  KvCache cache(SmallLayout(DType::kBF16),
                {.block_size = 16, .num_blocks = 8, .max_slots = 1, .prefix_caching = false});
  const std::vector<int32_t> tokens(64, 1);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(cache.Open(0, tokens), 0);
    ASSERT_TRUE(cache.Reserve(0, 64));
    cache.Commit(0, tokens, 64, 64);
    cache.Close(0);
  }
  EXPECT_EQ(cache.NumCached(), 0);
  cache.CheckInvariants();
}

TEST(KvCache, ReserveEvictsWhatNobodyRuns) {
  KvCache cache(SmallLayout(DType::kBF16), {.block_size = 16, .num_blocks = 4, .max_slots = 2});
  const std::vector<int32_t> a(49, 1), b(49, 2);
  cache.Open(0, a);
  ASSERT_TRUE(cache.Reserve(0, 48));
  cache.Commit(0, a, 48, 48);
  cache.Close(0);
  EXPECT_EQ(cache.NumAvailable(), 4);
  EXPECT_EQ(cache.Open(0, b), 0);
  ASSERT_TRUE(cache.Reserve(0, 48));
  EXPECT_EQ(cache.NumCached(), 1);
  EXPECT_EQ(cache.Open(1, a), 16);  // the chain lost its end, not its beginning
  EXPECT_FALSE(cache.Reserve(1, 32));
  cache.CheckInvariants();
  cache.Close(0);
  cache.Close(1);
  cache.ClearPrefixCache();
  EXPECT_EQ(cache.NumAvailable(), 4);
  EXPECT_EQ(cache.NumCached(), 0);
}

TEST(KvCache, ABranchSharesFullBlocksAndCopiesTheRowsOfTheOneBegun) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    const CacheLayout layout = SmallLayout(dtype);
    KvCache cache(layout, {.block_size = 32, .num_blocks = 8, .max_slots = 2});
    const std::vector<int32_t> tokens(60, 1);
    cache.Open(0, tokens);
    ASSERT_TRUE(cache.Reserve(0, 58));
    for (int32_t g = 0; g < 2; ++g) {
      for (int32_t layer = 0; layer < layout.groups[static_cast<size_t>(g)].num_layers; ++layer) {
        for (int32_t p = 0; p < 2; ++p) {
          const PagedPlane plane = cache.Plane(g, layer, p);
          for (int64_t position = 0; position < 58; position += kAttentionTile) {
            std::memset(plane.Tile(cache.Table(0, g), position),
                        static_cast<int>(1 + position + layer * 5 + p * 3 + g),
                        static_cast<size_t>(plane.format.TileBytes()));
          }
        }
      }
    }
    cache.Commit(0, tokens, 50, 58);
    const std::optional<SequenceSlot> branch = cache.Fork(0, 70);
    ASSERT_TRUE(branch);
    EXPECT_GE(*branch, 2);
    EXPECT_EQ(cache.Length(*branch), 50);
    EXPECT_EQ(cache.Capacity(*branch), 96);
    for (int32_t g = 0; g < 2; ++g) {
      const std::span<const BlockId> own = cache.Table(0, g), other = cache.Table(*branch, g);
      EXPECT_EQ(other[0], own[0]);
      EXPECT_NE(other[1], own[1]);
      for (int32_t layer = 0; layer < layout.groups[static_cast<size_t>(g)].num_layers; ++layer) {
        for (int32_t p = 0; p < 2; ++p) {
          const PagedPlane plane = cache.Plane(g, layer, p);
          for (int64_t position = 32; position < 50; position += kAttentionTile) {
            EXPECT_EQ(std::memcmp(plane.Tile(own, position), plane.Tile(other, position),
                                  static_cast<size_t>(plane.format.TileBytes())),
                      0);
          }
        }
      }
    }
    cache.CheckInvariants();
    const BlockId kept = cache.Table(*branch, 0)[1];
    cache.Join(0, *branch);
    EXPECT_EQ(cache.Table(0, 0)[1], kept);
    cache.CheckInvariants();
    cache.Close(0);
    EXPECT_EQ(cache.NumUsed(), 0);
    EXPECT_EQ(cache.NumCached(), 1);  // no block with uncommitted rows
  }
}

TEST(KvCache, ABranchThatDoesNotFitChangesNothing) {
  KvCache cache(SmallLayout(DType::kBF16), {.block_size = 16, .num_blocks = 4, .max_slots = 1});
  const std::vector<int32_t> tokens(64, 1);
  cache.Open(0, tokens);
  ASSERT_TRUE(cache.Reserve(0, 30));
  cache.Commit(0, tokens, 20, 30);
  EXPECT_FALSE(cache.Fork(0, 65));
  EXPECT_EQ(cache.NumAvailable(), 2);
  EXPECT_TRUE(cache.Fork(0, 32));
  EXPECT_TRUE(cache.Fork(0, 21));
  EXPECT_FALSE(cache.Fork(0, 21));
  cache.CheckInvariants();
  cache.Join(0, 0);
  EXPECT_EQ(cache.NumAvailable(), 2);
  EXPECT_EQ(cache.Fork(0, 32), SequenceSlot{2});  // slots are used again
  cache.Close(0);
  EXPECT_EQ(cache.NumUsed(), 0);
}

// The whole contract against the simplest model there is: every row carries a fingerprint of all
// tokens up to its position, and whatever is valid must carry the right one, whoever wrote it.
class RandomRun {
 public:
  RandomRun(uint32_t seed, int32_t block_size, int32_t num_blocks)
      : random_(seed),
        cache_(SmallLayout(DType::kF32),
               {.block_size = block_size, .num_blocks = num_blocks, .max_slots = 5}),
        sequences_(5) {}

  void Step() {
    const auto slot = static_cast<SequenceSlot>(Below(5));
    Sequence& s = sequences_[static_cast<size_t>(slot)];
    if (!s.open) {
      s = {true, 0, {}};
      for (uint32_t n = 1 + Below(90); n > 0; --n) {
        s.tokens.push_back(static_cast<int32_t>(Below(40) == 0));
      }
      s.length = cache_.Open(slot, s.tokens);
      EXPECT_LT(s.length, static_cast<int64_t>(s.tokens.size()));
      hits_ += s.length > 0 ? 1 : 0;
    } else if (Below(8) == 0) {
      cache_.Close(slot);
      s = {};
    } else if (Below(400) == 0) {
      cache_.ClearPrefixCache();
    } else {
      Grow(slot, s);
    }
    CheckRows(slot, s);
    cache_.CheckInvariants();
  }

  void Drain() {
    for (size_t slot = 0; slot < sequences_.size(); ++slot) {
      if (sequences_[slot].open) cache_.Close(static_cast<SequenceSlot>(slot));
    }
    EXPECT_EQ(cache_.NumUsed(), 0);
    EXPECT_EQ(cache_.NumAvailable(), cache_.NumBlocks());
    EXPECT_GT(hits_, 0);
    EXPECT_GT(forks_, 0);
  }

 private:
  struct Sequence {
    bool open = false;
    int64_t length = 0;
    std::vector<int32_t> tokens;
  };

  uint32_t Below(uint32_t n) { return random_() % n; }

  // One forward pass: a chunk of the prompt, or the anchor and a draft of which a part is accepted.
  void Grow(SequenceSlot slot, Sequence& s) {
    const int64_t left = static_cast<int64_t>(s.tokens.size()) - s.length;
    if (left == 1 && Below(3) == 0) return GrowByATree(slot, s);
    const int64_t rows = left > 1 ? std::min<int64_t>(left, 1 + Below(40)) : 1 + Below(6);
    const int32_t available = cache_.NumAvailable();
    const bool fits =
        cache_.BlocksFor(s.length + rows) - cache_.Capacity(slot) / BlockSize() <= available;
    ASSERT_EQ(cache_.Reserve(slot, s.length + rows), fits);
    if (!fits) return;
    std::vector<int32_t> row_tokens = s.tokens;
    while (static_cast<int64_t>(row_tokens.size()) < s.length + rows) {
      row_tokens.push_back(static_cast<int32_t>(Below(3)));
    }
    for (int64_t p = s.length; p < s.length + rows; ++p) Write(slot, p, Fingerprint(row_tokens, p));
    const int64_t kept = left > 1 ? rows : 1 + Below(static_cast<uint32_t>(rows));
    const int64_t length = s.length + kept;
    if (length > static_cast<int64_t>(s.tokens.size())) {
      s.tokens.assign(row_tokens.begin(), row_tokens.begin() + length);
    }
    if (length == static_cast<int64_t>(s.tokens.size())) {
      s.tokens.push_back(static_cast<int32_t>(Below(3)));  // the next anchor
    }
    s.length = length;
    cache_.Commit(slot, s.tokens, length, length + Below(2));
    EXPECT_EQ(cache_.Length(slot), length);
  }

  // The anchor with several branches behind it, of which one is kept in part.
  void GrowByATree(SequenceSlot slot, Sequence& s) {
    if (!cache_.Reserve(slot, s.length + 1 + Below(20))) return;
    struct Branch {
      SequenceSlot slot;
      int64_t rows;
      std::vector<int32_t> tokens;
    };
    std::vector<Branch> branches{{slot, cache_.Capacity(slot) - s.length, s.tokens}};
    for (uint32_t n = 1 + Below(4); n > 0; --n) {
      const int64_t rows = 1 + Below(30);
      const int32_t available = cache_.NumAvailable();
      const auto branch = cache_.Fork(slot, s.length + rows);
      const int32_t needed =
          cache_.BlocksFor(s.length + rows) - static_cast<int32_t>(s.length / BlockSize());
      ASSERT_EQ(branch.has_value(), needed <= available);
      ASSERT_EQ(cache_.NumAvailable(), available - (branch ? needed : 0));
      if (branch) branches.push_back({*branch, rows, s.tokens});
    }
    forks_ += static_cast<int64_t>(branches.size()) - 1;
    for (Branch& branch : branches) {
      for (int64_t p = s.length; p < s.length + branch.rows; ++p) {
        if (p > s.length) branch.tokens.push_back(static_cast<int32_t>(Below(3)));
        Write(branch.slot, p, Fingerprint(branch.tokens, p));
      }
    }
    cache_.CheckInvariants();
    for (Branch& branch : branches) {
      CheckRows(branch.slot, {true, s.length + branch.rows, branch.tokens});
    }
    if (Below(10) == 0) {  // the sequence ends with its branches open
      cache_.Close(slot);
      s = {};
      return;
    }
    const Branch& kept = branches[Below(static_cast<uint32_t>(branches.size()))];
    cache_.Join(slot, kept.slot);
    s.length += 1 + Below(static_cast<uint32_t>(kept.rows));
    s.tokens.assign(kept.tokens.begin(), kept.tokens.begin() + s.length);
    s.tokens.push_back(static_cast<int32_t>(Below(3)));
    cache_.Commit(slot, s.tokens, s.length, s.length + 1);
  }

  int64_t BlockSize() { return cache_.Plane(0, 0, 0).block_size; }

  static uint64_t Fingerprint(const std::vector<int32_t>& tokens, int64_t position) {
    uint64_t h = 1;
    for (int64_t p = 0; p <= position; ++p) {
      h = h * 0x100000001B3u + static_cast<uint64_t>(tokens[static_cast<size_t>(p)]) + 1;
    }
    return h;
  }

  std::byte* Row(SequenceSlot slot, int32_t group, int64_t position) {
    const PagedPlane plane = cache_.Plane(group, 0, 1);
    return plane.Tile(cache_.Table(slot, group), position) +
           plane.format.ElementOffset(0, position % kAttentionTile, 0);
  }

  void Write(SequenceSlot slot, int64_t position, uint64_t value) {
    for (int32_t g = 0; g < 2; ++g) {
      std::memcpy(Row(slot, g, position), &value, sizeof(value));
    }
  }

  void CheckRows(SequenceSlot slot, const Sequence& s) {
    for (int64_t p = 0; p < s.length; ++p) {
      for (int32_t g = 0; g < 2; ++g) {
        uint64_t value = 0;
        std::memcpy(&value, Row(slot, g, p), sizeof(value));
        ASSERT_EQ(value, Fingerprint(s.tokens, p)) << "slot " << slot << " position " << p;
      }
    }
  }

  std::mt19937 random_;
  KvCache cache_;
  std::vector<Sequence> sequences_;
  int64_t hits_ = 0, forks_ = 0;
};

TEST(KvCache, EveryValidRowBelongsToItsPrefix) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    RandomRun run(seed, seed % 3 == 0 ? 32 : 16, seed % 2 == 0 ? 4 : 14);
    for (int step = 0; step < 3000 && !::testing::Test::HasFatalFailure(); ++step) run.Step();
    run.Drain();
  }
}

}  // namespace
}  // namespace firesteel
