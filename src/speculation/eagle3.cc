// EAGLE-3 (Li et al. 2025): a layer that reads a token's embedding beside a hidden vector, which is
// fused from several of the target's layers at first and its own output from then on.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "speculation/eagle3_internal.h"
#include "speculation/eagle_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

class Eagle3 : public EagleDrafter {
 public:
  static Result<std::unique_ptr<Drafter>> Load(const DrafterContext& context, EagleProbe* probe);

 private:
  void Fuse(Exec& exec, ConstMatrix features, Workspace& workspace,
            Matrix<float> hidden) const override;
  ConstMatrix Mix(Exec& exec, std::span<const int32_t> tokens, ConstMatrix hidden,
                  Matrix<float> pair, Matrix<float> x) const override;
  ConstMatrix Finish(Exec& exec, ConstMatrix x, Matrix<float> for_head,
                     Matrix<float> hidden) const override;
  Status LoadWeights(const DrafterContext& context, const Eagle3Config& config);
  Status LoadTargetIds(WeightReader& reader, int64_t vocab);

  bool norm_before_residual_ = false;
  bool norm_output_ = false;
  Buffer<float> feature_norm_;  // [m h]; empty: none
  Buffer<float> embed_norm_;    // [h]
  Buffer<float> hidden_norm_;   // [h]
  Buffer<float> norm_;          // [h]
};

void Eagle3::Fuse(Exec& exec, ConstMatrix features, Workspace& workspace,
                  Matrix<float> hidden) const {
  if (feature_norm_.size() > 0) {
    const Matrix<float> normed = workspace.Floats(features.rows, features.cols);
    RmsNorm(exec, features, feature_norm_.span(), config_.norm_eps, normed);
    features = normed;
  }
  MatMul(exec, features, w_.fc, hidden);
  AddFcBias(exec, hidden);
}

ConstMatrix Eagle3::Mix(Exec& exec, std::span<const int32_t> tokens, ConstMatrix hidden,
                        Matrix<float> pair, Matrix<float> x) const {
  const Matrix<float> token = pair.ColRange(0, x.cols), normed = pair.ColRange(x.cols, x.cols);
  EmbedTokens(exec, tokens, w_.tables.embedding, token);
  RmsNorm(exec, token, embed_norm_.span(), config_.norm_eps, token);
  RmsNorm(exec, hidden, hidden_norm_.span(), config_.norm_eps, normed);
  CopyRows(exec, norm_before_residual_ != faults_.flip_residual ? ConstMatrix(normed) : hidden, x);
  return pair;
}

ConstMatrix Eagle3::Finish(Exec& exec, ConstMatrix x, Matrix<float> for_head,
                           Matrix<float> hidden) const {
  RmsNorm(exec, x, norm_.span(), config_.norm_eps, for_head);
  CopyRows(exec, norm_output_ ? ConstMatrix(for_head) : x, hidden);
  return for_head;
}

// `d2t` holds, for each token of the draft vocabulary, the target's id less its own. Published
// files count both upwards.
Status Eagle3::LoadTargetIds(WeightReader& reader, int64_t vocab) {
  const int64_t draft_vocab = w_.tables.head().rows();
  reader.Ignore("t2d");  // a mask for training
  const auto found = w_.tensors.tensors().find("d2t");
  if (found == w_.tensors.tensors().end()) {
    if (draft_vocab == vocab) return {};
    return DataCorrupt(
        fmt::format("{}: tensor d2t is missing, which names the tokens of a draft "
                    "vocabulary of {}",
                    w_.tensors.tensors().begin()->second.file, draft_vocab));
  }
  const TensorInfo& info = found->second;
  reader.Ignore("d2t");
  if (info.dtype != DType::kI64 || info.shape != std::vector<int64_t>{draft_vocab}) {
    return DataCorrupt(fmt::format("{}: tensor d2t is {} [{}], expected I64 [{}]", info.file,
                                   Name(info.dtype), info.NumElements(), draft_vocab));
  }
  int64_t previous = -1;
  for (int64_t i = 0; i < draft_vocab; ++i) {
    int64_t offset = 0;
    std::memcpy(&offset, info.data + i * 8, sizeof(offset));
    if (offset < 0 || offset >= vocab || i + offset <= previous || i + offset >= vocab) {
      return DataCorrupt(
          fmt::format("{}: d2t[{}] is {}, expected offsets that lead to ascending ids below {}",
                      info.file, i, offset, vocab));
    }
    previous = i + offset;
    w_.target_ids.push_back(static_cast<int32_t>(previous));
  }
  return {};
}

