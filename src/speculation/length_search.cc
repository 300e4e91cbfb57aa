#include "speculation/length_search.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace firesteel {

void ConditionalChances::Clear() {
  values_.clear();
  begin_.assign(1, 0);
}

void ConditionalChances::Add(std::span<const float> conditional) {
  for (const float c : conditional) {
    if (!(c > 0)) break;
    values_.push_back(std::min(c, 1.0f));
  }
  begin_.push_back(values_.size());
}

void SelectionFreeChances::AddUnsampled(PreTokenConfidence calibrated, bool one_hot, bool matched) {
  FS_CHECK(one_hot || matched, "a sampled draft under the rejection rule may not be searched");
  Add(calibrated.values());
}

// Candidates enter by length, then by draft from `turn` on, and a stable sort keeps that among
// equals: a chance of 1 leaves beginnings whole.
void LengthSearch::Order(const ConditionalChances& chances, int64_t turn) {
  candidates_.clear();
  const int64_t drafts = chances.NumDrafts();
  size_t longest = 0;
  for (int64_t d = 0; d < drafts; ++d) longest = std::max(longest, chances.Of(d).size());
  std::vector<float>& survival = survival_;
  survival.assign(static_cast<size_t>(drafts), 1.0f);
  for (size_t j = 0; j < longest; ++j) {
    for (int64_t i = 0; i < drafts; ++i) {
      const int64_t d = (i + turn) % drafts;
      const std::span<const float> of = chances.Of(d);
      if (j >= of.size()) continue;
      float& a = survival[static_cast<size_t>(d)];
      a *= of[j];
      if (!(a > 0)) continue;  // it became too small for a float32
      candidates_.push_back(
          {std::bit_cast<uint32_t>(a), static_cast<int32_t>(d), static_cast<int32_t>(j + 1)});
    }
  }
  // Positive floats order as their bits do; eleven bits at a time, from the lowest.
  for (int shift = 0; shift < 32; shift += 11) {
    std::array<uint32_t, 2048> begin{};
    for (const Candidate& c : candidates_) ++begin[~(c.key >> shift) & 2047];
    uint32_t sum = 0;
    for (uint32_t& b : begin) sum += std::exchange(b, sum);
    swap_.resize(candidates_.size());
    for (const Candidate& c : candidates_) swap_[begin[~(c.key >> shift) & 2047]++] = c;
    candidates_.swap(swap_);
  }
}

void LengthSearch::Take(int64_t count, const ConditionalChances& chances,
                        const CertainWork& certain, LengthChoice* choice) const {
  choice->lengths.assign(static_cast<size_t>(chances.NumDrafts()), 0);
  choice->draft_tokens = count;
  choice->tokens = certain.tokens;
  for (int64_t i = 0; i < count; ++i) {
    const Candidate& c = candidates_[static_cast<size_t>(i)];
    int32_t& length = choice->lengths[static_cast<size_t>(c.draft)];
    FS_DCHECK(c.length == length + 1);
    length = c.length;
    choice->tokens += std::bit_cast<float>(c.key);
  }
}

void LengthSearch::Best(const SelectionFreeChances& chances, const CertainWork& certain,
                        StepSeconds seconds, int64_t turn, LengthChoice* choice) {
  Order(chances, turn);
  double tokens = certain.tokens;
  double best = tokens / seconds(certain.rows);
  int64_t count = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    tokens += std::bit_cast<float>(candidates_[i].key);
    const auto taken = static_cast<int64_t>(i) + 1;
    const double rate = tokens / seconds(certain.rows + taken);
    if (rate <= best) continue;
    best = rate;
    count = taken;
  }
  Take(count, chances, certain, choice);
}

void LengthSearch::Causal(const PreTokenChances& chances, const CertainWork& certain,
                          StepSeconds seconds, int64_t turn, LengthChoice* choice) {
  Order(chances, turn);
  double tokens = certain.tokens;
  double best = tokens / seconds(certain.rows);
  size_t count = 0;
  for (; count < candidates_.size(); ++count) {
    tokens += std::bit_cast<float>(candidates_[count].key);
    const double rate = tokens / seconds(certain.rows + static_cast<int64_t>(count) + 1);
    if (rate <= best) break;
    best = rate;
  }
  Take(static_cast<int64_t>(count), chances, certain, choice);
}

void LengthSearch::Top(const ConditionalChances& chances, const CertainWork& certain, int64_t count,
                       int64_t turn, LengthChoice* choice) {
  Order(chances, turn);
  Take(std::min(count, static_cast<int64_t>(candidates_.size())), chances, certain, choice);
}

}  // namespace firesteel
