#include "engine/check_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/paged_view.h"

namespace firesteel {
namespace {

Status AtLeast(std::string_view name, int64_t value, int64_t least) {
  if (value >= least) return {};
  return InvalidArgument(fmt::format("{}: {}, expected at least {}", name, value, least));
}

Status Within(std::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return InvalidArgument(fmt::format("{}: {}, expected {} to {}", name, value, least, most));
}

Status OneOf(std::string_view name, std::string_view value,
             std::span<const std::string_view> known) {
  if (std::ranges::find(known, value) != known.end()) return {};
  return InvalidArgument(
      fmt::format("{}: \"{}\", expected one of {}", name, value, fmt::join(known, ", ")));
}

// Far above any use, and low enough that sizes stay within 64 bits and a slip of the hand does not
// ask for the whole machine.
constexpr int64_t kMaxSeqs = 1 << 16;
constexpr int64_t kMaxRows = 1 << 20;
constexpr int64_t kMaxModelLen = 1 << 22;
constexpr int64_t kMaxBlockSize = 1 << 16;
constexpr int64_t kMaxThreads = 1024;

}  // namespace

Status CheckOptions(const EngineOptions& o) {
  FS_TRY(Within("max_num_seqs", o.max_num_seqs, 1, kMaxSeqs));
  FS_TRY(Within("max_num_batched_tokens", o.max_num_batched_tokens, 1, kMaxRows));
  FS_TRY(AtLeast("max_queue", o.max_queue, 1));
  FS_TRY(Within("max_model_len", o.max_model_len, 0, kMaxModelLen));
  FS_TRY(AtLeast("kv_cache_memory_bytes", o.kv_cache_memory_bytes, 0));
  FS_TRY(AtLeast("long_prefill_token_threshold", o.long_prefill_token_threshold, 0));
  FS_TRY(AtLeast("max_long_partial_prefills", o.max_long_partial_prefills, 1));
  FS_TRY(Within("threads", o.threads, 0, kMaxThreads));
  FS_TRY(AtLeast("ballast_layers", o.ballast_layers, 0));
  FS_TRY(AtLeast("ballast_width", o.ballast_width, 0));
  FS_TRY(AtLeast("plant_wrong_accepts", o.plant_wrong_accepts, 0));
  FS_TRY(AtLeast("spec_tokens", o.speculation.tokens, 0));
  FS_TRY(AtLeast("spec_ballast_layers", o.speculation.ballast_layers, 0));
  FS_TRY(AtLeast("spec_ballast_width", o.speculation.ballast_width, 0));
  if (o.max_num_batched_tokens < o.max_num_seqs) {
    return InvalidArgument(fmt::format(
        "max_num_batched_tokens: {}, expected at least max_num_seqs ({}): a step has one row for "
        "every running sequence",
        o.max_num_batched_tokens, o.max_num_seqs));
  }
  if (o.block_size < kAttentionTile || o.block_size > kMaxBlockSize ||
      o.block_size % kAttentionTile != 0) {
    return InvalidArgument(fmt::format("block_size: {}, expected a multiple of {} up to {}",
                                       o.block_size, kAttentionTile, kMaxBlockSize));
  }
  static constexpr std::array<std::string_view, 6> kWeights{"auto", "float32", "bfloat16",
                                                            "fp8",  "int8",    "int4"};
  static constexpr std::array<std::string_view, 4> kKv{"auto", "float32", "bfloat16", "fp8"};
  static constexpr std::array<std::string_view, 4> kVerify{"auto", "match", "rejection", "block"};
  static constexpr std::array<std::string_view, 2> kDefaults{"auto", "vllm"};
  FS_TRY(OneOf("weight_dtype", o.weight_dtype, kWeights));
  FS_TRY(OneOf("kv_cache_dtype", o.kv_cache_dtype, kKv));
  FS_TRY(OneOf("generation_config", o.generation_config, kDefaults));
  FS_TRY(OneOf("spec_verify", o.speculation.verify, kVerify));
  const double threshold = o.speculation.confidence_threshold;
  if (!(threshold >= 0 && threshold <= 1)) {
    return InvalidArgument(
        fmt::format("spec_confidence_threshold: {}, expected a number from 0 to 1", threshold));
  }
  return {};
}

}  // namespace firesteel