Status Eagle3::LoadWeights(const DrafterContext& context, const Eagle3Config& config) {
  const std::string& directory = context.options.model;
  const ModelInfo& target = context.target.info();
  const int64_t h = config_.hidden_size;
  const int64_t width = static_cast<int64_t>(config.target_layers.size()) * target.hidden_size;
  FS_ASSIGN(w_.tensors, Safetensors::Open(directory));
  FS_TRY(CheckFitsMemory(w_.tensors, directory));
  WeightReader reader(w_.tensors);
  for (const char* name : {"embed_tokens.weight", "lm_head.weight"}) {
    if (h == target.hidden_size || reader.Has(name)) continue;
    return DataCorrupt(fmt::format("{}: tensor {} is missing, and the target's is {} wide, not {}",
                                   directory, name, target.hidden_size, h));
  }
  FS_ASSIGN(w_.tables, LoadSharedTables(context.exec, reader, config.draft_vocab, h, context.target,
                                        directory));
  FS_TRY(LoadTargetIds(reader, target.vocab_size));
  FS_ASSIGN(const WeightSource fc, reader.Take("fc.weight", h, width));
  FS_ASSIGN(w_.fc, reader.Pack(context.exec, {&fc, 1}));
  if (reader.Has("fc.bias")) {
    FS_ASSIGN(w_.fc_bias, reader.TakeVector("fc.bias", h));
  }
  if (config.norm_before_fc) {
    FS_ASSIGN(feature_norm_, reader.TakeVector("input_norm.weight", width));
  }
  const std::string prefix =
      reader.Has("midlayer.self_attn.q_proj.weight") ? "midlayer." : "layers.0.";
  config_.qk_norms = reader.Has(prefix + "self_attn.q_norm.weight");
  FS_ASSIGN(embed_norm_, reader.TakeVector(prefix + "input_layernorm.weight", h));
  FS_ASSIGN(hidden_norm_, reader.TakeVector(prefix + "hidden_norm.weight", h));
  FS_TRY(LoadEagleLayer(context.exec, reader, prefix, config_, 2 * h, &w_));
  FS_ASSIGN(norm_, reader.TakeVector("norm.weight", h));
  FS_TRY(reader.CheckAllTaken());
  return {};
}

Result<std::unique_ptr<Drafter>> Eagle3::Load(const DrafterContext& context, EagleProbe* probe) {
  const std::string& directory = context.options.model;
  FS_ASSIGN(const Json json, ReadDrafterConfig(context, "eagle3"));
  const ModelInfo& target = context.target.info();
  FS_ASSIGN(const Eagle3Config config, ParseEagle3Config(json, target, directory + "/config.json"));
  FS_ASSIGN(const EagleOptions options, ReadEagleOptions(context, config.depth));
  auto drafter = std::make_unique<Eagle3>();
  drafter->config_ = config.decoder;
  drafter->norm_before_residual_ = config.norm_before_residual;
  drafter->norm_output_ = config.norm_output;
  FS_TRY(drafter->LoadWeights(context, config));
  drafter->info_.name = "eagle3";
  drafter->info_.feature_layers = config.target_layers;
  FS_TRY(drafter->Start(context, options, drafter->w_.fc.cols(), probe));
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeEagle3WithProbe(const DrafterContext& context,
                                                     EagleProbe* probe) {
  return Eagle3::Load(context, probe);
}

Result<std::unique_ptr<Drafter>> MakeEagle3(const DrafterContext& context) {
  return Eagle3::Load(context, nullptr);
}

}  // namespace firesteel
