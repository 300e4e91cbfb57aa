#include "engine/text_end.h"

#include <algorithm>
#include <optional>
#include <string>

namespace firesteel {
namespace {

bool Contains(std::span<const int32_t> tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

void AppendToken(const EndRules& rules, int32_t token, Sequence* s) {
  s->tokens.push_back(token);
  s->processor.Commit(token);
  s->event.tokens.push_back(token);
  s->usage.completion_tokens = s->NumOutput();
  // Below min_tokens the sampler masks end tokens; the text must not end there by a stop string
  // either.
  const bool below_minimum = s->NumOutput() <= s->sampling.min_tokens;
  const bool ends = !below_minimum && EndsText(token, s->sampling, rules.eos);
  std::optional<size_t> stop;
  if (!ends || s->sampling.include_stop_in_output) {
    stop = s->text.Push(token, below_minimum, &s->event.text);
  }
  if (ends) {
    s->finish = FinishReason::kStop;
    const bool is_eos = !s->sampling.ignore_eos && Contains(rules.eos, token);
    if (!is_eos) s->event.stop_reason = std::to_string(token);
  } else if (stop) {
    s->finish = FinishReason::kStop;
    s->event.stop_reason = s->sampling.stop[*stop];
  } else if (s->NumOutput() >= s->sampling.max_tokens || s->Length() >= rules.max_model_len) {
    s->finish = FinishReason::kLength;
  }
}

}  // namespace

bool EndsText(int32_t token, const SamplingParams& sampling, std::span<const int32_t> eos) {
  return (!sampling.ignore_eos && Contains(eos, token)) || Contains(sampling.stop_token_ids, token);
}

int32_t AppendTokens(const EndRules& rules, std::span<const int32_t> tokens, Sequence* sequence) {
  int32_t added = 0;
  for (int32_t token : tokens) {
    AppendToken(rules, token, sequence);
    ++added;
    if (sequence->finish) break;
  }
  if (sequence->finish) sequence->text.Finish(&sequence->event.text);
  return added;
}

}  // namespace firesteel
