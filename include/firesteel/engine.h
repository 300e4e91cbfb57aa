// The engine: continuous batching with speculation over one model. One thread of its own runs the
// steps.
//
// Submit and Cancel are thread-safe. Every accepted request ends in exactly one terminal event,
// also when the engine is destroyed before it is done (kCancelled).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "firesteel/options.h"
#include "firesteel/request.h"
#include "firesteel/status.h"

namespace firesteel {

class Tokenizer;

struct ModelSummary {
  std::string name;          // last component of the path
  std::string architecture;  // "Qwen3ForCausalLM"
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int64_t weight_bytes = 0;   // read by one target step
  int64_t ballast_bytes = 0;  // of these, ballast
  int64_t draft_weight_bytes =
      0;  // read by one draft pass, shared head included; 0 without a drafter
  int64_t kv_bytes_per_token = 0;  // target and drafter
  int32_t num_kv_blocks = 0;
  std::string spec_method = "none";
  int32_t spec_tokens = 0;
  SamplingParams
      default_sampling;  // what a request that says nothing gets (options().generation_config)
};

// Observations counted into fixed buckets.
struct StatHistogram {
  static constexpr size_t kMaxBounds = 20;
  std::span<const double> bounds;  // ascending, at most kMaxBounds, of static storage
  std::array<int64_t, kMaxBounds + 1>
      counts{};  // by bucket, not cumulative; what is above the last bound comes last
  double sum = 0;
};

inline constexpr double kPhaseSecondsBounds[] = {1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4,
                                                 1e-3, 2.5e-3, 5e-3, 0.01, 0.025,  0.05,
                                                 0.1,  0.25,   0.5,  1,    2.5,    5};
inline constexpr double kStepRowsBounds[] = {1,   2,   4,   8,    16,   32,  64,
                                             128, 256, 512, 1024, 2048, 4096};
inline constexpr double kRequestRowsBounds[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32};

// Why a step without drafts had none, though its requests might have had some.
enum class DraftlessReason {
  kLoad,         // SpeculationOptions::k_by_load
  kMinBatch,     // min_batch
  kShortOutput,  // min_output_tokens
  kNotWorth,     // drafts were not expected to pay
  kSlower,       // they were, and did not: switched off for a while
};
inline constexpr std::array<const char*, 5> kDraftlessReasonNames = {
    "load", "min_batch", "short_output", "not_worth", "slower"};

// Counters since start; gauges now. A consistent snapshot taken between two steps.
struct EngineStats {
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // computed or cached
  int64_t cached_tokens = 0;  // of these, from the prefix cache
  int64_t generation_tokens = 0;
  int64_t requests_finished_stop = 0;
  int64_t requests_finished_length = 0;
  int64_t requests_cancelled = 0;
  int64_t requests_failed = 0;
  int64_t preemptions = 0;
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t kv_blocks_used = 0;    // held by sequences
  int32_t kv_blocks_cached = 0;  // held by the prefix cache alone
  int32_t kv_blocks_total = 0;
  // Speculation (speculative-decoding metrics, docs/speculation.md).
  int64_t spec_rounds = 0;                      // with at least one verified draft token
  std::vector<int64_t> spec_rounds_per_length;  // by number of verified tokens, from 0 on; prefills
                                                // that decide have 0
  int64_t spec_drafted = 0;
  // Removed before scheduling, each token by what ended its draft:
  int64_t spec_invalidated_eos = 0;    // behind a token that ends the text
  int64_t spec_invalidated_limit = 0;  // above what was asked for
  int64_t spec_invalidated_malformed =
      0;  // from an id outside the vocabulary on; a draft whose parts do not match
  int64_t spec_trimmed = 0;  // not verified by decision
  int64_t spec_verified = 0;
  int64_t spec_accepted = 0;
  int64_t spec_cut_by_stop = 0;  // committed by the verifier, then cut by a stop
  std::vector<int64_t> spec_reached_per_position;
  std::vector<int64_t> spec_accepted_per_position;
  // How well the chances by which tokens are chosen for verification come true, by position:
  // expected calibration error, and the mean square error over all.
  std::vector<double> spec_calibration_ece;
  double spec_calibration_brier = 0;
  std::array<double, kDraftlessReasonNames.size()> spec_disabled_seconds{};  // by DraftlessReason
  StatHistogram spec_verify_rows{
      kStepRowsBounds};  // anchors and drafts of a target pass that has any
  StatHistogram spec_budget_rows{
      kRequestRowsBounds};  // anchor and verified tokens of one request in a round
  // Seconds of one step, by phase; drafting only where somebody was granted drafts.
  StatHistogram seconds_draft{kPhaseSecondsBounds};
  StatHistogram seconds_forward{kPhaseSecondsBounds};
  StatHistogram seconds_sample{kPhaseSecondsBounds};
  StatHistogram seconds_observe{kPhaseSecondsBounds};
  StatHistogram seconds_schedule{kPhaseSecondsBounds};
};

class Engine {
 public:
  // Loads target, tokenizer and drafter, allocates the cache, warms up. Takes seconds; `progress`
  // (may be null) hears a phase name and a fraction.
  static Result<std::unique_ptr<Engine>> Load(
      const EngineOptions& options,
      const std::function<void(const std::string&, double)>& progress = nullptr);

  virtual ~Engine() = default;

  // kInvalidArgument: can never run (too long, bad parameters), naming the number that would;
  // kResourceExhausted: queue full; kUnavailable: draining. The sink may be called before Submit
  // returns.
  virtual Result<RequestId> Submit(Request request, EventSink sink) = 0;
  virtual void Cancel(RequestId id) = 0;  // unknown or finished ids are ignored

  // Refuses new requests and returns when all accepted ones have ended, or after `timeout_ms`, then
  // cancelling the rest.
  virtual void Drain(int64_t timeout_ms) = 0;

  // Drops what only the prefix cache holds. False (and nothing done) while requests run.
  virtual bool ResetPrefixCache() = 0;

  virtual EngineStats Stats() const = 0;             // thread-safe
  virtual const ModelSummary& Summary() const = 0;   // immutable
  virtual const Tokenizer& tokenizer() const = 0;    // immutable
  virtual const EngineOptions& options() const = 0;  // with every automatic value filled in
};

}  // namespace firesteel
