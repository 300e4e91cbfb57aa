#include "cli/speculation_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "engine/draft_rules.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxSpecTokens = 64;
constexpr int32_t kMaxMinBatch = 1 << 16;
constexpr int32_t kMaxMinOutput = 1 << 22;
constexpr int32_t kMaxBallastLayers = 1024;
constexpr int32_t kMaxBallastWidth = 1 << 20;

std::vector<std::string> WithAuto(const std::vector<std::string>& methods) {
  std::vector<std::string> all = {"auto"};
  if (std::find(methods.begin(), methods.end(), "none") == methods.end())
    all.insert(all.begin(), "none");
  all.insert(all.end(), methods.begin(), methods.end());
  return all;
}

Status CheckMethod(const std::string& flag, const std::string& method,
                   const std::vector<std::string>& methods) {
  const std::vector<std::string> known = WithAuto(methods);
  if (std::find(known.begin(), known.end(), method) != known.end()) return {};
  for (const char* later :
       {"dspark", "dflash", "eagle3", "eagle", "mtp", "medusa", "draft_model", "ngram", "suffix"}) {
    if (method == later) {
      return InvalidArgument(fmt::format("{} {} is not in this version, which has {}", flag, method,
                                         fmt::join(known, ", ")));
    }
  }
  return InvalidArgument(
      fmt::format("{} is {}, expected one of {}", flag, method, fmt::join(known, ", ")));
}

Status ReadOwnFlags(const FlagValues& values, const std::vector<std::string>& methods,
                    SpeculationOptions* spec) {
  if (values.Has("--spec-method")) {
    spec->method = values.Text("--spec-method");
    FS_TRY(CheckMethod("--spec-method", spec->method, methods));
  } else if (values.Has("--spec-model")) {
    spec->method = "auto";  // a drafter that is named is meant
  }
  FS_TRY(values.ReadText("--spec-model", &spec->model));
  if (values.Text("--spec-tokens") != "auto") {
    FS_TRY(values.ReadInt("--spec-tokens", 1, kMaxSpecTokens, &spec->tokens));
  }
  return {};
}

// {"method": "dspark", "model": "…", "num_speculative_tokens": 7, …}; further keys are the method's
// own.
Status ReadVllmConfig(const FlagValues& values, const std::vector<std::string>& methods,
                      SpeculationOptions* spec) {
  constexpr char kFlag[] = "--speculative-config";
  FS_ASSIGN(const Json config, ParseJson(values.Text(kFlag), kFlag));
  if (!config.is_object()) return InvalidArgument(fmt::format("{}: is not a JSON object", kFlag));
  FS_ASSIGN(const std::optional<std::string> method, GetString(config, "method", kFlag));
  FS_ASSIGN(const std::optional<std::string> model, GetString(config, "model", kFlag));
  FS_ASSIGN(const std::optional<int64_t> tokens, GetInt(config, "num_speculative_tokens", kFlag));
  // vLLM writes n-gram lookup as a model of that name too.
  spec->method = method ? *method : model == "ngram" ? "ngram" : "auto";
  if (spec->method == "[ngram]") spec->method = "ngram";
  FS_TRY(CheckMethod(fmt::format("{}: method", kFlag), spec->method, methods));
  if (model && *model != "ngram") spec->model = *model;
  if (tokens) {
    if (*tokens < 1 || *tokens > kMaxSpecTokens) {
      return InvalidArgument(
          fmt::format("{}: num_speculative_tokens is {}, expected an integer from 1 to {}", kFlag,
                      *tokens, kMaxSpecTokens));
    }
    spec->tokens = static_cast<int32_t>(*tokens);
  }
  Json rest = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (key != "method" && key != "model" && key != "num_speculative_tokens") rest[key] = value;
  }
  spec->config_json = DumpJson(rest);
  return {};
}

