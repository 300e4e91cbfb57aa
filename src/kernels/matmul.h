// out[m, n] = sum over k of x[m, k] * w[n, k], for 1 to a few thousand rows, tuned for 1 to 64
// (decode and verification).
//
// Row invariance: the bits of an output element depend on its row of x and on w alone: not on the
// number of rows, their order, the tile or the threads. Floating weights: one chain of fused
// multiply-adds over k = 0, 1, 2, … in float32; for fp8 and fp4 one such chain over the elements of
// each block of k under one scale, and a chain of sum times scale over the blocks. Integer weights:
// activations are rounded to int8 with a scale of their row's own; sums of integers are exact, and
// the scaled sums of the groups are added in the order of k.
#pragma once

#include "kernels/exec.h"
#include "kernels/packed_weight.h"
#include "tensor/matrix.h"

namespace firesteel {

enum class MatMulStore {
  kSet,  // out = x w^T
  kAdd,  // out += x w^T, added once at the end: the residual stream
};

// x [M, K], out [M, N]. x and out must not overlap. Uses exec.Scratch.
void MatMul(Exec& exec, ConstMatrix x, const PackedWeight& w, Matrix<float> out,
            MatMulStore store = MatMulStore::kSet);

}  // namespace firesteel
