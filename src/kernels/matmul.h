// out[m, n] = sum over k of x[m, k] * w[n, k], for 1 to a few thousand rows, tuned for 1 to 64
// (decode and verification).
//
// Row invariance: every output element is one chain of fused multiply-adds over k = 0, 1, 2, … in
// float32, so its bits depend on its row of x and on w alone: not on the number of rows, their
// order, the tile or the threads.
#pragma once

#include <cstdint>
#include <span>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"
#include "tensor/weight_view.h"

namespace firesteel {

// Weights in kernel layout: panels of kPanel output features, each stored k by k. bf16 stays bf16
// (decoded in registers), f32 stays f32; f16 is widened to f32. Owns its memory. Immutable after
// construction.
class PackedWeight {
 public:
  static constexpr int64_t kPanel = 32;

  PackedWeight() = default;

  int64_t rows() const { return rows_; }  // N
  int64_t cols() const { return cols_; }  // K
  DType dtype() const { return dtype_; }
  int64_t bytes() const { return bytes_.size(); }  // what one pass reads
  const std::byte* data() const { return bytes_.data(); }

 private:
  friend Result<PackedWeight> PackWeight(Exec& exec, std::span<const WeightView> parts);
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  DType dtype_ = DType::kF32;
  Buffer<std::byte> bytes_;
};

// Packs `parts`, stacked along N (q, k and v as one weight; gate and up as one). All parts have the
// same cols and dtype; kUnsupported for a dtype that no kernel reads, naming the tensor.
Result<PackedWeight> PackWeight(Exec& exec, std::span<const WeightView> parts);

enum class MatMulStore {
  kSet,  // out = x w^T
  kAdd,  // out += x w^T, added once at the end: the residual stream
};

// x [M, K], out [M, N]. x and out must not overlap.
void MatMul(Exec& exec, ConstMatrix x, const PackedWeight& w, Matrix<float> out,
            MatMulStore store = MatMulStore::kSet);

}  // namespace firesteel
