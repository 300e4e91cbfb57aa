#include "sampling/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sampling/params.h"

namespace firesteel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t id = 0;
  float logit = 0;
  float weight = 0;  // probability over that of the most likely token
};

bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

// Cuts to the smallest set of most likely tokens that holds `top_p` of the weight. Sorts only as
// far as it must; the order of additions is that of a full sort all the same.
void KeepTopP(double top_p, std::vector<Candidate>* candidates) {
  const double enough = top_p * TotalWeight(*candidates);
  const auto begin = candidates->begin();
  size_t sorted = 0;
  double sum = 0;
  for (size_t chunk = 64; sorted < candidates->size(); chunk *= 4) {
    const size_t end = std::min(sorted + chunk, candidates->size());
    const auto from = begin + static_cast<std::ptrdiff_t>(sorted);
    const auto to = begin + static_cast<std::ptrdiff_t>(end);
    if (to != candidates->end()) std::nth_element(from, to, candidates->end(), MoreLikely);
    std::sort(from, to, MoreLikely);
    for (; sorted < end; ++sorted) {
      sum += (*candidates)[sorted].weight;
      if (sum >= enough) {
        candidates->resize(sorted + 1);
        return;
      }
    }
  }
}

}  // namespace

float Distribution::Prob(int32_t token) const {
  const auto it = std::ranges::lower_bound(ids, token);
  return it != ids.end() && *it == token ? probs[static_cast<size_t>(it - ids.begin())] : 0.0f;
}

int32_t ArgMax(std::span<const float> logits) {
  FS_DCHECK(!logits.empty());
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    // Written so that NaN loses: a comparison with it is false.
    if (best < 0 ? !std::isnan(logits[i]) : logits[i] > logits[static_cast<size_t>(best)]) {
      best = static_cast<int32_t>(i);
    }
  }
  return std::max(best, 0);
}

Distribution MakeDistribution(std::span<const float> logits, const SamplingParams& params) {
  const int32_t best = ArgMax(logits);
  const float max = logits[static_cast<size_t>(best)];
  if (IsGreedy(params) || !std::isfinite(max)) return Distribution::OneHot(best);

  const double inverse_temperature = 1.0 / params.temperature;
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > -kInfinity)) continue;
    const double scaled = (static_cast<double>(logits[i]) - max) * inverse_temperature;
    if (scaled < -150) continue;  // no float32 below that
    const float weight = std::exp(static_cast<float>(scaled));
    if (weight > 0 && weight >= params.min_p) {
      candidates.push_back({static_cast<int32_t>(i), logits[i], weight});
    }
  }

  bool reordered = false;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + params.top_k, candidates.end(),
                     MoreLikely);
    candidates.resize(static_cast<size_t>(params.top_k));
    reordered = true;
  }
  if (params.top_p < 1) {
    // nth_element leaves an order that the standard does not fix; the total must not depend on it.
    if (reordered) std::ranges::sort(candidates, {}, &Candidate::id);
    KeepTopP(params.top_p, &candidates);
    reordered = true;
  }
  if (reordered) std::ranges::sort(candidates, {}, &Candidate::id);

  const double total = TotalWeight(candidates);
  Distribution d;
  d.ids.reserve(candidates.size());
  d.probs.reserve(candidates.size());
  for (const Candidate& c : candidates) {
    const auto p = static_cast<float>(c.weight / total);
    if (p <= 0) continue;
    d.ids.push_back(c.id);
    d.probs.push_back(p);
  }
  return d;
}

int32_t SampleWithNoise(const Distribution& d, NoiseKey key, int64_t position,
                        NoisePurpose purpose) {
  FS_DCHECK(!d.ids.empty() && d.ids.size() == d.probs.size());
  if (d.ids.size() == 1) return d.ids[0];
  int32_t winner = d.ids[0];
  double best = std::numeric_limits<double>::infinity();
  int32_t quad = -1;
  std::array<uint32_t, 4> lanes{};
  for (size_t i = 0; i < d.ids.size(); ++i) {
    const int32_t id = d.ids[i];
    if (id / 4 != quad) {
      quad = id / 4;
      lanes = NoiseLanes(key, position, purpose, quad);
    }
    const double u = UniformFromLane(lanes[static_cast<size_t>(id % 4)]);
    const double p = d.probs[i];
    // -log u > 1 - u by far more than a rounding, so the bound rules out nearly all before their
    // logarithm is taken.
    if ((1.0 - u) / p >= best) continue;
    const double arrival = -std::log(u) / p;
    if (arrival < best) {
      best = arrival;
      winner = id;
    }
  }
  return winner;
}

TokenLogprob RawLogprob(std::span<const float> logits, int32_t token, int32_t count) {
  const float max = logits[static_cast<size_t>(ArgMax(logits))];
  double sum = 0;
  std::vector<std::pair<int32_t, float>> top;
  const auto keep = std::min(static_cast<size_t>(std::max(count, 0)), logits.size());
  top.reserve(keep + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit)) continue;
    sum += std::exp(static_cast<double>(logit) - max);
    if (keep == 0 || (top.size() == keep && logit <= top.back().second)) continue;
    // Behind its equals: they have lower ids.
    const auto at = std::ranges::upper_bound(top, logit, std::greater<>(),
                                             [](const auto& entry) { return entry.second; });
    top.insert(at, {static_cast<int32_t>(i), logit});
    if (top.size() > keep) top.pop_back();
  }
  const double log_sum = max + std::log(sum);
  const auto logprob = [&](float logit) {
    // No probabilities to speak of (all -inf, or an overflow): the argmax is certain, as it is for
    // sampling.
    if (!std::isfinite(log_sum)) return logit == max ? 0.0f : -kInfinity;
    return static_cast<float>(logit - log_sum);
  };
  for (auto& [id, value] : top) value = logprob(value);
  return {token, logprob(logits[static_cast<size_t>(token)]), std::move(top)};
}

}  // namespace firesteel
