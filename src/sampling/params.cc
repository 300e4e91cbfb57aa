#include "sampling/params.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace firesteel {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxBiases = 300;
constexpr int32_t kMaxLogprobs = 20;

template <typename T>
Status Bad(std::string_view name, const T& value, std::string_view expected) {
  return InvalidArgument(fmt::format("{} is {}, expected {}", name, value, expected));
}

// Written so that NaN is outside every range.
bool Within(double value, double lo, double hi) { return value >= lo && value <= hi; }

Status CheckToken(std::string_view name, int32_t token, int32_t vocab_size) {
  if (token >= 0 && token < vocab_size) return {};
  return Bad(name, token, fmt::format("a token id from 0 to {}", vocab_size - 1));
}

}  // namespace

Status ValidateSampling(const SamplingParams& params, int32_t vocab_size) {
  const SamplingParams& p = params;
  constexpr double kMax = std::numeric_limits<double>::max();
  if (!Within(p.temperature, 0, kMax)) return Bad("temperature", p.temperature, "0 or more");
  if (p.top_k < -1) return Bad("top_k", p.top_k, "-1 (all) or 0 or more");
  if (!(Within(p.top_p, 0, 1) && p.top_p > 0))
    return Bad("top_p", p.top_p, "above 0 and at most 1");
  if (!Within(p.min_p, 0, 1)) return Bad("min_p", p.min_p, "0 to 1");
  if (!Within(p.presence_penalty, -2, 2)) {
    return Bad("presence_penalty", p.presence_penalty, "-2 to 2");
  }
  if (!Within(p.frequency_penalty, -2, 2)) {
    return Bad("frequency_penalty", p.frequency_penalty, "-2 to 2");
  }
  // The processor works in float32, where a smaller number might be 0 and a larger one infinite.
  if (!Within(p.repetition_penalty, 1e-6, 1e6)) {
    return Bad("repetition_penalty", p.repetition_penalty, "1e-6 to 1e6");
  }

  if (p.max_tokens < 1) return Bad("max_tokens", p.max_tokens, "1 or more");
  if (p.min_tokens < 0) return Bad("min_tokens", p.min_tokens, "0 or more");
  if (p.min_tokens > p.max_tokens) {
    return Bad("min_tokens", p.min_tokens, fmt::format("at most max_tokens, {}", p.max_tokens));
  }
  if (p.logprobs < -1 || p.logprobs > kMaxLogprobs) {
    return Bad("logprobs", p.logprobs, fmt::format("0 to {}", kMaxLogprobs));
  }
  if (p.choice < 0) return Bad("choice", p.choice, "0 or more");
  if (p.spec_tokens < -1) return Bad("spec_tokens", p.spec_tokens, "-1 (automatic) or 0 or more");

  if (p.logit_bias.size() > kMaxBiases) {
    return Bad("logit_bias", fmt::format("a map of {} tokens", p.logit_bias.size()),
               fmt::format("at most {}", kMaxBiases));
  }
  for (const auto& [token, bias] : p.logit_bias) {
    FS_TRY(CheckToken("logit_bias token", token, vocab_size));
    if (!Within(bias, -100, 100)) {
      return Bad(fmt::format("logit_bias of token {}", token), bias, "-100 to 100");
    }
  }
  for (int32_t token : p.stop_token_ids) {
    FS_TRY(CheckToken("stop_token_ids entry", token, vocab_size));
  }
  if (p.stop.size() > kMaxStops) {
    return Bad("stop", fmt::format("a list of {} strings", p.stop.size()),
               fmt::format("at most {}", kMaxStops));
  }
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return Bad("stop", "an empty string", "at least one character");
  }
  return {};
}

}  // namespace firesteel