// What only EAGLE's trees have a use for.
Status ReadTreeFlags(const FlagValues& values, const std::string& method,
                     std::vector<std::string>* notes, SpeculationOptions* spec) {
  constexpr std::pair<const char*, const char*> kKeys[] = {
      {"--speculative-eagle-topk", "topk"}, {"--speculative-num-steps", "num_steps"}};
  Json config = Json::object();
  for (const auto& [flag, key] : kKeys) {
    if (!values.Has(flag)) continue;
    int32_t value = 0;
    FS_TRY(values.ReadInt(flag, 1, kMaxSpecTokens, &value));
    if (method == "eagle" || method == "eagle3") {
      config[key] = value;
    } else {
      notes->push_back(
          fmt::format("{} has no effect here: {} drafts chains, whose length is the "
                      "number of draft tokens",
                      flag, method));
    }
  }
  spec->config_json = DumpJson(config);
  return {};
}

Status ReadSglangFlags(const FlagValues& values, const std::vector<std::string>& methods,
                       const std::string& model, std::vector<std::string>* notes,
                       SpeculationOptions* spec) {
  constexpr char kFlag[] = "--speculative-algorithm";
  std::string name = values.Text(kFlag);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  FS_TRY(values.ReadText("--speculative-draft-model-path", &spec->model));
  // SGLang's EAGLE without a draft model is the checkpoint's own MTP module.
  if ((name == "eagle" || name == "nextn") && spec->model.empty()) name = "mtp";
  if (name == "standalone") name = "draft_model";
  FS_TRY(CheckMethod(kFlag, name, methods));
  spec->method = name;
  if (spec->model.empty() && name == "dspark") spec->model = model;
  if (values.Has("--speculative-num-draft-tokens")) {
    int32_t with_root = 0;
    FS_TRY(values.ReadInt("--speculative-num-draft-tokens", 2, kMaxSpecTokens + 1, &with_root));
    spec->tokens = with_root - 1;
  }
  return ReadTreeFlags(values, name, notes, spec);
}

}  // namespace

std::vector<FlagSpec> SpeculationFlags(const std::vector<std::string>& spec_methods) {
  constexpr auto kValue = FlagKind::kValue;
  const std::string methods = fmt::format("{}", fmt::join(WithAuto(spec_methods), ", "));
  return {
      {"--spec-method",
       kValue,
       "NAME",
       "none",
       "what proposes tokens: " + methods + "; auto takes what --spec-model holds",
       {}},
      {"--spec-model", kValue, "DIR", "none", "drafter checkpoint", {}},
      {"--spec-tokens",
       kValue,
       "auto|N",
       "auto",
       "draft tokens verified per step; auto: as many as pay, decided at every step",
       {}},
      {"--spec-verify",
       kValue,
       "RULE",
       "auto",
       "auto, match, rejection or block; see docs/speculation.md",
       {}},
      {"--spec-confidence-threshold",
       kValue,
       "P",
       "0",
       "cut a draft before its first token less certain than this; 0: never",
       {}},
      {"--spec-self-test",
       FlagKind::kSwitch,
       "",
       "off",
       "before the first request, measure what is accepted; without drafts if next to nothing",
       {}},
      {"--spec-ballast-layers",
       kValue,
       "N[:WIDTH]",
       "0",
       "as --ballast-layers, for the drafter",
       {}},
      {"--speculative-config",
       kValue,
       "JSON",
       "none",
       "vLLM's spelling: {\"method\", \"model\", \"num_speculative_tokens\", …}",
       {"-sc"}},
      {"--speculative-algorithm",
       kValue,
       "NAME",
       "none",
       "SGLang's spelling: DSPARK, DFLASH, EAGLE, EAGLE3, NGRAM, NONE",
       {}},
      {"--speculative-draft-model-path",
       kValue,
       "DIR",
       "none",
       "with --speculative-algorithm: drafter checkpoint",
       {"--speculative-draft-model"}},
      {"--speculative-num-draft-tokens",
       kValue,
       "N",
       "auto",
       "with --speculative-algorithm: draft tokens and their root, so N - 1 are drafted",
       {}},
      {"--speculative-num-steps",
       kValue,
       "N",
       "as trained",
       "with --speculative-algorithm EAGLE or EAGLE3: levels of a draft",
       {}},
      {"--speculative-eagle-topk",
       kValue,
       "N",
       "1",
       "with --speculative-algorithm EAGLE or EAGLE3: children of a node; 1: drafts are chains",
       {}},
      {"--spec-min-batch", kValue, "N", "1", "no drafts while fewer sequences decode", {}},
      {"--spec-min-output-tokens",
       kValue,
       "N",
       "0",
       "no drafts for requests whose max_tokens is below",
       {}},
      {"--spec-k-by-load",
       kValue,
       "TABLE",
       "none",
       "most draft tokens by sequences that decode: 1-16:5,17-48:4,49-:3",
       {}},
      {"--spec-synthetic-acceptance",
       kValue,
       "P1,P2,…",
       "",
       "acceptance is always the drafter's own",
       {},
       FlagEffect::kLater},
  };
}

