// Engine::Load: from a directory to an engine that is warm.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "engine/check_options.h"
#include "engine/drafter_self_test.h"
#include "engine/engine_impl.h"
#include "engine/same_tokens.h"
#include "model/architectures.h"
#include "model/config.h"
#include "sampling/params.h"
#include "speculation/drafters.h"

namespace firesteel {
namespace {

using Progress = std::function<void(const std::string&, double)>;

constexpr int64_t kDefaultPositionsPerSequence = 2048;
constexpr int64_t kDefaultKvBytes = int64_t{2} << 30;

DType KvDtype(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "fp8") return DType::kF8E4M3;
  return DType::kBF16;
}

Status FitModelLength(const ModelInfo& info, EngineOptions* options) {
  if (options->max_model_len == 0) options->max_model_len = info.max_positions;
  if (options->max_model_len > info.max_positions) {
    return InvalidArgument(fmt::format("max_model_len: {}, the checkpoint was made for at most {}",
                                       options->max_model_len, info.max_positions));
  }
  return {};
}

// How many blocks, and with them kv_cache_memory_bytes. A context given by nobody shrinks to what
// the memory holds.
Result<int32_t> SizeCache(const CacheLayout& layout, bool length_was_given,
                          EngineOptions* options) {
  const int64_t block_bytes = std::max<int64_t>(1, layout.BytesPerPosition()) * options->block_size;
  const auto blocks_for = [&](int64_t positions) {
    return (positions + options->block_size - 1) / options->block_size;
  };
  int64_t bytes = options->kv_cache_memory_bytes;
  if (bytes == 0) {
    const int64_t positions =
        std::min<int64_t>(options->max_model_len, kDefaultPositionsPerSequence);
    bytes = std::min(blocks_for(positions) * options->max_num_seqs * block_bytes, kDefaultKvBytes);
    // One request of full length must fit when memory was left to us.
    if (length_was_given) bytes = std::max(bytes, blocks_for(options->max_model_len) * block_bytes);
  }
  // Every page is touched when the cache is made: better a sentence now than a killed process then.
  if (bytes > PhysicalMemoryBytes()) {
    return InvalidArgument(fmt::format("kv_cache_memory_bytes: {}, this machine has {}", bytes,
                                       PhysicalMemoryBytes()));
  }
  const int64_t blocks = std::min<int64_t>(bytes / block_bytes, int64_t{1} << 30);
  if (blocks < 1) {
    return InvalidArgument(
        fmt::format("kv_cache_memory_bytes: {}, one block of {} positions takes {}", bytes,
                    options->block_size, block_bytes));
  }
  const int64_t holds = blocks * options->block_size + 1;  // the last token has no row
  if (holds < options->max_model_len) {
    if (length_was_given) {
      return InvalidArgument(fmt::format(
          "kv_cache_memory_bytes: {} hold {} tokens, max_model_len {} needs {}", bytes, holds,
          options->max_model_len, blocks_for(options->max_model_len - 1) * block_bytes));
    }
    FS_LOG_INFO("max_model_len: {}, what the KV cache of {} bytes holds (the checkpoint: {})",
                holds, bytes, options->max_model_len);
    options->max_model_len = static_cast<int32_t>(holds);
  }
  options->kv_cache_memory_bytes = blocks * block_bytes;
  return static_cast<int32_t>(blocks);
}

Result<SamplingParams> DefaultSampling(const EngineOptions& options, int32_t vocab_size) {
  if (options.generation_config != "auto") return SamplingParams();
  FS_ASSIGN(const SamplingParams params, ReadSamplingDefaults(options.model));
  const Status status = ValidateSampling(params, vocab_size);
  if (status.ok()) return params;
  return InvalidArgument(
      fmt::format("{}/generation_config.json: {}", options.model, status.message()));
}

// The drafter that the options name, and a cache for it and the model. `length_was_given` as above.
Status AddDrafterAndCache(bool length_was_given, const Progress& report, EngineParts* parts) {
  report("drafter", 0);
  EngineOptions& options = parts->options;
  const DType kv_dtype = KvDtype(options.kv_cache_dtype);
  CacheLayout layout{parts->model->CacheGroups(kv_dtype)};
  FS_ASSIGN(Json config, ParseJson(options.speculation.config_json, "speculative config"));
  const DrafterContext context{.exec = *parts->exec,
                               .target = *parts->model,
                               .first_group = static_cast<int32_t>(layout.groups.size()),
                               .max_slots = options.max_num_seqs,
                               .max_model_len = options.max_model_len,
                               .options = options.speculation,
                               .config = std::move(config)};
  FS_ASSIGN(parts->drafter, MakeDrafter(context));
  options.speculation.method = parts->drafter->info().name;
  if (const std::string& own = parts->drafter->info().tokenizer; !own.empty()) {
    FS_TRY(CheckSameTokens(*parts->tokenizer, own));
  }
  std::ranges::move(parts->drafter->CacheGroups(kv_dtype), std::back_inserter(layout.groups));
  report("cache", 0);
  FS_ASSIGN(const int32_t num_blocks, SizeCache(layout, length_was_given, &options));
  parts->cache = std::make_unique<KvCache>(
      layout, KvCache::Options{.block_size = options.block_size,
                               .num_blocks = num_blocks,
                               .max_slots = options.max_num_seqs,
                               .prefix_caching = options.enable_prefix_caching});
  parts->summary.draft_weight_bytes = parts->drafter->info().weight_bytes;
  parts->summary.kv_bytes_per_token = layout.BytesPerPosition();
  parts->summary.num_kv_blocks = num_blocks;
  return {};
}

// Whether the drafter is worth speculating with; says what it found.
Result<bool> PassesSelfTest(const EngineParts& parts) {
  Workspace model_workspace, draft_workspace;
  FS_ASSIGN(const SelfTestResult result,
            TestDrafter({.exec = *parts.exec,
                         .model = *parts.model,
                         .drafter = *parts.drafter,
                         .cache = *parts.cache,
                         .model_workspace = model_workspace,
                         .draft_workspace = draft_workspace,
                         .clock = Clock::Real()},
                        parts.options, SelfTestPrompts(*parts.tokenizer)));
  FS_LOG_INFO(
      "drafter self-test: {:.1f} % accepted at position 1, {:.1f} % at 2 behind it, {} tokens{}",
      100 * result.Acceptance(0), 100 * result.Acceptance(1), result.generated,
      result.out_of_time ? ", out of time" : "");
  const std::string objection = result.Objection();
  if (objection.empty()) return true;
  FS_LOG_WARNING("{} does not fit {}, so nothing is speculated: {}",
                 parts.options.speculation.model, parts.options.model, objection);
  return false;
}

std::string BaseName(const std::string& path) {
  std::filesystem::path p(path);
  if (p.filename().empty()) p = p.parent_path();
  return p.filename().string();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Load(const EngineOptions& requested,
                                             const Progress& progress) {
  const auto report = [&](const std::string& phase, double fraction) {
    if (progress) progress(phase, fraction);
  };
  FS_TRY(CheckOptions(requested));
  EngineParts parts;
  parts.options = requested;
  EngineOptions& options = parts.options;
  const bool length_was_given = options.max_model_len > 0;
  if (options.threads == 0) options.threads = AvailableCpus();
  if (options.kv_cache_dtype == "auto") options.kv_cache_dtype = "bfloat16";
  parts.pool = std::make_unique<ThreadPool>(options.threads);
  parts.exec = std::make_unique<Exec>(Exec{*parts.pool});

  const bool quantizes = options.weight_dtype == "int8" || options.weight_dtype == "int4";
  const std::string phase = quantizes ? "target, to " + options.weight_dtype : "target";
  report(phase, 0);
  FS_ASSIGN(parts.model, LoadModel(*parts.exec, options.model,
                                   {.weight_dtype = options.weight_dtype,
                                    .weight_cache = options.weight_cache,
                                    .ballast_layers = options.ballast_layers,
                                    .ballast_width = options.ballast_width,
                                    .max_positions = options.max_model_len,
                                    .progress = [&](double part) { report(phase, part); }}));
  const ModelInfo& info = parts.model->info();
  FS_TRY(FitModelLength(info, &options));
  report("tokenizer", 0);
  FS_ASSIGN(parts.tokenizer, Tokenizer::Load(options.model));
  if (parts.tokenizer->vocab_size() > info.vocab_size) {
    return DataCorrupt(fmt::format("{}: the tokenizer has {} ids, the model's vocabulary {}",
                                   options.model, parts.tokenizer->vocab_size(), info.vocab_size));
  }

  FS_ASSIGN(SamplingParams default_sampling, DefaultSampling(options, info.vocab_size));

  FS_TRY(AddDrafterAndCache(length_was_given, report, &parts));
  if (options.speculation.self_test && parts.drafter->info().weight_bytes > 0) {
    report("drafter self-test", 0);
    FS_ASSIGN(const bool passes, PassesSelfTest(parts));
    if (!passes) {
      options.speculation.method = "none";
      options.kv_cache_memory_bytes = requested.kv_cache_memory_bytes;
      FS_TRY(AddDrafterAndCache(length_was_given, report, &parts));
    }
  }
  parts.summary.name = BaseName(options.model);
  parts.summary.architecture = info.architecture;
  parts.summary.vocab_size = info.vocab_size;
  parts.summary.max_model_len = options.max_model_len;
  parts.summary.weight_bytes = info.weight_bytes;
  parts.summary.ballast_bytes = info.ballast_bytes;
  parts.summary.default_sampling = std::move(default_sampling);

  FS_ASSIGN(std::unique_ptr<EngineImpl> engine, MakeEngine(std::move(parts)));
  if (requested.warmup) {
    FS_TRY(engine->WarmUp([&](double fraction) { report("warm-up", fraction); }));
  }
  engine->Start();
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace firesteel
