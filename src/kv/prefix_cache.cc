#include "kv/prefix_cache.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "base/rng.h"

namespace firesteel {
namespace {

struct Entry {
  Entry* parent = nullptr;  // null: the first block of a prompt
  std::vector<int32_t> tokens;
  BlockId block = 0;
  uint64_t hash = 0;       // of the whole chain
  uint64_t serial = 0;     // order of insertion, never reused
  uint64_t last_used = 0;  // of itself or, once they are gone, its descendants
  int32_t depth = 0;       // blocks before it
  size_t index = 0;        // among its parent's children
  std::vector<Entry*> children;
};

struct OlderFirst {
  bool operator()(const Entry* a, const Entry* b) const {
    return a->last_used != b->last_used ? a->last_used < b->last_used : a->serial < b->serial;
  }
};

}  // namespace

uint64_t PrefixCache::DefaultHash(uint64_t parent, std::span<const int32_t> tokens) {
  uint64_t h = parent;
  for (int32_t token : tokens) {
    h = (h ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

struct PrefixCache::Impl {
  Impl(BlockPool& pool, int32_t block_size, HashFunction hash)
      : pool(pool),
        block_size(block_size),
        hash(hash),
        entry_of_block(static_cast<size_t>(pool.NumBlocks()), nullptr) {}

  std::span<const int32_t> BlockTokens(std::span<const int32_t> tokens, int64_t index) const {
    return tokens.subspan(static_cast<size_t>(index * block_size), static_cast<size_t>(block_size));
  }
  Entry* EntryOf(BlockId block) const { return entry_of_block[static_cast<size_t>(block)]; }
  uint64_t HashOf(const Entry* parent, std::span<const int32_t> tokens) const {
    return hash(parent == nullptr ? root_hash : parent->hash, tokens);
  }

  Entry* Find(const Entry* parent, uint64_t key, std::span<const int32_t> tokens) const {
    const auto [begin, end] = by_hash.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      Entry* entry = it->second.get();
      if (entry->parent == parent && std::ranges::equal(entry->tokens, tokens)) return entry;
    }
    return nullptr;
  }

  void Touch(Entry* entry) {
    const bool leaf = entry->children.empty();
    if (leaf) leaves.erase(entry);
    entry->last_used = now;
    if (leaf) leaves.insert(entry);
  }

  Entry* Add(Entry* parent, uint64_t key, std::span<const int32_t> tokens, BlockId block) {
    auto owned = std::make_unique<Entry>();
    Entry* entry = owned.get();
    entry->parent = parent;
    entry->tokens.assign(tokens.begin(), tokens.end());
    entry->block = block;
    entry->hash = key;
    entry->serial = next_serial++;
    entry->last_used = now;
    by_hash.emplace(key, std::move(owned));
    leaves.insert(entry);
    if (parent != nullptr) {
      if (parent->children.empty()) leaves.erase(parent);
      entry->depth = parent->depth + 1;
      entry->index = parent->children.size();
      parent->children.push_back(entry);
    }
    entry_of_block[static_cast<size_t>(block)] = entry;
    pool.Share(block);
    pool.SetCached(block, true);
    return entry;
  }

  // REQUIRES: a leaf. Returns whether its block became free.
  bool Remove(Entry* entry) {
    leaves.erase(entry);
    if (Entry* parent = entry->parent; parent != nullptr) {
      Entry* moved = parent->children.back();
      parent->children[entry->index] = moved;
      moved->index = entry->index;
      parent->children.pop_back();
      // Who used a chain used all of it: only the end of the chain is touched then, so recency
      // travels back here.
      parent->last_used = std::max(parent->last_used, entry->last_used);
      if (parent->children.empty()) leaves.insert(parent);
    }
    const BlockId block = entry->block;
    entry_of_block[static_cast<size_t>(block)] = nullptr;
    pool.SetCached(block, false);
    pool.Release(block);
    const auto [begin, end] = by_hash.equal_range(entry->hash);
    by_hash.erase(std::find_if(begin, end, [&](const auto& e) { return e.second.get() == entry; }));
    return pool.Owners(block) == 0;
  }

  // An entry with everything behind it. A chain may be as long as a context, so no recursion.
  int32_t RemoveTree(Entry* root) {
    int32_t freed = 0;
    for (Entry* entry = root;;) {
      while (!entry->children.empty()) entry = entry->children.back();
      Entry* parent = entry->parent;
      const bool done = entry == root;
      freed += Remove(entry) ? 1 : 0;
      if (done) return freed;
      entry = parent;
    }
  }

  BlockPool& pool;
  const int32_t block_size;
  const HashFunction hash;
  // Random, so that nobody outside can prepare prompts whose blocks all share a bucket.
  const uint64_t root_hash = RandomSeed();
  uint64_t now = 0;
  uint64_t next_serial = 0;
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> by_hash;
  std::vector<Entry*> entry_of_block;   // null: not cached
  std::set<Entry*, OlderFirst> leaves;  // entries without children, held by sequences or not
};

PrefixCache::PrefixCache(BlockPool& pool, int32_t block_size, HashFunction hash)
    : impl_(std::make_unique<Impl>(pool, block_size, hash)) {
  FS_CHECK(block_size > 0, "block size {}", block_size);
}

PrefixCache::~PrefixCache() { Clear(); }

int64_t PrefixCache::Match(std::span<const int32_t> tokens, std::vector<BlockId>* blocks) {
  if (tokens.empty()) return 0;
  // One token is left to compute, whose logits give the next.
  const int64_t limit = (static_cast<int64_t>(tokens.size()) - 1) / impl_->block_size;
  ++impl_->now;
  Entry* last = nullptr;
  int64_t matched = 0;
  for (; matched < limit; ++matched) {
    const auto content = impl_->BlockTokens(tokens, matched);
    Entry* entry = impl_->Find(last, impl_->HashOf(last, content), content);
    if (entry == nullptr) break;
    impl_->pool.Share(entry->block);
    blocks->push_back(entry->block);
    last = entry;
  }
  if (last != nullptr) impl_->Touch(last);
  return matched * impl_->block_size;
}

void PrefixCache::Insert(std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                         int64_t committed) {
  FS_CHECK(committed <= static_cast<int64_t>(tokens.size()), "{} of {} tokens committed", committed,
           tokens.size());
  const int64_t full = committed / impl_->block_size;
  FS_CHECK(full <= static_cast<int64_t>(blocks.size()), "{} full blocks in a table of {}", full,
           blocks.size());
  ++impl_->now;
  // The sequence holds its blocks, so an entry for one of them stands behind this very prefix.
  int64_t next = full;
  while (next > 0 && impl_->EntryOf(blocks[static_cast<size_t>(next - 1)]) == nullptr) --next;
  Entry* last = next > 0 ? impl_->EntryOf(blocks[static_cast<size_t>(next - 1)]) : nullptr;
  for (; next < full; ++next) {
    const auto content = impl_->BlockTokens(tokens, next);
    const uint64_t key = impl_->HashOf(last, content);
    Entry* entry = impl_->Find(last, key, content);
    last = entry != nullptr ? entry
                            : impl_->Add(last, key, content, blocks[static_cast<size_t>(next)]);
  }
  if (last != nullptr) impl_->Touch(last);
}

int32_t PrefixCache::Evict(int32_t count) {
  int32_t freed = 0;
  // A sequence holds one chain and so at most one leaf: this skips at most as many as there are
  // sequences.
  for (auto it = impl_->leaves.begin(); freed < count && it != impl_->leaves.end();) {
    Entry* entry = *it;
    if (impl_->pool.Owners(entry->block) > 1) {
      ++it;
      continue;
    }
    Entry* parent = entry->parent;
    ++it;
    impl_->Remove(entry);
    ++freed;
    // A parent that became a leaf just now sorts behind its child, but perhaps before `it`.
    if (parent != nullptr && parent->children.empty() &&
        (it == impl_->leaves.end() || OlderFirst()(parent, *it))) {
      it = impl_->leaves.find(parent);
    }
  }
  if (freed >= count) return freed;
  // What is left stands before blocks that sequences computed while this content was cached under
  // another id. Rare, so a scan will do. Deepest first, so that each tree frees its root alone.
  std::vector<Entry*> roots;
  for (Entry* entry : impl_->entry_of_block) {
    if (entry != nullptr && impl_->pool.Owners(entry->block) == 1) roots.push_back(entry);
  }
  std::ranges::sort(roots, [](const Entry* a, const Entry* b) {
    return a->depth != b->depth ? a->depth > b->depth : OlderFirst()(a, b);
  });
  for (size_t i = 0; i < roots.size() && freed < count; ++i) freed += impl_->RemoveTree(roots[i]);
  return freed;
}

int32_t PrefixCache::NumEvictable() const { return impl_->pool.NumCachedOnly(); }
int32_t PrefixCache::NumEntries() const { return static_cast<int32_t>(impl_->by_hash.size()); }

void PrefixCache::Clear() {
  while (!impl_->leaves.empty()) impl_->Remove(*impl_->leaves.begin());
}

std::vector<BlockId> PrefixCache::Blocks() const {
  std::vector<BlockId> blocks;
  for (const auto& [key, entry] : impl_->by_hash) blocks.push_back(entry->block);
  return blocks;
}

void PrefixCache::CheckInvariants() const {
  size_t leaves = 0, children = 0, roots = 0;
  for (const auto& [key, entry] : impl_->by_hash) {
    FS_CHECK(impl_->entry_of_block[static_cast<size_t>(entry->block)] == entry.get(),
             "block {} does not know its entry", entry->block);
    FS_CHECK(key == impl_->HashOf(entry->parent, entry->tokens), "block {} has a wrong hash",
             entry->block);
    children += entry->children.size();
    roots += entry->parent == nullptr ? 1 : 0;
    if (entry->children.empty()) {
      ++leaves;
      FS_CHECK(impl_->leaves.count(entry.get()) == 1, "block {} is no known leaf", entry->block);
    }
    for (const Entry* child : entry->children) {
      FS_CHECK(child->parent == entry.get() && entry->children[child->index] == child,
               "block {} has another parent", child->block);
    }
  }
  FS_CHECK(leaves == impl_->leaves.size(), "{} leaves, {} listed", leaves, impl_->leaves.size());
  FS_CHECK(children + roots == impl_->by_hash.size(), "{} entries, {} children, {} roots",
           impl_->by_hash.size(), children, roots);
  size_t known = 0;
  for (const Entry* entry : impl_->entry_of_block) known += entry != nullptr ? 1 : 0;
  FS_CHECK(known == impl_->by_hash.size(), "{} blocks for {} entries", known,
           impl_->by_hash.size());
}

}  // namespace firesteel
