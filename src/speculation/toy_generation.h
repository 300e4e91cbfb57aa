// A toy target, a toy drafter, and generations over rounds with the engine's own pieces: Verify,
// MakeDistribution, SampleWithNoise, LogitProcessor, TrimLength. For tests.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "sampling/logit_processor.h"
#include "speculation/confidence.h"
#include "speculation/drafter.h"
#include "speculation/verifier.h"

namespace firesteel {

using Tokens = std::vector<int32_t>;

inline SamplingParams AtTemperature(double temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

// A language model over a few words: logits depend on the last two tokens. The draft's depend on
// them otherwise.
class ToyModel {
 public:
  explicit ToyModel(int32_t vocab, uint32_t seed) : vocab_(vocab) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    tables_.resize(static_cast<size_t>((vocab + 1) * (vocab + 1)));
    for (auto& row : tables_) {
      for (int32_t i = 0; i < vocab; ++i) row.push_back(normal(random));
    }
  }
  int32_t vocab() const { return vocab_; }
  // Tokens outside the vocabulary read as "none", as before the beginning.
  const std::vector<float>& Logits(std::span<const int32_t> context) const {
    const auto id = [&](size_t back) {
      const int32_t t = context.size() < back ? -1 : context[context.size() - back];
      return t >= 0 && t < vocab_ ? t : vocab_;
    };
    return tables_[static_cast<size_t>(id(2) * (vocab_ + 1) + id(1))];
  }

 private:
  int32_t vocab_;
  std::vector<std::vector<float>> tables_;
};

// Proposes up to `max_tokens` behind `context`; `position` is that of the first.
using Proposer = std::function<Draft(std::span<const int32_t> context, NoiseKey noise,
                                     int64_t position, int32_t max_tokens)>;

// A chain whose every q was really drawn from, or argmax when `one_hot`.
inline Proposer ChainOf(const ToyModel& model, double temperature, NoisePurpose purpose,
                        bool one_hot) {
  // Tables are few, so their distributions are made once.
  auto made = std::make_shared<std::map<const float*, Distribution>>();
  return [&model, temperature, purpose, one_hot, made](std::span<const int32_t> context,
                                                       NoiseKey noise, int64_t position,
                                                       int32_t max_tokens) {
    Draft draft;
    Tokens text(context.begin(), context.end());
    for (int32_t k = 0; k < max_tokens; ++k) {
      const std::vector<float>& logits = model.Logits(text);
      if (one_hot) {
        draft.tokens.push_back(ArgMax(logits));
      } else {
        const auto [it, fresh] = made->try_emplace(logits.data());
        if (fresh) it->second = MakeDistribution(logits, AtTemperature(temperature));
        draft.probs.push_back(it->second);
        const int64_t place =
            purpose == NoisePurpose::kDraftGumbel ? RoundPosition(position - 1, k) : position + k;
        draft.tokens.push_back(SampleWithNoise(it->second, noise, place, purpose));
        // Before the token, as a head would say it: the draft's own certainty.
        draft.confidence.push_back(*std::ranges::max_element(it->second.probs));
      }
      text.push_back(draft.tokens.back());
    }
    return draft;
  };
}

struct Generation {
  const ToyModel& target;
  SamplingParams params;
  VerifyRule rule = VerifyRule::kMatch;
  int32_t draft_tokens = 3;
  double threshold = 0;
  Tokens prompt = {0};
  Tokens eos = {};

  // Rounds until `count` tokens are there. The last round may commit more; they are cut, as
  // max_tokens cuts them.
  Tokens Run(NoiseKey noise, int32_t count, const Proposer& propose) const {
    LogitProcessor processor(params, prompt, eos);
    Tokens text = prompt;
    Distribution p;
    while (static_cast<int32_t>(text.size() - prompt.size()) < count) {
      const auto anchor = static_cast<int64_t>(text.size()) - 1;
      const Draft draft = propose(text, noise, anchor + 1, draft_tokens);
      const auto length = static_cast<size_t>(TrimLength(
          PreTokenConfidence(draft), static_cast<int32_t>(draft.tokens.size()), threshold));
      const auto verified = std::span(draft.tokens).first(length);
      const auto row = [&](int32_t k) -> const Distribution& {
        const auto prefix = verified.first(static_cast<size_t>(k));
        Tokens context = text;
        context.insert(context.end(), prefix.begin(), prefix.end());
        std::vector<float> logits = target.Logits(context);
        processor.Process(prefix, logits);
        p = MakeDistribution(logits, params);
        return p;
      };
      const Verdict v = Verify(
          rule, {verified, std::span(draft.probs).first(std::min(length, draft.probs.size())), row,
                 noise, anchor});
      Tokens committed(verified.begin(), verified.begin() + v.accepted);
      committed.push_back(v.next_token);
      for (int32_t token : committed) processor.Commit(token);
      text.insert(text.end(), committed.begin(), committed.end());
    }
    return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()),
            text.begin() + static_cast<std::ptrdiff_t>(prompt.size()) + count};
  }
};

}  // namespace firesteel
