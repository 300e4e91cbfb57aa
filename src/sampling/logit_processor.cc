#include "sampling/logit_processor.h"

#include <algorithm>
#include <limits>

namespace firesteel {

LogitProcessor::LogitProcessor(const SamplingParams& params, std::span<const int32_t> prompt,
                               std::span<const int32_t> eos)
    : bias_(params.logit_bias),
      repetition_(static_cast<float>(params.repetition_penalty)),
      presence_(static_cast<float>(params.presence_penalty)),
      frequency_(static_cast<float>(params.frequency_penalty)),
      end_tokens_(eos.begin(), eos.end()),
      min_tokens_(params.min_tokens) {
  end_tokens_.insert(end_tokens_.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  if (repetition_ == 1) return;
  for (int32_t token : prompt) {
    if (index_.emplace(token, seen_.size()).second) seen_.push_back({token, 0});
  }
}

bool LogitProcessor::IsIdentity() const {
  const bool masks = num_output_ < min_tokens_ && !end_tokens_.empty();
  return !masks && bias_.empty() && repetition_ == 1 && presence_ == 0 && frequency_ == 0;
}

void LogitProcessor::Process(std::span<const int32_t> draft_prefix, std::span<float> logits) const {
  const auto at = [&](int32_t token) -> float* {
    const bool known = token >= 0 && static_cast<size_t>(token) < logits.size();
    return known ? &logits[static_cast<size_t>(token)] : nullptr;
  };
  if (num_output_ + static_cast<int32_t>(draft_prefix.size()) < min_tokens_) {
    for (int32_t token : end_tokens_) {
      if (float* logit = at(token)) *logit = -std::numeric_limits<float>::infinity();
    }
  }
  for (const auto& [token, bias] : bias_) {
    if (float* logit = at(token)) *logit += bias;
  }
  if (repetition_ == 1 && presence_ == 0 && frequency_ == 0) return;

  // A penalty does not add up from parts (repetition is a factor), so drafted tokens begin again
  // from the value before.
  struct Drafted {
    int32_t token;
    int32_t count;
    float before;
  };
  std::vector<Drafted> drafted;
  for (int32_t token : draft_prefix) {
    const auto it = std::ranges::find(drafted, token, &Drafted::token);
    if (it != drafted.end()) {
      ++it->count;
    } else if (const float* logit = at(token)) {
      drafted.push_back({token, 1, *logit});
    }
  }
  for (const Seen& seen : seen_) {
    if (float* logit = at(seen.token)) Penalize(seen.output_count, logit);
  }
  for (const Drafted& d : drafted) {
    const auto it = index_.find(d.token);
    float* logit = at(d.token);
    *logit = d.before;
    Penalize(d.count + (it == index_.end() ? 0 : seen_[it->second].output_count), logit);
  }
}

void LogitProcessor::Penalize(int32_t output_count, float* logit) const {
  *logit = *logit > 0 ? *logit / repetition_ : *logit * repetition_;
  *logit -= frequency_ * static_cast<float>(output_count);
  if (output_count > 0) *logit -= presence_;
}

void LogitProcessor::Commit(int32_t token) {
  ++num_output_;
  if (repetition_ == 1 && presence_ == 0 && frequency_ == 0) return;
  const auto [it, inserted] = index_.emplace(token, seen_.size());
  if (inserted) seen_.push_back({token, 0});
  ++seen_[it->second].output_count;
}

}  // namespace firesteel
