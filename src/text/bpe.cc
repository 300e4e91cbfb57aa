#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "text/byte_alphabet.h"

namespace firesteel {

Result<Bpe> Bpe::Make(const Vocab& vocab, const Merges& merges, std::string_view where) {
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = vocab.find(SpellByte(static_cast<uint8_t>(byte)));
    if (token == vocab.end()) {
      return DataCorrupt(fmt::format("{}model.vocab has no token for byte 0x{:02X}", where, byte));
    }
    bpe.byte_ids_[byte] = token->second;
  }
  bpe.table_.resize(std::bit_ceil(2 * merges.size() + 1));
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    int32_t ids[3];
    const std::string parts[3] = {left, right, left + right};
    for (int i = 0; i < 3; ++i) {
      const auto token = vocab.find(parts[i]);
      if (token == vocab.end()) {
        return DataCorrupt(
            fmt::format("{}model.merges[{}] (\"{}\" and \"{}\") needs token \"{}\", which "
                        "model.vocab does not have",
                        where, rank, left, right, parts[i]));
      }
      ids[i] = token->second;
    }
    bpe.Insert({Pair(ids[0], ids[1]), static_cast<int32_t>(rank), ids[2]});
  }
  return bpe;
}

size_t Bpe::SlotOf(uint64_t pair) const {
  uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  const size_t mask = table_.size() - 1;
  size_t slot = hash & mask;
  while (table_[slot].pair != pair && table_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

// Of a pair that is listed twice the later rank counts, as in Hugging Face's table.
void Bpe::Insert(const Merge& merge) { table_[SlotOf(merge.pair)] = merge; }

const Bpe::Merge* Bpe::Find(int32_t left, int32_t right) const {
  const Merge& merge = table_[SlotOf(Pair(left, right))];
  return merge.pair == kNoPair ? nullptr : &merge;
}

void Bpe::Encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const {
  const auto n = static_cast<int32_t>(word.size());
  auto& symbols = scratch->symbols_;
  auto& heap = scratch->heap_;
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < n; ++i) {
    symbols.push_back({byte_ids_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < n ? i + 1 : -1});
  }
  // std::*_heap keep the largest in front; this order makes it the lowest rank, then the leftmost.
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
  };
  const auto candidate = [&](int32_t left, bool in_order) {
    if (left < 0 || symbols[left].next < 0) return;
    const Merge* merge = Find(symbols[left].id, symbols[symbols[left].next].id);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, left, merge->id});
    if (in_order) std::push_heap(heap.begin(), heap.end(), later);
  };
  for (int32_t i = 0; i + 1 < n; ++i) candidate(i, false);
  std::make_heap(heap.begin(), heap.end(), later);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[top.position];
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbols[left.next];
    // The pair there may have changed since it was queued.
    const Merge* merge = Find(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = merge->id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.position;
    candidate(left.previous, true);
    candidate(top.position, true);
  }
  for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = symbols[i].next) ids->push_back(symbols[i].id);
}

}  // namespace firesteel
