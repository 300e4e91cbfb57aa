// Dense decoders: "Qwen3ForCausalLM" and "LlamaForCausalLM", which differ by the norms of q and k
// (DecoderConfig::qk_norms) and by what their configs leave out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/paged_attention.h"
#include "kernels/row_ops.h"
#include "model/architectures_internal.h"
#include "model/decoder_layer.h"
#include "model/safetensors.h"
#include "model/weights.h"

namespace firesteel {
namespace {

constexpr int32_t kGroup = 0;  // the target's groups come first in the layout
// A draft may reach past the last position that anybody asks for.
constexpr int32_t kRopeSlack = 256;

class DenseDecoder : public Model {
 public:
  static Result<std::unique_ptr<Model>> Load(Exec& exec, const std::string& directory,
                                             const Json& config, const LoadOptions& options);

  const ModelInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType kv_dtype) const override {
    return {{"target", config_.num_layers,
             KeyValuePlanes(kv_dtype, config_.num_kv_heads, config_.head_dim)}};
  }
  Status Forward(Exec& exec, const ForwardBatch& batch, const KvView& kv, Workspace& workspace,
                 ForwardOutput& out) const override;
  const WeightView* embedding() const override { return &embedding_; }
  const PackedWeight* lm_head() const override { return &lm_head_; }

 private:
  Status LoadWeights(Exec& exec, WeightReader& reader);
  Status LoadHead(Exec& exec, WeightReader& reader);
  Status CheckBatch(const ForwardBatch& batch) const;
  struct CacheRows;
  Matrix<float> FeatureColumns(size_t i, ForwardOutput& out) const {
    return out.features.ColRange(static_cast<int64_t>(i) * config_.hidden_size,
                                 config_.hidden_size);
  }
  void Attention(Exec& exec, int32_t l, const ForwardBatch& batch, const CacheRows& rows,
                 const KvView& kv, LayerActivations& a) const;
  void Capture(Exec& exec, int32_t l, const ForwardBatch& batch, ConstMatrix x,
               ForwardOutput& out) const;
  void CaptureFinal(Exec& exec, const ForwardBatch& batch, ConstMatrix x, ForwardOutput& out) const;
  void Logits(Exec& exec, const ForwardBatch& batch, Workspace& workspace, ConstMatrix x,
              ForwardOutput& out) const;

  DecoderConfig config_;
  ModelInfo info_;
  Safetensors tensors_;   // the embedding looks into it
  WeightView embedding_;  // as the checkpoint stores it, whatever weight_dtype says
  std::vector<DecoderLayer> layers_;
  std::vector<DecoderLayer> ballast_;
  Buffer<float> norm_;
  PackedWeight lm_head_;
  RopeTable rope_;
};

// Where the rows of a batch lie in the cache: the same for every layer.
struct DenseDecoder::CacheRows {
  CacheRows(const ForwardBatch& batch, const KvView& kv, Workspace& workspace)
      : append(workspace.Array<AppendRows>(
            static_cast<int64_t>(batch.sequences.size() + batch.shared.size()))),
        attend(workspace.Array<AttentionRows>(static_cast<int64_t>(batch.sequences.size()))) {
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const SequenceRows& s = batch.sequences[i];
      const std::span<const BlockId> table = kv.Table(s.slot, kGroup);
      append[i] = {s.row_begin, s.row_count, s.first_position, table};
      attend[i].row_begin = s.row_begin;
      attend[i].row_count = s.row_count;
      attend[i].context = s.first_position;
      attend[i].table = table;
    }
    for (size_t i = 0; i < batch.shared.size(); ++i) {
      const SequenceRows& s = batch.shared[i];
      append[batch.sequences.size() + i] = {s.row_begin, s.row_count, s.first_position,
                                            kv.Table(s.slot, kGroup)};
    }
  }

  std::span<AppendRows> append;
  std::span<AttentionRows> attend;
};

Status DenseDecoder::Forward(Exec& exec, const ForwardBatch& batch, const KvView& kv,
                             Workspace& workspace, ForwardOutput& out) const {
  FS_TRY(CheckBatch(batch));
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  LayerActivations a(
      workspace, rows, config_,
      std::max(config_.intermediate_size,
               ballast_.empty() ? 0 : static_cast<int32_t>(ballast_[0].down.cols())));
  out.features = workspace.Floats(
      rows, static_cast<int64_t>(batch.feature_layers.size()) * config_.hidden_size);

  const CacheRows cache_rows(batch, kv, workspace);
  EmbedTokens(exec, batch.tokens, embedding_, a.x);
  Capture(exec, -1, batch, a.x, out);
  for (int32_t l = 0; l < config_.num_layers; ++l) {
    Attention(exec, l, batch, cache_rows, kv, a);
    Mlp(exec, layers_[static_cast<size_t>(l)], config_, a);
    Capture(exec, l, batch, a.x, out);
  }
  for (const DecoderLayer& layer : ballast_)
    Ballast(exec, layer, config_, rope_, batch.positions, a);
  CaptureFinal(exec, batch, a.x, out);
  Logits(exec, batch, workspace, a.x, out);
  return {};
}

