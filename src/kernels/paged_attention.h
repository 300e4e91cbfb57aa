// Attention of a flat batch of query rows over a paged cache, with an optional dense tail for rows
// that are not in it.
//
// Positions are taken in chunks of 512, aligned to absolute position, each with a softmax of its
// own; within a chunk a query adds in order of position, and chunks are joined in order of
// position, then the tail. So the bits of a row depend on its query, its position, the keys and
// values that it sees and its window alone: not on chunked prefill, block size, neighbours or
// threads.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/exec.h"
#include "tensor/matrix.h"
#include "tensor/paged_view.h"

namespace firesteel {

// Elements of the largest head.
inline constexpr int32_t kMaxAttentionHeadDim = 512;

// Rows [row_begin, row_begin + row_count) of a batch go to positions first_position, … of one
// sequence.
struct AppendRows {
  int64_t row_begin = 0;
  int64_t row_count = 0;
  int64_t first_position = 0;
  std::span<const BlockId> table;
};

// Writes rows of keys or values [T, heads * head_dim] into the cache, in the dtype and order of its
// plane. FP8: a head of a row is scaled so that its largest magnitude becomes 448; one that holds a
// NaN or an infinity gets a scale of NaN. REQUIRES: head_dim <= kMaxAttentionHeadDim.
void AppendPaged(Exec& exec, ConstMatrix rows, std::span<const AppendRows> sequences,
                 const PagedPlane& plane);

struct AttentionRows {
  int64_t row_begin = 0;  // query rows of one sequence
  int64_t row_count = 0;
  // Cached positions that query row i sees: [0, context + (causal ? i + 1 : 0)).
  int64_t context = 0;
  bool causal = true;
  std::span<const BlockId> table;
  // Keys and values beyond the cache, float32 [tail rows, kv_heads * head_dim]: every query row of
  // the sequence sees all of them (the block of a block drafter). Empty for a target.
  ConstMatrix tail_keys;
  ConstMatrix tail_values;
  // Sliding window: of the cached positions, query row i, which stands at context + i, sees those
  // above context + i - window alone (itself is one of them). 0: all.
  int64_t window = 0;
};

// q [T, heads * head_dim], out the same shape; heads is a multiple of keys.format.heads (grouped
// queries). keys.format.order is kByDimension, values.format.order kByPosition. `sinks`: a logit
// for each query head that joins the softmax and has no value; empty: none. A row that sees nothing
// gives zeros.
//
// All heads of a group and all rows of a sequence, up to 64 queries, share each read of a tile. Few
// items on many threads are cut at chunks.
//
// REQUIRES: head_dim <= kMaxAttentionHeadDim.
void PagedAttention(Exec& exec, ConstMatrix q, std::span<const AttentionRows> sequences,
                    const PagedPlane& keys, const PagedPlane& values, float scale,
                    Matrix<float> out, std::span<const float> sinks = {});

}  // namespace firesteel
