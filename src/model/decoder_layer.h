// The decoder layer of Qwen3 and Llama: weights, and the parts of its forward that the target and
// drafters built from it share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/matmul.h"
#include "kernels/row_ops.h"
#include "model/config.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"

namespace firesteel {

struct DecoderLayer {
  Buffer<float> attn_norm;  // input_layernorm [h]
  PackedWeight qkv;         // [(Hq + 2 Hkv) D, h]: q, k, v stacked
  Buffer<float> q_norm;     // [D]; empty without norms per head
  Buffer<float> k_norm;     // as q_norm
  PackedWeight o;           // [h, Hq D]
  Buffer<float> mlp_norm;   // post_attention_layernorm [h]
  PackedWeight gate_up;     // [2F, h]
  PackedWeight down;        // [h, F]

  int64_t bytes() const;
};

// Tensors under `prefix` ("model.layers.3."), HF names.
Result<DecoderLayer> LoadDecoderLayer(Exec& exec, WeightReader& reader, const std::string& prefix,
                                      const DecoderConfig& config);

// cos and sin as the config wants them, for positions [0, max_positions).
RopeTable MakeRopeTable(const DecoderConfig& config, int32_t max_positions);

// A layer of the same shapes (MLP width `width`) whose output projections are zero and whose other
// weights are arbitrary but fixed: it reads and computes like any other and adds exactly nothing.
DecoderLayer MakeBallastLayer(Exec& exec, const DecoderConfig& config, int32_t width,
                              WeightFormat format, uint64_t seed);

// kInvalidArgument outside 0 to 4096 layers of width 0 to 2^20.
Status CheckBallast(int32_t count, int32_t width);
// `count` of them; width 0: the config's.
std::vector<DecoderLayer> MakeBallast(Exec& exec, const DecoderConfig& config, int32_t count,
                                      int32_t width, WeightFormat format);

// Activations of a pass over T rows. Views into a workspace.
struct LayerActivations {
  // `mlp_width`: the widest layer of the pass.
  LayerActivations(Workspace& workspace, int64_t rows, const DecoderConfig& config,
                   int32_t mlp_width);

  Matrix<float> x;         // [T, h] residual stream
  Matrix<float> normed;    // [T, h]
  Matrix<float> qkv;       // [T, (Hq + 2 Hkv) D]
  Matrix<float> q, k, v;   // columns of qkv
  Matrix<float> attended;  // [T, Hq D]
  Matrix<float> gate_up;   // [T, 2 mlp_width]
  Matrix<float> mlp;       // [T, mlp_width]
};

// x [T, heads * D] in place: norm per head where there is one, then rotation.
void NormAndRotate(Exec& exec, std::span<const HeadRows> parts, const DecoderConfig& config,
                   std::span<const int32_t> positions, const RopeTable& rope);
// a.q, a.k, a.v from a.x: norm, projections, norms per head, rotation.
void ProjectQkv(Exec& exec, const DecoderLayer& layer, const DecoderConfig& config,
                const RopeTable& rope, std::span<const int32_t> positions, LayerActivations& a);
// a.x += down(silu(gate) * up) of the normed a.x.
void Mlp(Exec& exec, const DecoderLayer& layer, const DecoderConfig& config, LayerActivations& a);
// A whole ballast layer. It keeps no cache: its rows attend to nothing but themselves, so its
// attention is the projections alone. Adds +0 to a.x, whose bits thereby stay (-0 becomes +0, which
// no later sum can tell apart). REQUIRES: a.x is finite.
void Ballast(Exec& exec, const DecoderLayer& layer, const DecoderConfig& config,
             const RopeTable& rope, std::span<const int32_t> positions, LayerActivations& a);

// out[i, :] = from[rows[i], :].
void GatherRows(Exec& exec, ConstMatrix from, std::span<const int32_t> rows, Matrix<float> out);
void CopyRows(Exec& exec, ConstMatrix from, Matrix<float> out);

}  // namespace firesteel
