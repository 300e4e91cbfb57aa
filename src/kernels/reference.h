// What the kernels mean, as plain loops in float64: the yardstick of the tests. Slow; nothing else
// calls them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/matrix.h"
#include "tensor/weight_view.h"

namespace firesteel::reference {

// By search over all values of the type, as the definition "nearest, ties to even mantissa" reads.
uint16_t F32ToBF16(float value);
float F8E4M3ToF32(uint8_t bits);
uint8_t F32ToF8E4M3(float value);

// A weight of the checkpoint as float32 [rows * cols].
std::vector<float> Widen(const WeightView& weight);

// out[m, n] = sum over k of x[m, k] * w[n, k]; w [N, K].
void MatMul(ConstMatrix x, ConstMatrix w, Matrix<float> out);

void RmsNorm(ConstMatrix x, std::span<const float> w, float eps, Matrix<float> out);

void RopeInPlace(Matrix<float> x, std::span<const int32_t> positions, int32_t head_dim,
                 double theta);

void SiluMul(ConstMatrix gate_up, Matrix<float> out);

// One sequence whose keys and values lie in order, [positions, kv_heads * head_dim]: query row i
// sees the first context + (causal ? i + 1 : 0) of them, with a window only those above context + i
// - window, then all rows of the tail (which may be empty). `sinks`: a logit for each head that
// only the sum of weights has; or none.
struct AttentionInput {
  ConstMatrix q;  // [rows, heads * head_dim]
  ConstMatrix keys, values;
  ConstMatrix tail_keys, tail_values;
  int64_t context = 0;
  bool causal = true;
  int32_t head_dim = 0;
  float scale = 1.0f;
  int64_t window = 0;
  std::span<const float> sinks;
};
void Attention(const AttentionInput& input, Matrix<float> out);

}  // namespace firesteel::reference
