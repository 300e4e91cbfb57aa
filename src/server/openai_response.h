// Responses of the two completion routes, whole and as stream chunks.
//
// The plain chunk of a stream is what the server spends its time on: it is put together as text.
// What is rare goes through the JSON library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "firesteel/request.h"
#include "server/openai_json.h"
#include "text/tokenizer.h"

namespace firesteel {

// One of the n answers to one prompt: all of it, or what is new in a chunk.
struct ChoiceOutput {
  int32_t index = 0;        // prompt number * n + choice
  int32_t text_offset = 0;  // of the first token in `logprobs`, in code points (completions)
  std::string text = {};
  std::string text_so_far = {};  // of a chunk that repeats what came before (SGLang's)
  std::vector<int32_t> tokens = {};
  std::vector<TokenLogprob> logprobs = {};
  std::optional<FinishReason> finish = {};
  std::string stop_reason = {};
  const std::vector<int32_t>* prompt_ids =
      nullptr;  // shown where return_token_ids is asked for; null: not here
};

struct UsageTotals {
  int64_t prompt_tokens = 0;  // each prompt counts once, whatever n
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
};

class ResponseFormat {
 public:
  // `tokenizer` must outlive this; of `request` what matters is copied.
  ResponseFormat(const GenerationRequest& request, std::string id, int64_t created,
                 const std::string& model, const Tokenizer& tokenizer);

  // `first` of its choice: carries role and prompt ids. `usage` null: none, or null where usage
  // comes at the end.
  std::string Chunk(const ChoiceOutput& delta, bool first, const UsageTotals* usage) const;
  // The chunk without choices that ends a stream. Null pointers: not asked for.
  std::string LastChunk(const UsageTotals* usage, const Json* metrics) const;
  std::string Whole(const std::vector<ChoiceOutput>& choices, const UsageTotals& usage,
                    const Json* metrics) const;

  // Code points that the names of these tokens add to text_offset.
  int32_t TextLength(const std::vector<TokenLogprob>& logprobs) const;

 private:
  Json ChatLogprobs(const std::vector<TokenLogprob>& logprobs) const;
  Json CompletionLogprobs(const ChoiceOutput& choice) const;
  Json ChatEntry(int32_t token, float logprob) const;
  Json Logprobs(const ChoiceOutput& choice) const;
  std::string TokenName(int32_t token) const;
  Json Envelope(const char* object) const;
  Json StopReason(const std::string& reason) const;

  const bool chat_;
  const bool sglang_;
  const bool usage_at_end_;
  const bool with_logprobs_;
  const bool with_token_ids_;
  const bool tokens_as_ids_;
  const std::vector<std::string> stop_strings_;  // to tell a stop string "7" from the token 7
  const std::string id_;
  const int64_t created_;
  const std::string model_;
  const Tokenizer& tokenizer_;
  std::string chunk_head_;  // up to `"choices":[`
};

Json UsageJson(const UsageTotals& usage);
// vLLM's per-request summary (metrics.speculative_decoding), with num_produced_draft_tokens beside
// it: drafted, verified or not. `spec_tokens`: what the engine may verify in a step.
Json SpeculationMetrics(const SpeculationUsage& usage, int32_t spec_tokens);
// "stop", "length", "abort", "error"
const char* FinishName(FinishReason reason);

}  // namespace firesteel
