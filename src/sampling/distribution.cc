#include "sampling/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sampling/params.h"

namespace firesteel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Candidate = DistributionScratch::Candidate;

bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

// What top-p keeps for sure: the tokens that weigh `least` or more, `weight` together.
struct Sure {
  float least = kInfinity;
  double weight = 0;
};

// Cuts to the smallest set of most likely tokens that holds `enough` of the weight, in the order of
// `candidates`. Sorts only what is not sure, and that only as far as it must.
void KeepTopP(double enough, const Sure& sure, DistributionScratch* s) {
  std::vector<Candidate>& unsure = s->unsure;
  unsure.clear();
  for (const Candidate& c : s->candidates) {
    if (c.weight < sure.least) unsure.push_back(c);
  }
  size_t sorted = 0;
  double sum = sure.weight;
  for (size_t chunk = 64; sorted < unsure.size(); chunk *= 4) {
    const size_t end = std::min(sorted + chunk, unsure.size());
    const auto from = unsure.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto to = unsure.begin() + static_cast<std::ptrdiff_t>(end);
    if (to != unsure.end()) std::nth_element(from, to, unsure.end(), MoreLikely);
    std::sort(from, to, MoreLikely);
    for (; sorted < end; ++sorted) {
      sum += unsure[sorted].weight;
      if (sum < enough) continue;
      const Candidate last = unsure[sorted];
      std::erase_if(s->candidates, [&](const Candidate& c) { return MoreLikely(last, c); });
      return;
    }
  }
}

// The tokens that top-k can keep, with their weights: all that reach a threshold which at least
// top_k of them reach.
void GatherTop(std::span<const float> logits, float max, const SamplingParams& params,
               DistributionScratch* s) {
  s->weights.resize(logits.size());
  s->ids.resize(logits.size());
  const float threshold = ThresholdOfTop(logits, params.top_k, s->weights);
  const auto count = static_cast<size_t>(SelectAtLeast(logits, threshold, s->ids.data()));
  s->candidates.clear();
  for (size_t i = 0; i < count; ++i) {
    const int32_t id = s->ids[i];
    s->candidates.push_back({id, logits[static_cast<size_t>(id)], 0});
  }
  const auto k = static_cast<size_t>(params.top_k);
  if (count > k) {
    std::nth_element(s->candidates.begin(), s->candidates.begin() + params.top_k,
                     s->candidates.end(), MoreLikely);
    s->candidates.resize(k);
  }
  // nth_element leaves an order that the standard does not fix; sums must not depend on it.
  std::ranges::sort(s->candidates, {}, &Candidate::id);
  std::vector<float>& few = s->weights;  // logits, then weights, of the candidates
  for (size_t i = 0; i < s->candidates.size(); ++i) few[i] = s->candidates[i].logit;
  const std::span<float> part(few.data(), s->candidates.size());
  ExpWeights(part, max, static_cast<float>(1.0 / params.temperature), part);
  for (size_t i = 0; i < s->candidates.size(); ++i) s->candidates[i].weight = few[i];
  const auto least = static_cast<float>(params.min_p);
  std::erase_if(s->candidates,
                [&](const Candidate& c) { return c.weight <= 0 || c.weight < least; });
}

struct Weighed {
  float threshold;  // of the weights that min-p keeps
  double total;     // of those
};

// The weights of the whole vocabulary, into s->weights.
Weighed Weigh(std::span<const float> logits, float max, const SamplingParams& params,
              DistributionScratch* s) {
  s->weights.resize(logits.size());
  ExpWeights(logits, max, static_cast<float>(1.0 / params.temperature), s->weights);
  const float threshold =
      std::max(static_cast<float>(params.min_p), std::numeric_limits<float>::min());
  return {threshold, SumAtLeast(s->weights, threshold)};
}

// Neither top-k nor top-p: nothing has to be put in order.
void KeepByWeight(std::span<const float> logits, float max, const SamplingParams& params,
                  DistributionScratch* s, Distribution* out) {
  const auto [threshold, total] = Weigh(logits, max, params, s);
  out->ids.resize(logits.size());
  out->ids.resize(static_cast<size_t>(SelectAtLeast(s->weights, threshold, out->ids.data())));
  out->probs.resize(out->ids.size());
  const double scale = 1 / total;
  for (size_t i = 0; i < out->ids.size(); ++i) {
    // Below a normal float32 a token is as good as impossible, but it is in the support.
    const double p = s->weights[static_cast<size_t>(out->ids[i])] * scale;
    out->probs[i] = std::max(static_cast<float>(p), std::numeric_limits<float>::min());
  }
}

constexpr int kBisections = 10;
constexpr size_t kFewUnsure = 2048;

// Positive floats order as their bits do.
float HalfWay(float low, float high) {
  const auto a = std::bit_cast<uint32_t>(low), b = std::bit_cast<uint32_t>(high);
  return std::bit_cast<float>(a + (b - a) / 2);
}

size_t Select(float threshold, DistributionScratch* s) {
  s->ids.resize(s->weights.size());
  return static_cast<size_t>(SelectAtLeast(s->weights, threshold, s->ids.data()));
}

