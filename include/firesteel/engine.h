// The engine: continuous batching with speculation over one model. One thread of its own runs the steps.
//
// Submit and Cancel are thread-safe. Every accepted request ends in exactly one terminal event, also when the engine is
// destroyed before it is done (kCancelled).
#pragma once

#include <cstdint>
#include <memory>
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
  int64_t weight_bytes = 0;          // read by one target step
  int64_t ballast_bytes = 0;         // of these, ballast
  int64_t draft_weight_bytes = 0;    // read by one draft pass, shared head included; 0 without a drafter
  int64_t kv_bytes_per_token = 0;    // target and drafter
  int32_t num_kv_blocks = 0;
  std::string spec_method = "none";
  int32_t spec_tokens = 0;
};

// Counters since start; gauges now. A consistent snapshot taken between two steps.
struct EngineStats {
  int64_t steps = 0;
  int64_t prompt_tokens = 0;      // computed or cached
  int64_t cached_tokens = 0;      // of these, from the prefix cache
  int64_t generation_tokens = 0;
  int64_t requests_finished_stop = 0;
  int64_t requests_finished_length = 0;
  int64_t requests_cancelled = 0;
  int64_t requests_failed = 0;
  int64_t preemptions = 0;
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t kv_blocks_used = 0;     // held by sequences
  int32_t kv_blocks_cached = 0;   // held by the prefix cache alone
  int32_t kv_blocks_total = 0;
  // Speculation (speculative-decoding metrics, docs/speculation.md).
  int64_t spec_rounds = 0;         // with at least one verified draft token
  int64_t spec_rounds_without_draft = 0;
  int64_t spec_drafted = 0;
  int64_t spec_invalidated = 0;    // removed before scheduling: behind EOS, above a limit
  int64_t spec_trimmed = 0;        // not verified by decision
  int64_t spec_verified = 0;
  int64_t spec_accepted = 0;
  int64_t spec_cut_by_stop = 0;    // committed by the verifier, then cut by a stop
  std::vector<int64_t> spec_reached_per_position;
  std::vector<int64_t> spec_accepted_per_position;
  // Seconds by phase, summed over steps.
  double seconds_draft = 0;
  double seconds_forward = 0;
  double seconds_sample = 0;
  double seconds_observe = 0;
  double seconds_schedule = 0;
};

class Engine {
 public:
  // Loads target, tokenizer and drafter, allocates the cache, warms up. Takes seconds; `progress` (may be null) hears a
  // phase name and a fraction.
  static Result<std::unique_ptr<Engine>> Load(
      const EngineOptions& options, const std::function<void(const std::string&, double)>& progress = nullptr);

  virtual ~Engine() = default;

  // kInvalidArgument: can never run (too long, bad parameters), naming the number that would; kResourceExhausted: queue
  // full; kUnavailable: draining. The sink may be called before Submit returns.
  virtual Result<RequestId> Submit(Request request, EventSink sink) = 0;
  virtual void Cancel(RequestId id) = 0;  // unknown or finished ids are ignored

  // Refuses new requests and returns when all accepted ones have ended, or after `timeout_ms`, then cancelling the rest.
  virtual void Drain(int64_t timeout_ms) = 0;

  // Drops what only the prefix cache holds. False (and nothing done) while requests run.
  virtual bool ResetPrefixCache() = 0;

  virtual EngineStats Stats() const = 0;             // thread-safe
  virtual const ModelSummary& Summary() const = 0;   // immutable
  virtual const Tokenizer& tokenizer() const = 0;    // immutable
  virtual const EngineOptions& options() const = 0;  // with every automatic value filled in
};

}  // namespace firesteel