void DenseDecoder::Attention(Exec& exec, int32_t l, const ForwardBatch& batch,
                             const CacheRows& rows, const KvView& kv, LayerActivations& a) const {
  const DecoderLayer& layer = layers_[static_cast<size_t>(l)];
  const PagedPlane keys = kv.Plane(kGroup, l, 0), values = kv.Plane(kGroup, l, 1);
  ProjectQkv(exec, layer, config_, rope_, batch.positions, a);
  AppendPaged(exec, a.k, rows.append, keys);
  AppendPaged(exec, a.v, rows.append, values);
  PagedAttention(exec, a.q, rows.attend, keys, values,
                 1.0f / std::sqrt(static_cast<float>(config_.head_dim)), a.attended);
  MatMul(exec, a.attended, layer.o, a.x, MatMulStore::kAdd);
}

// A layer may be asked for more than once; nothing happens for those that nobody asked for.
void DenseDecoder::Capture(Exec& exec, int32_t l, const ForwardBatch& batch, ConstMatrix x,
                           ForwardOutput& out) const {
  for (size_t i = 0; i < batch.feature_layers.size(); ++i) {
    if (batch.feature_layers[i] == l) CopyRows(exec, x, FeatureColumns(i, out));
  }
}

void DenseDecoder::CaptureFinal(Exec& exec, const ForwardBatch& batch, ConstMatrix x,
                                ForwardOutput& out) const {
  for (size_t i = 0; i < batch.feature_layers.size(); ++i) {
    if (batch.feature_layers[i] != kAfterFinalNorm) continue;
    RmsNorm(exec, x, norm_.span(), config_.norm_eps, FeatureColumns(i, out));
  }
}

void DenseDecoder::Logits(Exec& exec, const ForwardBatch& batch, Workspace& workspace,
                          ConstMatrix x, ForwardOutput& out) const {
  const auto rows = static_cast<int64_t>(batch.logit_rows.size());
  const Matrix<float> last = workspace.Floats(rows, config_.hidden_size);
  out.logits = workspace.Floats(rows, config_.vocab_size);
  GatherRows(exec, x, batch.logit_rows, last);
  RmsNorm(exec, last, norm_.span(), config_.norm_eps, last);
  MatMul(exec, last, lm_head_, out.logits);
}

Status DenseDecoder::CheckBatch(const ForwardBatch& batch) const {
  const size_t rows = batch.tokens.size();
  if (batch.positions.size() != rows) {
    return Internal(
        fmt::format("forward: {} tokens and {} positions", rows, batch.positions.size()));
  }
  for (size_t t = 0; t < rows; ++t) {
    if (batch.tokens[t] < 0 || batch.tokens[t] >= config_.vocab_size) {
      return Internal(fmt::format("forward: row {} holds token {}, expected 0 to {}", t,
                                  batch.tokens[t], config_.vocab_size - 1));
    }
    if (batch.positions[t] < 0 || batch.positions[t] >= rope_.max_positions()) {
      return Internal(fmt::format("forward: row {} stands at position {}, expected 0 to {}", t,
                                  batch.positions[t], rope_.max_positions() - 1));
    }
  }
  int64_t covered = 0;
  for (const SequenceRows& s : batch.sequences) {
    if (s.row_begin != covered || s.row_count < 1 ||
        covered + s.row_count > static_cast<int64_t>(rows)) {
      return Internal(
          fmt::format("forward: a sequence has rows {} + {}, expected them to start at {} of {}",
                      s.row_begin, s.row_count, covered, rows));
    }
    for (int32_t i = 0; i < s.row_count; ++i) {
      if (batch.positions[static_cast<size_t>(covered + i)] != s.first_position + i) {
        return Internal(fmt::format("forward: row {} stands at position {}, expected {}",
                                    covered + i, batch.positions[static_cast<size_t>(covered + i)],
                                    s.first_position + i));
      }
    }
    covered += s.row_count;
  }
  if (covered != static_cast<int64_t>(rows)) {
    return Internal(fmt::format("forward: sequences cover {} rows of {}", covered, rows));
  }
  for (const SequenceRows& s : batch.shared) {
    const bool inside = s.row_begin >= 0 && s.row_count >= 1 &&
                        s.row_begin + int64_t{s.row_count} <= static_cast<int64_t>(rows);
    if (inside && batch.positions[static_cast<size_t>(s.row_begin)] == s.first_position &&
        batch.positions[static_cast<size_t>(s.row_begin + s.row_count - 1)] ==
            s.first_position + s.row_count - 1) {
      continue;
    }
    return Internal(fmt::format("forward: slot {} shares rows {} + {} of {} at position {}", s.slot,
                                s.row_begin, s.row_count, rows, s.first_position));
  }
  for (const int32_t row : batch.logit_rows) {
    if (row < 0 || row >= static_cast<int64_t>(rows)) {
      return Internal(fmt::format("forward: logits of row {} are wanted, of {} rows", row, rows));
    }
  }
  for (const int32_t layer : batch.feature_layers) {
    if (layer != kAfterFinalNorm && (layer < -1 || layer >= config_.num_layers)) {
      return Internal(fmt::format("forward: features of layer {} are wanted, expected -1 to {}",
                                  layer, config_.num_layers - 1));
    }
  }
  return {};
}

