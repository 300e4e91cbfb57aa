#include "model/decoder_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/convert.h"

namespace firesteel {
namespace {

// Rows of a batch are copied in pieces of this many: enough work to wake a thread for.
constexpr int64_t kCopyGrain = 16;
constexpr int32_t kMaxBallastLayers = 4096;
constexpr int32_t kMaxBallastWidth = 1 << 20;

Buffer<float> Ones(int64_t n) {
  Buffer<float> ones(n);
  std::fill_n(ones.data(), n, 1.0f);
  return ones;
}

// A stored type that packs to `format`.
DType FillType(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return DType::kF32;
    case WeightFormat::kF16:
      return DType::kF16;
    case WeightFormat::kFp8:
      return DType::kF8E4M3;
    default:
      return DType::kBF16;
  }
}

uint32_t FillBits(DType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7FFFFFFF;
  switch (dtype) {
    case DType::kF32:
      return bits;
    case DType::kF16:  // cut off, what would be subnormal to zero
      return (bits >> 16 & 0x8000) | (magnitude < 0x38800000 ? 0 : (magnitude - 0x38000000) >> 13);
    case DType::kF8E4M3:
      return F32ToF8E4M3(value);
    default:
      return F32ToBF16(value);
  }
}

// A weight whose elements come from a small table at scattered places: arbitrary, the same in every
// run, and filled at memory speed. `scale` 0: all zero.
PackedWeight FillWeight(Exec& exec, int64_t rows, int64_t cols, WeightFormat format, uint64_t seed,
                        float scale) {
  constexpr int64_t kTable = 4096;
  // FP4 is not made of floats; this reads about as many bytes.
  if (format == WeightFormat::kFp4) format = WeightFormat::kInt4;
  const DType dtype = FillType(format);
  const size_t size = SizeOf(dtype);
  Buffer<std::byte> bytes(rows * cols * static_cast<int64_t>(size));
  uint32_t table[kTable];
  for (int64_t i = 0; i < kTable; ++i) {
    const uint32_t hash = static_cast<uint32_t>(i + 1) * 2654435761u;
    table[i] = FillBits(dtype, scale * (static_cast<float>(hash >> 16) / 32768.0f - 1.0f));
  }
  const auto fill = [&]<typename T>(T* out) {
    exec.pool.ParallelFor(rows * cols, int64_t{1} << 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t hash = (static_cast<uint64_t>(i) + seed) * 0x9e3779b97f4a7c15u;
        out[i] = static_cast<T>(table[hash >> 52]);
      }
    });
  };
  if (scale != 0 && size == 4) fill(reinterpret_cast<uint32_t*>(bytes.data()));
  if (scale != 0 && size == 2) fill(reinterpret_cast<uint16_t*>(bytes.data()));
  if (scale != 0 && size == 1) fill(reinterpret_cast<uint8_t*>(bytes.data()));
  const WeightSource source{{bytes.data(), dtype, rows, cols, "ballast"}, {}};
  Result<PackedWeight> packed = PackWeight(exec, {&source, 1}, format);
  FS_CHECK(packed.ok(), "{}", packed.status().message());
  return *std::move(packed);
}

}  // namespace

int64_t DecoderLayer::bytes() const {
  const int64_t vectors = attn_norm.size() + q_norm.size() + k_norm.size() + mlp_norm.size();
  return qkv.bytes() + o.bytes() + gate_up.bytes() + down.bytes() +
         vectors * int64_t{sizeof(float)};
}

Result<DecoderLayer> LoadDecoderLayer(Exec& exec, WeightReader& reader, const std::string& prefix,
                                      const DecoderConfig& config) {
  const int64_t h = config.hidden_size, f = config.intermediate_size, d = config.head_dim;
  const int64_t q_width = config.num_heads * d, kv_width = config.num_kv_heads * d;
  const std::string attn = prefix + "self_attn.", mlp = prefix + "mlp.";
  DecoderLayer layer;
  FS_ASSIGN(layer.attn_norm, reader.TakeVector(prefix + "input_layernorm.weight", h));
  FS_ASSIGN(WeightSource q, reader.Take(attn + "q_proj.weight", q_width, h));
  FS_ASSIGN(WeightSource k, reader.Take(attn + "k_proj.weight", kv_width, h));
  FS_ASSIGN(WeightSource v, reader.Take(attn + "v_proj.weight", kv_width, h));
  FS_ASSIGN(layer.qkv, reader.Pack(exec, std::vector{q, k, v}));
  if (config.qk_norms) {
    FS_ASSIGN(layer.q_norm, reader.TakeVector(attn + "q_norm.weight", d));
    FS_ASSIGN(layer.k_norm, reader.TakeVector(attn + "k_norm.weight", d));
  }
  FS_ASSIGN(WeightSource o, reader.Take(attn + "o_proj.weight", h, q_width));
  FS_ASSIGN(layer.o, reader.Pack(exec, std::vector{o}));
  FS_ASSIGN(layer.mlp_norm, reader.TakeVector(prefix + "post_attention_layernorm.weight", h));
  FS_ASSIGN(WeightSource gate, reader.Take(mlp + "gate_proj.weight", f, h));
  FS_ASSIGN(WeightSource up, reader.Take(mlp + "up_proj.weight", f, h));
  FS_ASSIGN(layer.gate_up, reader.Pack(exec, std::vector{gate, up}));
  FS_ASSIGN(WeightSource down, reader.Take(mlp + "down_proj.weight", h, f));
  FS_ASSIGN(layer.down, reader.Pack(exec, std::vector{down}));
  return layer;
}