// Without top-k: the tokens that min-p keeps and top-p can keep. `*total`: the weight of all that
// min-p keeps.
Sure GatherByWeight(std::span<const float> logits, float max, const SamplingParams& params,
                    DistributionScratch* s, double* total) {
  const Weighed weighed = Weigh(logits, max, params, s);
  *total = weighed.total;
  const double enough = params.top_p * *total;
  float low = weighed.threshold;
  Sure sure;
  for (float cut = 0.0625f; params.top_p < 1 && cut > low; cut *= 0.0625f) {
    // A hair more than enough, for the sum of the sorted is rounded differently.
    const double weight = SumAtLeast(s->weights, cut);
    if (weight < enough * 1.0001) {
      if (weight < enough) sure = {cut, weight};
      continue;
    }
    low = cut;
    break;
  }
  size_t count = Select(low, s);
  // Sorting many, of a flat distribution, would take longer than summing them again and again.
  while (params.top_p < 1 && count > kFewUnsure) {
    const float before_low = low, before_least = sure.least;
    for (int i = 0; i < kBisections; ++i) {
      const float middle = HalfWay(low, std::min(sure.least, 2.0f));
      if (middle == low) break;
      const double weight = SumAtLeast(s->weights, middle);
      if (weight < enough) {
        sure = {middle, weight};
      } else if (weight >= enough * 1.0001) {
        low = middle;
      } else {
        break;
      }
    }
    count = Select(low, s) - Select(sure.least, s);
    if (low == before_low && sure.least == before_least) break;  // equals, in order of their ids
  }
  count = Select(low, s);
  s->candidates.clear();
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<size_t>(s->ids[i]);
    s->candidates.push_back({s->ids[i], logits[id], s->weights[id]});
  }
  return sure;
}

}  // namespace

float Distribution::Prob(int32_t token) const {
  const auto it = std::ranges::lower_bound(ids, token);
  return it != ids.end() && *it == token ? probs[static_cast<size_t>(it - ids.begin())] : 0.0f;
}

void MakeDistribution(std::span<const float> logits, const SamplingParams& params,
                      DistributionScratch* scratch, Distribution* out) {
  const int32_t best = ArgMax(logits);
  const float max = logits[static_cast<size_t>(best)];
  out->ids.clear();
  out->probs.clear();
  if (IsGreedy(params) || !std::isfinite(max)) {
    out->ids.push_back(best);
    out->probs.push_back(1.0f);
    return;
  }

  scratch->candidates.reserve(logits.size());
  scratch->unsure.reserve(logits.size());
  if (params.top_k <= 0 && params.top_p >= 1) {
    KeepByWeight(logits, max, params, scratch, out);
    return;
  }
  const std::vector<Candidate>& candidates = scratch->candidates;
  double total = 0;
  Sure sure;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size()) {
    GatherTop(logits, max, params, scratch);
    total = TotalWeight(candidates);
  } else {
    sure = GatherByWeight(logits, max, params, scratch, &total);
  }
  if (params.top_p < 1) KeepTopP(params.top_p * total, sure, scratch);

  total = TotalWeight(candidates);
  for (const Candidate& c : candidates) {
    const auto p = static_cast<float>(c.weight / total);
    if (p <= 0) continue;
    out->ids.push_back(c.id);
    out->probs.push_back(p);
  }
}

Distribution MakeDistribution(std::span<const float> logits, const SamplingParams& params) {
  DistributionScratch scratch;
  Distribution out;
  MakeDistribution(logits, params, &scratch, &out);
  return out;
}

namespace {

// The race that SampleWithNoise is, run over the support in ascending order of ids.
class Race {
 public:
  Race(NoiseKey key, int64_t position, NoisePurpose purpose)
      : key_(key), position_(position), purpose_(purpose) {}

  int32_t winner() const { return winner_; }
  double best() const { return best_; }

  void Enter(int32_t id, float prob, uint32_t word) {
    const double u = UniformFromLane(word);
    // -log u > 1 - u by far more than a rounding, so the bound rules out nearly all before their
    // logarithm is taken.
    if ((1.0 - u) / prob >= best_) return;
    const double arrival = -std::log(u) / prob;
    if (arrival < best_) {
      best_ = arrival;
      winner_ = id;
    }
  }

  void Enter(int32_t id, float prob) {
    if (id / 4 != quad_) {
      quad_ = id / 4;
      lanes_ = NoiseLanes(key_, position_, purpose_, quad_);
    }
    Enter(id, prob, lanes_[static_cast<size_t>(id % 4)]);
  }

 private:
  NoiseKey key_;
  int64_t position_;
  NoisePurpose purpose_;
  int32_t winner_ = -1;
  double best_ = std::numeric_limits<double>::infinity();
  int32_t quad_ = -1;
  std::array<uint32_t, 4> lanes_{};
};

constexpr int32_t kRaceBlock = 1024;  // ids whose noise is made at once where all of them run

}  // namespace

int32_t SampleWithNoise(const Distribution& d, NoiseKey key, int64_t position,
                        NoisePurpose purpose) {
  FS_DCHECK(!d.ids.empty() && d.ids.size() == d.probs.size());
  if (d.ids.size() == 1) return d.ids[0];
  Race race(key, position, purpose);
  uint32_t words[kRaceBlock];
  int32_t passed[kRaceBlock];
  for (size_t i = 0; i < d.ids.size();) {
    const int32_t first = d.ids[i];
    const size_t last = i + kRaceBlock - 1;
    if (first % 4 != 0 || last >= d.ids.size() || d.ids[last] != first + kRaceBlock - 1) {
      race.Enter(first, d.probs[i]);
      ++i;
      continue;
    }
    NoiseRange(key, position, purpose, first / 4, kRaceBlock / 4, words);
    const std::span<const float> probs(d.probs.data() + i, kRaceBlock);
    const int64_t count = MayArriveBefore(words, probs, race.best(), passed);
    for (int64_t c = 0; c < count; ++c) {
      const int32_t at = passed[c];
      race.Enter(first + at, probs[static_cast<size_t>(at)], words[at]);
    }
    i += kRaceBlock;
  }
  return race.winner();
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