Status DenseDecoder::LoadHead(Exec& exec, WeightReader& reader) {
  const std::string name = "lm_head.weight";
  if (!config_.tie_embeddings) {
    FS_ASSIGN(WeightSource head, reader.Take(name, config_.vocab_size, config_.hidden_size));
    FS_ASSIGN(lm_head_, reader.PackHead(exec, head));
    return {};
  }
  FS_ASSIGN(lm_head_, reader.PackHead(exec, {embedding_, {}}));
  if (!reader.Has(name)) return {};
  // Some writers store the tied head as well; a head of its own would contradict the config.
  const TensorInfo& head = tensors_.tensors().at(name);
  const TensorInfo& embedding = tensors_.tensors().at(embedding_.name);
  if (head.dtype != embedding.dtype || head.shape != embedding.shape ||
      std::memcmp(head.data, embedding.data,
                  static_cast<size_t>(head.NumElements()) * SizeOf(head.dtype)) != 0) {
    return DataCorrupt(
        fmt::format("{}: tensor {} differs from {}, but the config says tie_word_embeddings",
                    head.file, name, embedding_.name));
  }
  reader.Ignore(name);
  return {};
}

Status DenseDecoder::LoadWeights(Exec& exec, WeightReader& reader) {
  FS_ASSIGN(embedding_,
            reader.TakeTable("model.embed_tokens.weight", config_.vocab_size, config_.hidden_size));
  for (int32_t l = 0; l < config_.num_layers; ++l) {
    FS_ASSIGN(DecoderLayer layer,
              LoadDecoderLayer(exec, reader, fmt::format("model.layers.{}.", l), config_));
    layers_.push_back(std::move(layer));
  }
  FS_ASSIGN(norm_, reader.TakeVector("model.norm.weight", config_.hidden_size));
  FS_TRY(LoadHead(exec, reader));
  return reader.CheckAllTaken();
}

Result<std::unique_ptr<Model>> DenseDecoder::Load(Exec& exec, const std::string& directory,
                                                  const Json& config, const LoadOptions& options) {
  auto model = std::make_unique<DenseDecoder>();
  FS_ASSIGN(model->config_, ParseDecoderConfig(config, directory + "/config.json"));
  FS_ASSIGN(const PackFormats formats, FormatsOf(options));
  FS_TRY(CheckBallast(options.ballast_layers, options.ballast_width));
  FS_ASSIGN(model->config_.eos_ids, ReadEosIds(directory, config));
  FS_ASSIGN(model->tensors_, Safetensors::Open(directory));
  FS_TRY(CheckFitsMemory(model->tensors_, directory, formats.matrices));
  FS_TRY(CheckStoredFormat(options, directory, model->tensors_));
  std::optional<WeightCache> cache;
  if (!options.weight_cache.empty()) {
    FS_ASSIGN(cache, WeightCache::Open(options.weight_cache, directory));
  }
  WeightReader reader(model->tensors_, PackOptions{.format = formats.matrices,
                                                   .head_format = formats.head,
                                                   .cache = cache ? &*cache : nullptr,
                                                   .progress = options.progress});
  FS_TRY(model->LoadWeights(exec, reader));

  const DecoderConfig& c = model->config_;
  model->ballast_ = MakeBallast(exec, c, options.ballast_layers, options.ballast_width,
                                model->layers_[0].qkv.format());
  const int32_t max_positions = options.max_positions > 0 ? options.max_positions : c.max_positions;
  model->rope_ = MakeRopeTable(c, max_positions + kRopeSlack);

  ModelInfo& info = model->info_;
  info = {.architecture = c.architecture,
          .vocab_size = c.vocab_size,
          .hidden_size = c.hidden_size,
          .num_layers = c.num_layers,
          .max_positions = c.max_positions,
          .num_parameters = reader.num_parameters(),
          .eos_ids = c.eos_ids};
  for (const DecoderLayer& layer : model->ballast_) info.ballast_bytes += layer.bytes();
  info.weight_bytes =
      info.ballast_bytes + model->lm_head_.bytes() + model->norm_.size() * int64_t{sizeof(float)};
  for (const DecoderLayer& layer : model->layers_) info.weight_bytes += layer.bytes();
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace

Result<std::unique_ptr<Model>> MakeDenseDecoder(Exec& exec, const std::string& directory,
                                                const Json& config, const LoadOptions& options) {
  return DenseDecoder::Load(exec, directory, config, options);
}

}  // namespace firesteel
