#include "speculation/suffix_pools_internal.h"

#include <algorithm>

namespace firesteel {

void SuffixPools::Add(const std::string& tenant, std::span<const int32_t> text) {
  const auto length = static_cast<int64_t>(text.size()) + 1;
  // One that would push out everything, and then itself, is not kept.
  if (text.empty() || limits_.max_texts == 0 || SuffixIndex::BytesFor(length) > limits_.max_bytes)
    return;
  Pool& pool = pools_.try_emplace(tenant, Pool{SuffixIndex(hash_seed_), {}, 0}).first->second;
  pool.last_use = ++clock_;
  bytes_ -= pool.index.bytes();
  for (const int32_t token : text) pool.index.Append(token);
  pool.index.EndText();
  bytes_ += pool.index.bytes();
  pool.lengths.push_back(length);
  ++num_texts_;
  while (num_texts_ > limits_.max_texts || (bytes_ > limits_.max_bytes && num_texts_ > 0))
    DropOne();
}

void SuffixPools::DropOne() {
  const auto least =
      std::ranges::min_element(pools_, {}, [](const auto& entry) { return entry.second.last_use; });
  Pool& pool = least->second;
  bytes_ -= pool.index.bytes();
  pool.index.DropFront(pool.lengths.front());
  bytes_ += pool.index.bytes();
  pool.lengths.pop_front();
  --num_texts_;
  if (!pool.lengths.empty()) return;
  bytes_ -= pool.index.bytes();
  pools_.erase(least);
}

SuffixDraft SuffixPools::Find(const std::string& tenant, std::span<const int32_t> context,
                              const SuffixLimits& limits, int32_t max_tokens) {
  const auto pool = pools_.find(tenant);
  if (pool == pools_.end()) return {};
  pool->second.last_use = ++clock_;
  return pool->second.index.Find(context, limits, max_tokens);
}

}  // namespace firesteel