Result<SpeculationOptions> ReadSpeculationFlags(const FlagValues& values,
                                                const std::vector<std::string>& spec_methods,
                                                const std::string& model,
                                                std::vector<std::string>* notes) {
  SpeculationOptions spec;
  const bool own =
      values.Has("--spec-method") || values.Has("--spec-model") || values.Has("--spec-tokens");
  const bool vllm = values.Has("--speculative-config");
  const bool sglang = values.Has("--speculative-algorithm");
  if (own + vllm + sglang > 1) {
    return InvalidArgument(
        fmt::format("{} and {} both describe speculation, expected one of them",
                    own ? "--spec-method, --spec-model or --spec-tokens" : "--speculative-config",
                    sglang ? "--speculative-algorithm" : "--speculative-config"));
  }
  for (const char* flag : {"--speculative-draft-model-path", "--speculative-num-draft-tokens",
                           "--speculative-num-steps", "--speculative-eagle-topk"}) {
    if (values.Has(flag) && !sglang)
      return InvalidArgument(fmt::format("{} needs --speculative-algorithm", flag));
  }
  if (vllm) {
    FS_TRY(ReadVllmConfig(values, spec_methods, &spec));
  } else if (sglang) {
    FS_TRY(ReadSglangFlags(values, spec_methods, model, notes, &spec));
  } else {
    FS_TRY(ReadOwnFlags(values, spec_methods, &spec));
  }
  if (spec.method == "none" && !spec.model.empty()) {
    notes->push_back(fmt::format("the drafter {} is not used: --spec-method is none", spec.model));
  }
  if (values.Text("--spec-verify") == "typical") {
    return InvalidArgument(
        "--spec-verify typical is not in this version, which has auto, match, rejection, block");
  }
  FS_TRY(values.ReadChoice("--spec-verify", {"auto", "match", "rejection", "block"}, &spec.verify));
  FS_TRY(values.ReadInt("--spec-min-batch", 1, kMaxMinBatch, &spec.min_batch));
  FS_TRY(values.ReadInt("--spec-min-output-tokens", 0, kMaxMinOutput, &spec.min_output_tokens));
  FS_TRY(values.ReadText("--spec-k-by-load", &spec.k_by_load));
  FS_TRY(DraftRules::Make(spec).status());
  FS_TRY(values.ReadDouble("--spec-confidence-threshold", 0, 1, &spec.confidence_threshold));
  FS_TRY(values.ReadSwitch("--spec-self-test", &spec.self_test));
  FS_TRY(ReadBallast(values, "--spec-ballast-layers", &spec.ballast_layers, &spec.ballast_width));
  return spec;
}

Status ReadBallast(const FlagValues& values, const std::string& flag, int32_t* layers,
                   int32_t* width) {
  if (!values.Has(flag)) return {};
  const std::string text = values.Text(flag);
  const size_t colon = text.find(':');
  const Result<int64_t> n = ParseCount(text.substr(0, colon));
  const Result<int64_t> w =
      colon == std::string::npos ? Result<int64_t>(int64_t{0}) : ParseCount(text.substr(colon + 1));
  if (!n.ok() || !w.ok() || *n < 0 || *n > kMaxBallastLayers ||
      (colon != std::string::npos && *w < 1) || *w > kMaxBallastWidth) {
    return InvalidArgument(
        fmt::format("{} is {}, expected N or N:WIDTH with N from 0 to {} and WIDTH from 1 to {}",
                    flag, text, kMaxBallastLayers, kMaxBallastWidth));
  }
  *layers = static_cast<int32_t>(*n);
  *width = static_cast<int32_t>(*w);
  return {};
}

}  // namespace firesteel
