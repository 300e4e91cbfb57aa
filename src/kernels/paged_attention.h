// Attention of a flat batch of query rows over a paged cache, with an optional dense tail for rows
// that are not in it.
//
// Order of additions: keys in tiles of kAttentionTile positions aligned to absolute position, then
// the tail; so the bits of a row depend on its query, its keys and its position alone: not on
// chunking, block size, neighbours or threads.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/exec.h"
#include "tensor/matrix.h"
#include "tensor/paged_view.h"

namespace firesteel {

// Writes rows of keys or values [T, heads * head_dim] into the cache in its own dtype; row t goes
// to positions[t] of the sequence that `tables` names for it.
struct AppendRows {
  int64_t row_begin = 0;  // rows [row_begin, row_begin + count) of the batch belong to one sequence
  int64_t row_count = 0;
  int64_t first_position = 0;
  std::span<const BlockId> table;
};
void AppendPaged(Exec& exec, ConstMatrix rows, std::span<const AppendRows> sequences,
                 const PagedPlane& plane);

// Elements of the largest head that attention takes: its scratch is of fixed size.
inline constexpr int32_t kMaxAttentionHeadDim = 512;

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
};

// q [T, heads * head_dim], out the same shape. heads is a multiple of keys.format.heads (grouped
// queries). REQUIRES: head_dim <= kMaxAttentionHeadDim.
void PagedAttention(Exec& exec, ConstMatrix q, std::span<const AttentionRows> sequences,
                    const PagedPlane& keys, const PagedPlane& values, float scale,
                    Matrix<float> out);

}  // namespace firesteel
