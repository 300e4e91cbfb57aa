#include <algorithm>
#include <new>

#include "kernels/attention_internal.h"

namespace firesteel {
namespace {

constexpr int64_t kMaxQueries = 64;
constexpr int64_t kMaxSums = 16384;
// Reading and widening a position costs about as much as so many queries.
constexpr int64_t kReadCost = 8;
// A piece may be off by this part of itself before items are cut.
constexpr int64_t kUneven = 8;

int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

}  // namespace

int64_t AttentionCall::MaxQueries() const {
  const int64_t most = std::min(kMaxQueries, kMaxSums / SumStride());
  return group <= most ? most / group * group : most;
}

int64_t AttentionItem::VisibleFirst(int64_t query) const {
  if (rows->window <= 0) return 0;
  return std::max<int64_t>(0, rows->context + query / group - rows->window + 1);
}

int64_t AttentionItem::Work(int64_t chunk) const {
  const int64_t cached = CachedChunks();
  const int64_t positions =
      chunk < cached
          ? std::min(kAttentionChunk, cached_end - first_position - chunk * kAttentionChunk)
          : std::min(kAttentionChunk, rows->tail_keys.rows - (chunk - cached) * kAttentionChunk);
  return positions * (count() + kReadCost);
}

int64_t AttentionScratch::Floats(const AttentionCall& call) {
  const int64_t most = call.MaxQueries(), stride = call.SumStride();
  return most * stride + most * kScoreStride + 2 * kMaxTilesAtOnce * kAttentionTile * stride +
         2 * AttentionPartial::Floats(most, stride) + 2 * RoundUp(most, 16);
}

AttentionScratch AttentionScratch::At(float* at, const AttentionCall& call) {
  const int64_t most = call.MaxQueries(), stride = call.SumStride();
  const auto take = [&](int64_t floats) {
    float* taken = at;
    at += floats;
    return taken;
  };
  AttentionScratch s;
  s.queries = take(most * stride);
  s.scores = take(most * kScoreStride);
  s.keys = take(kMaxTilesAtOnce * kAttentionTile * stride);
  s.values = take(kMaxTilesAtOnce * kAttentionTile * stride);
  s.chunk = AttentionPartial::At(take(AttentionPartial::Floats(most, stride)), most);
  s.joined = AttentionPartial::At(take(AttentionPartial::Floats(most, stride)), most);
  s.first = reinterpret_cast<int32_t*>(take(RoundUp(most, 16)));
  s.end = reinterpret_cast<int32_t*>(take(RoundUp(most, 16)));
  return s;
}

AttentionPlan::AttentionPlan(const AttentionCall& call, std::span<const AttentionRows> sequences,
                             int threads)
    : call_(call), sequences_(sequences), threads_(threads) {
  int64_t largest_work = 0, largest_floats = 0, all_floats = 0;
  ForEachItem([&](const AttentionItem& item) {
    int64_t work = 0;
    for (int64_t c = 0; c < item.Chunks(); ++c) work += item.Work(c);
    const int64_t floats = item.Chunks() * AttentionPartial::Floats(item.count(), call.SumStride());
    ++num_items_;
    work_ += work;
    largest_work = std::max(largest_work, work);
    largest_floats = std::max(largest_floats, floats);
    all_floats += floats;
  });
  cut_ = threads > 1 && largest_work * threads * kUneven > work_;
  // Each border between two pieces cuts one item at most.
  if (cut_) partial_floats_ = std::min(all_floats, (threads - 1) * largest_floats);
}

template <typename Visit>
void AttentionPlan::ForEachItem(Visit visit) const {
  const int64_t most = call_.MaxQueries();
  for (const AttentionRows& rows : sequences_) {
    const int64_t queries = rows.row_count * call_.group;
    for (int64_t begin = 0; begin < queries; begin += most) {
      AttentionItem item;
      item.rows = &rows;
      item.begin = begin;
      item.end = std::min(begin + most, queries);
      item.group = call_.group;
      item.cached_end = item.VisibleEnd(item.end - 1);
      item.first_position =
          std::min(item.VisibleFirst(begin), item.cached_end) / kAttentionChunk * kAttentionChunk;
      for (item.kv_head = 0; item.kv_head < call_.keys.format.heads; ++item.kv_head) visit(item);
    }
  }
}

int64_t AttentionPlan::ItemBytes() const {
  return num_items_ * static_cast<int64_t>(sizeof(Entry));
}

void AttentionPlan::Build(std::byte* item_memory, float* partial_memory) {
  entries_ = reinterpret_cast<Entry*>(item_memory);
  int64_t i = 0, work = 0;
  ForEachItem([&](const AttentionItem& item) {
    new (&entries_[i++]) Entry{item, work, nullptr};
    for (int64_t c = 0; c < item.Chunks(); ++c) work += item.Work(c);
  });
  for (int piece = 1; piece < threads_; ++piece) {
    const Place place = PieceBegin(piece);
    if (place.chunk == 0 || entries_[place.item].partials != nullptr) continue;
    const AttentionItem& item = entries_[place.item].item;
    entries_[place.item].partials = partial_memory;
    partial_memory += item.Chunks() * AttentionPartial::Floats(item.count(), call_.SumStride());
  }
}

AttentionPlan::Place AttentionPlan::PieceBegin(int piece) const {
  if (piece == threads_) return {num_items_, 0};
  // The first place with at least this much work before it.
  const int64_t target = work_ * piece / threads_;
  const Entry* next = std::partition_point(entries_, entries_ + num_items_,
                                           [&](const Entry& e) { return e.work_before < target; });
  const int64_t item = next - entries_;
  if (!cut_ || item == 0) return {item, 0};
  int64_t work = entries_[item - 1].work_before;
  const AttentionItem& before = entries_[item - 1].item;
  for (int64_t c = 0; c < before.Chunks(); ++c) {
    if (work >= target) return {item - 1, c};
    work += before.Work(c);
  }
  return {item, 0};
}

}  // namespace firesteel
