// How attention is cut up: into items (the queries of one sequence that share a key-value head),
// items into chunks of positions, and the chunks over the threads.
//
// A chunk has a softmax of its own, and the chunks of a query are joined in order of position,
// whoever computed them: so what is cut where is free, except for the length of a chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/paged_attention.h"

namespace firesteel {

// Positions of a chunk, aligned to absolute position; rows of a tail count from 0.
inline constexpr int64_t kAttentionChunk = 512;
inline constexpr int64_t kChunkTiles = kAttentionChunk / kAttentionTile;
// Floats from the scores of one query to the next: not a power of two, whose lines would share sets
// of L1.
inline constexpr int64_t kScoreStride = kAttentionChunk + 16;

// What all items share.
struct AttentionCall {
  ConstMatrix q;
  Matrix<float> out;
  PagedPlane keys, values;
  float scale = 1.0f;
  std::span<const float> sinks;
  int64_t head_dim = 0;
  int64_t group = 0;  // query heads of a key-value head

  // Floats that a query's sums take.
  int64_t SumStride() const { return (head_dim + 15) / 16 * 16; }
  // Queries of an item: as many as keep their sums in L2.
  int64_t MaxQueries() const;
};

// Queries [begin, end) of a sequence and key-value head, counted row by row and within a row head
// by head.
struct AttentionItem {
  const AttentionRows* rows = nullptr;
  int64_t kv_head = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first_position = 0;  // that any of them sees, rounded down to a chunk
  int64_t cached_end = 0;      // cached positions that any of them sees end here
  int64_t group = 0;

  int64_t count() const { return end - begin; }
  int64_t CachedChunks() const {
    return (cached_end - first_position + kAttentionChunk - 1) / kAttentionChunk;
  }
  int64_t Chunks() const {
    return CachedChunks() + (rows->tail_keys.rows + kAttentionChunk - 1) / kAttentionChunk;
  }
  // Cached positions [first, end) that `query` sees.
  int64_t VisibleFirst(int64_t query) const;
  int64_t VisibleEnd(int64_t query) const {
    return rows->context + (rows->causal ? query / group + 1 : 0);
  }
  // What a chunk costs, in units of a position and a query.
  int64_t Work(int64_t chunk) const;
};

// The softmax of `count` queries over a chunk: the largest score, the sum of weights relative to
// it, the sum of weighted values. A total of 0: nothing was seen. Scores are in units of log 2.
struct AttentionPartial {
  float* largest = nullptr;
  float* totals = nullptr;
  float* sums = nullptr;  // [count][SumStride()]

  static int64_t Floats(int64_t count, int64_t sum_stride) {
    return (2 * count + 15) / 16 * 16 + count * sum_stride;
  }
  static AttentionPartial At(float* at, int64_t count) {
    return {at, at + count, at + (2 * count + 15) / 16 * 16};
  }
};

// Memory of one thread, views into scratch.
struct AttentionScratch {
  float* queries;  // packed for the loops over scores
  float* scores;   // [queries][kScoreStride]
  float* keys;     // kMaxTilesAtOnce tiles, widened
  float* values;   // kMaxTilesAtOnce tiles, widened
  AttentionPartial chunk, joined;
  int32_t* first;  // by query: the positions of the chunk that it sees
  int32_t* end;

  static constexpr int64_t kMaxTilesAtOnce = 3;
  static int64_t Floats(const AttentionCall& call);
  static AttentionScratch At(float* at, const AttentionCall& call);
};

// All chunks of a call, shared out in pieces of equal work, one for each thread. Chunks count item
// by item; an item is cut only where threads would otherwise wait for one another.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionCall& call, std::span<const AttentionRows> sequences, int threads);

  int64_t num_items() const { return num_items_; }
  int64_t PartialFloats() const { return partial_floats_; }  // at most
  int64_t ItemBytes() const;

  // Fills `items` and what is needed to look up pieces; both must outlive the plan.
  void Build(std::byte* item_memory, float* partial_memory);

  struct Place {
    int64_t item = 0;
    int64_t chunk = 0;
  };
  Place PieceBegin(int piece) const;  // pieces are [PieceBegin(i), PieceBegin(i + 1))
  const AttentionItem& item(int64_t i) const { return entries_[i].item; }
  // Where the chunks of an item that was cut go, one after another; null for one that was not.
  float* Partials(int64_t i) const { return entries_[i].partials; }

 private:
  struct Entry {
    AttentionItem item;
    int64_t work_before = 0;
    float* partials = nullptr;
  };
  template <typename Visit>
  void ForEachItem(Visit visit) const;

  const AttentionCall& call_;
  std::span<const AttentionRows> sequences_;
  int threads_;
  bool cut_ = false;
  int64_t num_items_ = 0;
  int64_t work_ = 0;
  int64_t partial_floats_ = 0;
  Entry* entries_ = nullptr;
};

}  // namespace firesteel
