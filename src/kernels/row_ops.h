// Kernels that treat each row alone: embedding, norms, rope, silu. Row-invariant: the bits of a row
// depend on that row only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/exec.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"
#include "tensor/weight_view.h"

namespace firesteel {

// out[t, :] = table[tokens[t], :], widened to float32. table [V, h] in f32, bf16 or f16. REQUIRES:
// 0 <= tokens[t] < V.
void EmbedTokens(Exec& exec, std::span<const int32_t> tokens, const WeightView& table,
                 Matrix<float> out);

// out[i] = x[i] / sqrt(mean(x^2) + eps) * w[i], per row. x and out may be the same rows. w [cols].
void RmsNorm(Exec& exec, ConstMatrix x, std::span<const float> w, float eps, Matrix<float> out);

// The same per head, in place: each row holds cols / head_dim heads. w [head_dim].
void HeadRmsNormInPlace(Exec& exec, Matrix<float> x, std::span<const float> w, float eps);

// Llama 3's stretched rotation ("rope_type": "llama3"): what turns less than low_freq_factor times
// within the original context turns `factor` times slower, what turns more than high_freq_factor
// times is left alone, and between them the frequency goes over linearly.
struct RopeScaling {
  double factor = 1;  // 1: no scaling
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_max_positions = 8192;
};

// cos and sin of position * theta^(-2i/head_dim), scaled, float32 from float64, for positions [0,
// max_positions).
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(int32_t head_dim, double theta, int32_t max_positions, const RopeScaling& scaling = {});
  int32_t head_dim() const { return head_dim_; }
  int32_t max_positions() const { return max_positions_; }
  const float* Cos(int32_t position) const { return table_.data() + int64_t{position} * head_dim_; }
  const float* Sin(int32_t position) const { return Cos(position) + head_dim_ / 2; }

 private:
  int32_t head_dim_ = 0;
  int32_t max_positions_ = 0;
  Buffer<float> table_;  // [max_positions][cos: head_dim/2 | sin: head_dim/2]
};

// Rotates every head of every row in half-split ("NeoX") form, dims (i, i + head_dim/2), at
// positions[row]. REQUIRES: 0 <= positions[row] < table.max_positions().
void RopeInPlace(Exec& exec, Matrix<float> x, std::span<const int32_t> positions,
                 const RopeTable& table);

// Heads of the same rows that share a norm: q, or k.
struct HeadRows {
  Matrix<float> x;           // [T, heads * table.head_dim()]
  std::span<const float> w;  // [table.head_dim()]
};
// RMSNorm of every head of every part, then its rotation, in one pass. All parts have the same T.
void NormRopeInPlace(Exec& exec, std::span<const HeadRows> parts, float eps,
                     std::span<const int32_t> positions, const RopeTable& table);

// x[i] += silu(y[i] + bias[i]), per row. x and y are different rows. bias [cols].
void AddBiasedSilu(Exec& exec, ConstMatrix y, std::span<const float> bias, Matrix<float> x);

// out[i] = silu(gate_up[i]) * gate_up[F + i], gate_up [T, 2F], out [T, F].
void SiluMul(Exec& exec, ConstMatrix gate_up, Matrix<float> out);

}  // namespace firesteel
