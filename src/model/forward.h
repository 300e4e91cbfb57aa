// One forward pass over a flat batch of rows. Prefill chunks, decode rows and verify rows are the
// same thing: a row is a (sequence, position, token); there is no mode.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "kv/view.h"
#include "tensor/matrix.h"

namespace firesteel {

// Rows [row_begin, row_begin + row_count) belong to one slot, of a sequence or a branch of one, and
// stand at consecutive positions from first_position. For positions below first_position the cache
// holds valid rows, or this pass writes them (ForwardBatch::shared).
struct SequenceRows {
  SequenceSlot slot = 0;
  int32_t row_begin = 0;
  int32_t row_count = 0;
  int64_t first_position = 0;
};

// Among the feature layers: what the head reads, the last layer's output after the final norm.
inline constexpr int32_t kAfterFinalNorm = std::numeric_limits<int32_t>::max();

struct ForwardBatch {
  std::span<const int32_t> tokens;          // [T], each in [0, vocab)
  std::span<const int32_t> positions;       // [T]
  std::span<const SequenceRows> sequences;  // cover the T rows in order
  std::span<const int32_t> logit_rows;      // [L], rows whose logits are wanted, in that order
  // Residual stream to capture: k = after decoder layer k (0-based), -1 = embedding output,
  // kAfterFinalNorm. In the order of the features.
  std::span<const int32_t> feature_layers;  // [m]
  // Rows whose keys and values go to a further slot as well: to a branch, whose rows attend to them
  // there. Every layer writes before it attends. Empty unless a draft is a tree.
  std::span<const SequenceRows> shared = {};
};

// Views into the workspace of the pass: they die with its next Reset.
struct ForwardOutput {
  Matrix<float> logits;    // [L, V]
  Matrix<float> features;  // [T, m * hidden]; empty when no layer was asked for
};

}  // namespace firesteel
