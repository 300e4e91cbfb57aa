// Penalties, bias and min_tokens of one sequence: everything that changes logits before
// temperature.
//
// Row k of a verify step depends on the history plus the draft tokens before it, so Process takes
// that prefix as a small delta and the counts move only with Commit. Order and definitions are
// vLLM's: min_tokens, bias, then the penalties for repetition (over prompt and output), frequency
// and presence (over output); draft tokens count as output.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "firesteel/request.h"

namespace firesteel {

class LogitProcessor {
 public:
  // `eos` are the model's end tokens; masked (with stop_token_ids) below min_tokens. Keeps no
  // reference to its arguments.
  LogitProcessor(const SamplingParams& params, std::span<const int32_t> prompt,
                 std::span<const int32_t> eos);

  // True when Process would change nothing for any row: the caller may skip the copy of the logits.
  bool IsIdentity() const;

  // In place; O(distinct tokens seen). Ids outside the vocabulary are passed over. `draft_prefix`:
  // draft tokens between the committed text and this row. logits [V].
  void Process(std::span<const int32_t> draft_prefix, std::span<float> logits) const;

  void Commit(int32_t token);  // one more output token

 private:
  struct Seen {
    int32_t token = 0;
    int32_t output_count = 0;  // 0: in the prompt only
  };
  void Penalize(int32_t output_count, float* logit) const;

  std::vector<std::pair<int32_t, float>> bias_;
  float repetition_, presence_, frequency_;
  std::vector<int32_t> end_tokens_;
  int32_t min_tokens_;
  int32_t num_output_ = 0;
  std::vector<Seen> seen_;                     // what a penalty touches, each token once
  std::unordered_map<int32_t, size_t> index_;  // token -> place in seen_
};

}  // namespace firesteel
