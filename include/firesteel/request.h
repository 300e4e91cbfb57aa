// What a caller asks of the engine, and what it is told back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

// Defaults are OpenAI's, names vLLM's. Checked by ValidateSampling (sampling/params.h) before a
// request is accepted.
struct SamplingParams {
  double temperature = 1.0;  // below 1e-5: greedy, ties to the lowest id
  int32_t top_k = 0;         // 0 or -1: all
  double top_p = 1.0;
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;                         // over prompt and output, as in vLLM
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // token, added logit

  // With a seed the text depends on prompt, parameters, seed and choice alone; without one a fresh
  // seed is drawn.
  std::optional<uint64_t> seed = std::nullopt;
  int32_t choice = 0;  // which of the n answers to one prompt; part of the noise key

  int32_t max_tokens = 16;
  int32_t min_tokens =
      0;  // EOS and stop tokens are masked, stop strings ignored, below this many output tokens
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids = {};
  std::vector<std::string> stop = {};
  bool include_stop_in_output = false;
  bool skip_special_tokens = true;

  int32_t logprobs =
      -1;  // -1: none; k >= 0: the chosen token's and the k most likely ones', from the raw logits

  int32_t spec_tokens =
      -1;  // -1: the engine's setting; 0: no speculation for this request; N: at most N
};

using RequestId = uint64_t;

struct Request {
  std::vector<int32_t> prompt;  // token ids, at least one
  SamplingParams sampling;
  // Whose request it is. What speculation learns from a text is kept for its tenant alone.
  std::string tenant = {};
};

enum class FinishReason { kStop, kLength, kCancelled, kError };

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;                           // natural logarithm, raw target distribution
  std::vector<std::pair<int32_t, float>> top;  // most likely first
};

// Speculation of one request so far. Mean acceptance length = 1 + accepted / rounds, over rounds
// with at least one verified draft token; acceptance rate = accepted / verified.
struct SpeculationUsage {
  int64_t rounds = 0;    // decode steps with a draft
  int64_t drafted = 0;   // produced by the drafter
  int64_t verified = 0;  // sent to the target
  int64_t accepted = 0;
  std::vector<int64_t> accepted_per_position;
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // of the prompt, from the prefix cache
  int32_t completion_tokens = 0;  // up to the cut; a stop token that ended the text counts
  SpeculationUsage speculation;
};

// Some new output, or the end. Every accepted request gets zero or more events without `finish` and
// exactly one with it.
struct TokenEvent {
  RequestId id = 0;
  std::vector<int32_t> tokens;
  std::string text;  // complete characters only; may be empty though tokens are not
  std::vector<TokenLogprob> logprobs;  // one per token when asked for
  std::optional<FinishReason> finish;
  std::string stop_reason;  // the stop string or token id that ended it, "" for EOS
  Status error;             // with kError
  Usage usage;              // so far
};

// Called on the engine thread; must not block and must not call the engine except Cancel.
using EventSink = std::function<void(TokenEvent)>;

}  // namespace firesteel
