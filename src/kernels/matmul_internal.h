// The two arithmetic paths behind MatMul. Each computes panels [begin, end) of the output.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace firesteel {

// Elements of x that a thread packs or rounds in some 8 us: fewer are not worth waking one.
inline constexpr int64_t kGrainElements = 1 << 16;

// The rows of x as the tiles of the float path read them: x itself where there is only one row,
// else a copy in scratch, [tiles, slots, cols] with the rows of a tile interleaved in fours. How
// many rows a tile has depends on the instruction set (matmul_float.cc).
struct FloatRows {
  int64_t rows = 0;
  int64_t cols = 0;
  const float* data = nullptr;
};
// Bytes of scratch that PackFloatRows needs.
int64_t FloatRowsBytes(int64_t rows, int64_t cols);
// Copies more than one row, shared out over the pool, to `scratch`; one row is looked at in x.
FloatRows PackFloatRows(Exec& exec, ConstMatrix x, std::byte* scratch);
// float32 activations, weights decoded in registers: kF32, kBF16, kF16, kFp8, kFp4.
void FloatPanels(const FloatRows& x, const PackedWeight& w, const Matrix<float>& out,
                 MatMulStore store, int64_t panel_begin, int64_t panel_end);

struct IntegerKernelEntry;
// The rows of x as int8, and what undoes the rounding. Views into scratch.
struct QuantizedRows {
  const IntegerKernelEntry* kernel = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  // As in IntegerTask.
  const uint32_t* x = nullptr;
  int64_t x_stride = 0;
  const float* scales = nullptr;
  const int32_t* zeros = nullptr;
  int64_t groups = 0;
};
// Bytes of scratch that QuantizeRows needs.
int64_t QuantizedBytes(int64_t rows, int64_t cols, WeightFormat format);
// Rounds x for weights of `format`, rows shared out over the pool; uses memory at `scratch`.
QuantizedRows QuantizeRows(Exec& exec, ConstMatrix x, WeightFormat format, std::byte* scratch);
// int8 activations, exact integer sums: kInt8, kInt8Group, kInt4.
void IntegerPanels(const QuantizedRows& x, const PackedWeight& w, const Matrix<float>& out,
                   MatMulStore store, int64_t panel_begin, int64_t panel_end);

}  // namespace firesteel
