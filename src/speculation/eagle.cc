// EAGLE and EAGLE-2 (Li et al. 2024): a layer that continues the target's last hidden state, which
// the target's own head turns into tokens.
//
// That state is taken after the final norm: the published heads were trained on it so, and their
// output goes to the head as it is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "model/forward.h"
#include "speculation/eagle_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

// Most published files call themselves a plain Llama; what they are tells their fc.
constexpr const char* kArchitectures[] = {"EagleLlamaForCausalLM", "LlamaForCausalLMEagle",
                                          "LlamaForCausalLM", "EagleQwen3ForCausalLM"};
constexpr int32_t kDefaultDepth = 5;  // as published

class Eagle : public EagleDrafter {
 public:
  static Result<std::unique_ptr<Drafter>> Load(const DrafterContext& context, EagleProbe* probe);

 private:
  void Fuse(Exec& exec, ConstMatrix features, Workspace& workspace,
            Matrix<float> hidden) const override;
  ConstMatrix Mix(Exec& exec, std::span<const int32_t> tokens, ConstMatrix hidden,
                  Matrix<float> pair, Matrix<float> x) const override;
  ConstMatrix Finish(Exec& exec, ConstMatrix x, Matrix<float> for_head,
                     Matrix<float> hidden) const override;
  Status LoadWeights(const DrafterContext& context);
};

void Eagle::Fuse(Exec& exec, ConstMatrix features, Workspace&, Matrix<float> hidden) const {
  CopyRows(exec, features, hidden);
}

ConstMatrix Eagle::Mix(Exec& exec, std::span<const int32_t> tokens, ConstMatrix hidden,
                       Matrix<float> pair, Matrix<float> x) const {
  EmbedTokens(exec, tokens, w_.tables.embedding, pair.ColRange(0, x.cols));
  CopyRows(exec, hidden, pair.ColRange(x.cols, x.cols));
  MatMul(exec, pair, w_.fc, x);
  AddFcBias(exec, x);
  return x;  // no norm before this layer's attention
}

ConstMatrix Eagle::Finish(Exec& exec, ConstMatrix x, Matrix<float>, Matrix<float> hidden) const {
  CopyRows(exec, x, hidden);
  return x;
}

Status Eagle::LoadWeights(const DrafterContext& context) {
  const std::string& directory = context.options.model;
  const int64_t h = config_.hidden_size;
  FS_ASSIGN(w_.tensors, Safetensors::Open(directory));
  FS_TRY(CheckFitsMemory(w_.tensors, directory));
  WeightReader reader(w_.tensors);
  FS_ASSIGN(w_.tables, LoadSharedTables(context.exec, reader, config_.vocab_size, h, context.target,
                                        directory));
  FS_ASSIGN(const WeightSource fc, reader.Take("fc.weight", h, 2 * h));
  FS_ASSIGN(w_.fc, reader.Pack(context.exec, {&fc, 1}));
  if (reader.Has("fc.bias")) {
    FS_ASSIGN(w_.fc_bias, reader.TakeVector("fc.bias", h));
  }
  const std::string prefix = "layers.0.";
  config_.qk_norms = reader.Has(prefix + "self_attn.q_norm.weight");
  FS_TRY(LoadEagleLayer(context.exec, reader, prefix, config_, h, &w_));
  return reader.CheckAllTaken();
}

Result<DecoderConfig> ParseEagleConfig(const Json& config, const ModelInfo& target,
                                       const std::string& where) {
  FS_ASSIGN(DecoderConfig c, ParseDecoderConfig(config, where));
  if (std::ranges::find(kArchitectures, c.architecture) == std::end(kArchitectures)) {
    return Unsupported(fmt::format("{}: architecture is {}, the eagle drafter reads {}", where,
                                   DumpJson(c.architecture).substr(0, 100),
                                   fmt::join(kArchitectures, ", ")));
  }
  if (c.num_layers != 1) {
    return Unsupported(fmt::format("{}: num_hidden_layers is {}, the eagle drafter computes 1",
                                   where, c.num_layers));
  }
  FS_TRY(RequireEqual("vocab_size", c.vocab_size, target.vocab_size, where));
  FS_TRY(RequireEqual("hidden_size", c.hidden_size, target.hidden_size, where));
  return c;
}

Result<std::unique_ptr<Drafter>> Eagle::Load(const DrafterContext& context, EagleProbe* probe) {
  const std::string& directory = context.options.model;
  FS_ASSIGN(const Json json, ReadDrafterConfig(context, "eagle"));
  FS_ASSIGN(const EagleOptions options, ReadEagleOptions(context, kDefaultDepth));
  auto drafter = std::make_unique<Eagle>();
  FS_ASSIGN(drafter->config_,
            ParseEagleConfig(json, context.target.info(), directory + "/config.json"));
  FS_TRY(drafter->LoadWeights(context));
  drafter->info_.name = "eagle";
  drafter->info_.feature_layers = {kAfterFinalNorm};
  FS_TRY(drafter->Start(context, options, context.target.info().hidden_size, probe));
  // fc reads a token of every row.
  drafter->info_.weight_bytes += (options.depth - 1) * drafter->w_.fc.bytes();
  // What a framework's list of hidden states holds but for its last entry: the state before the
  // norm.
  if (drafter->faults_.layer_shift != 0) {
    drafter->info_.feature_layers = {context.target.info().num_layers - 1};
  }
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeEagleWithProbe(const DrafterContext& context,
                                                    EagleProbe* probe) {
  return Eagle::Load(context, probe);
}

Result<std::unique_ptr<Drafter>> MakeEagle(const DrafterContext& context) {
  return Eagle::Load(context, nullptr);
}

}  // namespace firesteel
