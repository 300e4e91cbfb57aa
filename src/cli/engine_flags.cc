#include "cli/engine_flags.h"

#include <fmt/format.h>

#include "cli/speculation_flags.h"

namespace firesteel {
namespace {

constexpr auto kValue = FlagKind::kValue;
constexpr auto kSwitch = FlagKind::kSwitch;

std::vector<FlagSpec> OwnFlags() {
  const EngineOptions d;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {
      {"--model",
       kValue,
       "DIR",
       "the bundled demo model",
       "another way to name MODEL",
       {"--model-path"}},
      {"--weight-dtype",
       kValue,
       "TYPE",
       d.weight_dtype,
       "auto, float32, bfloat16, fp8, int8 or int4; auto: as in the checkpoint; int8 and "
       "int4 are made at load (the head is int8)",
       {}},
      {"--weight-cache",
       kValue,
       "DIR",
       "none",
       "keep the weights that int8 and int4 made, for the next start",
       {}},
      {"--kv-cache-dtype",
       kValue,
       "TYPE",
       d.kv_cache_dtype,
       "auto (bfloat16), float32, bfloat16 or fp8",
       {}},
      {"--block-size",
       kValue,
       "N",
       number(d.block_size),
       "positions per KV block, a multiple of 16",
       {"--page-size"}},
      {"--max-model-len",
       kValue,
       "auto|N",
       "auto",
       "prompt and output together; auto: what the checkpoint was made for",
       {"--context-length"}},
      {"--max-num-seqs",
       kValue,
       "N",
       number(d.max_num_seqs),
       "sequences that run at once",
       {"--max-running-requests"}},
      {"--max-num-batched-tokens",
       kValue,
       "N",
       number(d.max_num_batched_tokens),
       "rows of one step",
       {}},
      {"--kv-cache-memory-bytes",
       kValue,
       "N",
       "auto",
       "auto: max-num-seqs × 2048 positions, at most 2 GiB; 512M, 2GiB",
       {}},
      {"--enable-prefix-caching",
       kSwitch,
       "",
       "on",
       "keep the KV rows of finished prompts for later ones",
       {}},
      {"--disable-radix-cache",
       kSwitch,
       "",
       "off",
       "SGLang's name of --no-enable-prefix-caching",
       {}},
      {"--long-prefill-token-threshold",
       kValue,
       "N",
       "a quarter of max-model-len",
       "prompts above are long",
       {}},
      {"--max-long-partial-prefills",
       kValue,
       "N",
       number(d.max_long_partial_prefills),
       "long prompts that prefill at once",
       {}},
      {"--max-queue",
       kValue,
       "N",
       number(d.max_queue),
       "requests that may wait; above, 429",
       {"--max-queued-requests"}},
      {"--threads", kValue, "N", "what affinity and cgroup leave", "compute threads", {}},
      {"--generation-config",
       kValue,
       "auto|vllm",
       d.generation_config,
       "sampling defaults of requests; auto: the checkpoint's, vllm: OpenAI's",
       {}},
      {"--warmup", kSwitch, "", "on", "run every shape once before the first request", {}},
      {"--ballast-layers",
       kValue,
       "N[:WIDTH]",
       "0",
       "add N layers of MLP width WIDTH whose output is zero: the same tokens at the cost of a "
       "large model",
       {}},
      {"--tensor-parallel-size",
       kValue,
       "N",
       "1",
       "one process computes the whole model, whatever N",
       {"--tp", "--tp-size", "-tp"}},
      {"--plant-wrong-accepts",
       kValue,
       "N",
       "0",
       "accept N wrong draft tokens (a test of the benchmark's check)",
       {},
       FlagEffect::kUsed,
       /*hidden=*/true},
  };
}

// Known from vLLM's and SGLang's launch lines; each says why nothing happens.
std::vector<FlagSpec> ForeignFlags() {
  constexpr auto kNone = FlagEffect::kNone;
  constexpr auto kLater = FlagEffect::kLater;
  return {
      {"--dtype",
       kValue,
       "TYPE",
       "",
       "activations and sums are float32, weights keep the checkpoint's type",
       {},
       kNone},
      {"--trust-remote-code", kSwitch, "", "", "checkpoints hold no code that is run", {}, kNone},
      {"--tokenizer-mode", kValue, "MODE", "", "there is one tokenizer", {}, kNone},
      {"--tokenizer",
       kValue,
       "DIR",
       "",
       "the tokenizer is the checkpoint's",
       {"--tokenizer-path"},
       kNone},
      {"--seed",
       kValue,
       "N",
       "",
       "a request has its own seed, or a fresh one",
       {"--random-seed"},
       kNone},
      {"--enable-chunked-prefill",
       kSwitch,
       "",
       "",
       "prompts are always computed in chunks",
       {},
       kNone},
      {"--chunked-prefill-size",
       kValue,
       "N",
       "",
       "--max-num-batched-tokens bounds the chunks",
       {},
       kNone},
      {"--disable-hybrid-kv-cache-manager",
       kSwitch,
       "",
       "",
       "there is one KV cache manager",
       {},
       kNone},
      {"--gpu-memory-utilization",
       kValue,
       "P",
       "",
       "this is a CPU engine; see --kv-cache-memory-bytes",
       {"--mem-fraction-static"},
       kNone},
      {"--enforce-eager",
       kSwitch,
       "",
       "",
       "there are no graphs to capture",
       {"--disable-cuda-graph"},
       kNone},
      {"--cuda-graph-max-bs", kValue, "N", "", "there are no graphs to capture", {}, kNone},
      {"--compilation-config", kValue, "JSON", "", "nothing is compiled at run time", {}, kNone},
      {"--max-cudagraph-capture-size",
       kValue,
       "N",
       "",
       "there are no graphs to capture",
       {},
       kNone},
      {"--attention-backend", kValue, "NAME", "", "there is one attention kernel", {}, kNone},
      {"--moe-backend",
       kValue,
       "NAME",
       "",
       "there is one kernel for experts",
       {"--moe-runner-backend", "--moe-a2a-backend"},
       kNone},
      {"--distributed-executor-backend",
       kValue,
       "NAME",
       "",
       "one process computes the whole model",
       {},
       kNone},
      {"--pipeline-parallel-size",
       kValue,
       "N",
       "",
       "one process computes the whole model",
       {"--pp-size", "-pp"},
       kNone},
      {"--data-parallel-size",
       kValue,
       "N",
       "",
       "one process computes the whole model",
       {"--dp", "--dp-size", "-dp"},
       kNone},
      {"--expert-parallel-size",
       kValue,
       "N",
       "",
       "one process computes the whole model",
       {"--ep", "--ep-size"},
       kNone},
      {"--enable-expert-parallel",
       kSwitch,
       "",
       "",
       "one process computes the whole model",
       {"--enable-dp-attention"},
       kNone},
      {"--disable-custom-all-reduce",
       kSwitch,
       "",
       "",
       "one process computes the whole model",
       {},
       kNone},
      {"--max-num-partial-prefills",
       kValue,
       "N",
       "",
       "--max-num-batched-tokens and --max-long-partial-prefills bound the prompts of a step",
       {},
       kNone},
      {"--swap-space", kValue, "GIB", "", "preempted sequences are computed again", {}, kNone},
      {"--async-scheduling",
       kSwitch,
       "",
       "",
       "scheduling costs too little to be hidden",
       {"--disable-overlap-schedule"},
       kNone},
      {"--load-format", kValue, "NAME", "", "checkpoints are safetensors", {}, kNone},
      {"--profile-cache", kValue, "DIR", "", "step costs are not stored", {}, kLater},
      {"--quantization", kValue, "NAME", "", "see --weight-dtype", {"-q"}, kLater},
  };
}

Status ReadWeights(const FlagValues& values, EngineOptions* options) {
  FS_TRY(values.ReadChoice("--weight-dtype", {"auto", "float32", "bfloat16", "fp8", "int8", "int4"},
                           &options->weight_dtype));
  if (!values.Has("--weight-cache")) return {};
  options->weight_cache = values.Text("--weight-cache");
  if (options->weight_cache.empty()) {
    return InvalidArgument("--weight-cache is empty, expected a directory");
  }
  return {};
}

Status ReadSizes(const FlagValues& values, EngineOptions* o) {
  constexpr int64_t kMax = INT32_MAX;
  FS_TRY(values.ReadInt("--block-size", 16, 4096, &o->block_size));
  if (o->block_size % 16 != 0) {
    return InvalidArgument(
        fmt::format("--block-size is {}, expected a multiple of 16", o->block_size));
  }
  // -1 is vLLM's other spelling of auto.
  const std::string length = values.Text("--max-model-len");
  if (length != "auto" && length != "-1")
    FS_TRY(values.ReadInt("--max-model-len", 2, kMax, &o->max_model_len));
  FS_TRY(values.ReadInt("--max-num-seqs", 1, 65'536, &o->max_num_seqs));
  FS_TRY(values.ReadInt("--max-num-batched-tokens", 1, 1 << 20, &o->max_num_batched_tokens));
  if (values.Text("--kv-cache-memory-bytes") != "auto") {
    FS_TRY(values.ReadInt64("--kv-cache-memory-bytes", 1, INT64_MAX, &o->kv_cache_memory_bytes));
  }
  FS_TRY(
      values.ReadInt("--long-prefill-token-threshold", 0, kMax, &o->long_prefill_token_threshold));
  FS_TRY(values.ReadInt("--max-long-partial-prefills", 1, kMax, &o->max_long_partial_prefills));
  FS_TRY(values.ReadInt("--max-queue", 1, kMax, &o->max_queue));
  FS_TRY(values.ReadInt("--threads", 0, 1024, &o->threads));
  return values.ReadInt("--plant-wrong-accepts", 0, kMax, &o->plant_wrong_accepts);
}

}  // namespace

std::vector<FlagSpec> EngineFlags(const std::vector<std::string>& spec_methods) {
  std::vector<FlagSpec> flags = OwnFlags();
  for (auto more : {SpeculationFlags(spec_methods), ForeignFlags()})
    flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Result<EngineOptions> ReadEngineFlags(const FlagValues& values,
                                      const std::vector<std::string>& spec_methods,
                                      std::vector<std::string>* notes) {
  EngineOptions options;
  options.model = values.positional;
  if (values.Has("--model")) {
    if (!options.model.empty() && options.model != values.Text("--model")) {
      return InvalidArgument(fmt::format("MODEL is {} and --model is {}, expected one of them",
                                         options.model, values.Text("--model")));
    }
    options.model = values.Text("--model");
  }
  FS_TRY(ReadWeights(values, &options));
  FS_TRY(values.ReadChoice("--kv-cache-dtype", {"auto", "float32", "bfloat16", "fp8", "fp8_e4m3"},
                           &options.kv_cache_dtype));
  if (options.kv_cache_dtype == "fp8_e4m3") options.kv_cache_dtype = "fp8";
  FS_TRY(ReadSizes(values, &options));
  FS_TRY(values.ReadSwitch("--enable-prefix-caching", &options.enable_prefix_caching));
  if (values.Text("--disable-radix-cache") == "true") options.enable_prefix_caching = false;
  FS_TRY(values.ReadSwitch("--warmup", &options.warmup));
  FS_TRY(values.ReadChoice("--generation-config", {"auto", "vllm"}, &options.generation_config));
  FS_TRY(ReadBallast(values, "--ballast-layers", &options.ballast_layers, &options.ballast_width));
  // Another tokenizer would give other tokens: not a flag to wave through.
  if (values.Has("--tokenizer") && values.Text("--tokenizer") != options.model) {
    return InvalidArgument(fmt::format("--tokenizer is {}, expected MODEL's own directory",
                                       values.Text("--tokenizer")));
  }
  int32_t ranks = 1;
  FS_TRY(values.ReadInt("--tensor-parallel-size", 1, 1024, &ranks));
  if (ranks > 1) {
    notes->push_back(fmt::format(
        "--tensor-parallel-size {} has no effect here: one process computes the whole model",
        ranks));
  }
  FS_ASSIGN(options.speculation, ReadSpeculationFlags(values, spec_methods, options.model, notes));
  return options;
}

}  // namespace firesteel