RopeTable MakeRopeTable(const DecoderConfig& config, int32_t max_positions) {
  return RopeTable(config.head_dim, config.rope_theta, max_positions, config.rope_scaling);
}

DecoderLayer MakeBallastLayer(Exec& exec, const DecoderConfig& config, int32_t width,
                              WeightFormat format, uint64_t seed) {
  const int64_t h = config.hidden_size, d = config.head_dim;
  const int64_t q_width = config.num_heads * d, kv_width = config.num_kv_heads * d;
  // Normed inputs have unit variance; this keeps every product of the same order, far from
  // infinity.
  const float scale = 1.0f / std::sqrt(static_cast<float>(h));
  DecoderLayer layer;
  layer.attn_norm = Ones(h);
  layer.qkv = FillWeight(exec, q_width + 2 * kv_width, h, format, seed * 2, scale);
  if (config.qk_norms) {
    layer.q_norm = Ones(d);
    layer.k_norm = Ones(d);
  }
  layer.o = FillWeight(exec, h, q_width, format, 0, 0);
  layer.mlp_norm = Ones(h);
  layer.gate_up = FillWeight(exec, 2 * int64_t{width}, h, format, seed * 2 + 1, scale);
  layer.down = FillWeight(exec, h, width, format, 0, 0);
  return layer;
}

Status CheckBallast(int32_t count, int32_t width) {
  if (count >= 0 && count <= kMaxBallastLayers && width >= 0 && width <= kMaxBallastWidth)
    return {};
  return InvalidArgument(
      fmt::format("ballast is {} layers of width {}, expected 0 to {} of 0 to {}", count, width,
                  kMaxBallastLayers, kMaxBallastWidth));
}

std::vector<DecoderLayer> MakeBallast(Exec& exec, const DecoderConfig& config, int32_t count,
                                      int32_t width, WeightFormat format) {
  std::vector<DecoderLayer> layers;
  for (int32_t l = 0; l < count; ++l) {
    layers.push_back(MakeBallastLayer(exec, config, width > 0 ? width : config.intermediate_size,
                                      format, static_cast<uint64_t>(l) + 1));
  }
  return layers;
}

LayerActivations::LayerActivations(Workspace& workspace, int64_t rows, const DecoderConfig& config,
                                   int32_t mlp_width) {
  const int64_t q_width = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.num_kv_heads} * config.head_dim;
  x = workspace.Floats(rows, config.hidden_size);
  normed = workspace.Floats(rows, config.hidden_size);
  qkv = workspace.Floats(rows, q_width + 2 * kv_width);
  q = qkv.ColRange(0, q_width);
  k = qkv.ColRange(q_width, kv_width);
  v = qkv.ColRange(q_width + kv_width, kv_width);
  attended = workspace.Floats(rows, q_width);
  gate_up = workspace.Floats(rows, 2 * int64_t{mlp_width});
  mlp = workspace.Floats(rows, mlp_width);
}

void NormAndRotate(Exec& exec, std::span<const HeadRows> parts, const DecoderConfig& config,
                   std::span<const int32_t> positions, const RopeTable& rope) {
  if (config.qk_norms) {
    NormRopeInPlace(exec, parts, config.norm_eps, positions, rope);
  } else {
    for (const HeadRows& part : parts) RopeInPlace(exec, part.x, positions, rope);
  }
}

void ProjectQkv(Exec& exec, const DecoderLayer& layer, const DecoderConfig& config,
                const RopeTable& rope, std::span<const int32_t> positions, LayerActivations& a) {
  RmsNorm(exec, a.x, layer.attn_norm.span(), config.norm_eps, a.normed);
  MatMul(exec, a.normed, layer.qkv, a.qkv);
  const HeadRows heads[] = {{a.q, layer.q_norm.span()}, {a.k, layer.k_norm.span()}};
  NormAndRotate(exec, heads, config, positions, rope);
}

void Mlp(Exec& exec, const DecoderLayer& layer, const DecoderConfig& config, LayerActivations& a) {
  const int64_t width = layer.down.cols();
  const Matrix<float> gate_up = a.gate_up.ColRange(0, 2 * width), mlp = a.mlp.ColRange(0, width);
  RmsNorm(exec, a.x, layer.mlp_norm.span(), config.norm_eps, a.normed);
  MatMul(exec, a.normed, layer.gate_up, gate_up);
  SiluMul(exec, gate_up, mlp);
  MatMul(exec, mlp, layer.down, a.x, MatMulStore::kAdd);
}

void Ballast(Exec& exec, const DecoderLayer& layer, const DecoderConfig& config,
             const RopeTable& rope, std::span<const int32_t> positions, LayerActivations& a) {
  ProjectQkv(exec, layer, config, rope, positions, a);
  MatMul(exec, a.q, layer.o, a.x, MatMulStore::kAdd);
  Mlp(exec, layer, config, a);
}

void GatherRows(Exec& exec, ConstMatrix from, std::span<const int32_t> rows, Matrix<float> out) {
  exec.pool.ParallelFor(
      static_cast<int64_t>(rows.size()), kCopyGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          std::copy_n(from.Row(rows[static_cast<size_t>(i)]), from.cols, out.Row(i));
      });
}

void CopyRows(Exec& exec, ConstMatrix from, Matrix<float> out) {
  exec.pool.ParallelFor(from.rows, kCopyGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(from.Row(i), from.cols, out.Row(i));
  });
}

}  // namespace firesteel
