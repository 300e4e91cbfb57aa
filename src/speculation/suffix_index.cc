#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "speculation/suffix_index_internal.h"

namespace firesteel {
namespace {

// Occurrences of an n-gram that are looked at, the last ones first, and steps along a chain, in
// which others of the same hash stand between.
constexpr size_t kMostOccurrences = 128;
constexpr int32_t kMostSteps = 512;
constexpr size_t kSmallest = 64;

uint64_t Extend(uint64_t hash, int32_t token) {
  const uint64_t h = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 32;
}

}  // namespace

double SuffixDraft::ExpectedAccepted() const {
  double sum = 0, path = 1;
  for (const float chance : chances) sum += path *= chance;
  return sum;
}

size_t SuffixIndex::Bucket(size_t level, uint64_t hash) const {
  return hash & (heads_[level].size() - 1);
}

// Files the n-grams that end at `position`, the last that is filed.
void SuffixIndex::Link(int64_t position) {
  Entry& entry = entries_[static_cast<size_t>(position) & (entries_.size() - 1)];
  uint64_t hash = hash_seed_;
  size_t level = 0;
  for (int32_t n = 1; n <= text_length_ && level < kLengths.size(); ++n) {
    hash = Extend(hash, At(position - n + 1).token);
    if (n < kLengths[level]) continue;
    int64_t& head = heads_[level][Bucket(level, hash)];
    const int64_t back = position - (head - 1);
    const bool reachable = head > 0 && head - 1 >= begin_ && back <= UINT32_MAX;
    entry.back[level++] = reachable ? static_cast<uint32_t>(back) : 0;
    head = position + 1;
  }
}

void SuffixIndex::Append(int32_t token) {
  FS_DCHECK(token >= 0);
  if (end_ - begin_ == static_cast<int64_t>(entries_.size())) {
    Resize(std::max(kSmallest, 2 * entries_.size()));
  }
  entries_[static_cast<size_t>(end_) & (entries_.size() - 1)] = {token, {}};
  ++text_length_;
  Link(end_++);
}

void SuffixIndex::EndText() {
  if (text_length_ == 0) return;
  if (end_ - begin_ == static_cast<int64_t>(entries_.size())) Resize(2 * entries_.size());
  entries_[static_cast<size_t>(end_++) & (entries_.size() - 1)] = {};
  text_length_ = 0;
}

void SuffixIndex::DropFront(int64_t count) {
  begin_ = std::min(begin_ + count, end_);
  text_length_ = static_cast<int32_t>(std::min<int64_t>(text_length_, end_ - begin_));
  const auto kept = static_cast<size_t>(end_ - begin_);
  if (entries_.size() > kSmallest && kept < entries_.size() / 4) Resize(entries_.size() / 2);
}

// Positions stay what they are; the chains are made anew.
void SuffixIndex::Resize(size_t capacity) {
  std::vector<Entry> old(capacity);
  old.swap(entries_);
  for (auto& heads : heads_) heads.assign(capacity, 0);
  const int32_t length = text_length_;
  text_length_ = 0;
  for (int64_t p = begin_; p < end_; ++p) {
    const int32_t token = old[static_cast<size_t>(p) & (old.size() - 1)].token;
    entries_[static_cast<size_t>(p) & (capacity - 1)] = {token, {}};
    text_length_ = token == kBorder ? 0 : text_length_ + 1;
    if (token != kBorder) Link(p);
  }
  text_length_ = length;
}

int32_t SuffixIndex::MatchLength(int64_t last, std::span<const int32_t> context,
                                 int32_t most) const {
  int32_t n = 0;
  while (n < most && last - n >= begin_ &&
         At(last - n).token == context[context.size() - 1 - static_cast<size_t>(n)]) {
    ++n;
  }
  return n;
}

// The last ones of those that match at least the level's n-gram, in order of their place.
std::vector<SuffixIndex::Occurrence> SuffixIndex::Occurrences(size_t level,
                                                              std::span<const int32_t> context,
                                                              int32_t max_depth) const {
  std::vector<Occurrence> found;
  const int32_t n = kLengths[level];
  const auto most = static_cast<int32_t>(std::min<size_t>(context.size(), max_depth));
  if (n > most || heads_[level].empty()) return found;
  uint64_t hash = hash_seed_;
  for (int32_t i = 0; i < n; ++i) {
    hash = Extend(hash, context[context.size() - 1 - static_cast<size_t>(i)]);
  }
  int64_t last = heads_[level][Bucket(level, hash)] - 1;
  for (int32_t step = 0; last >= begin_ && step < kMostSteps; ++step) {
    // What stands at the very end has no token behind it: the context itself, as a rule.
    if (last + 1 < end_) {
      const int32_t length = MatchLength(last, context, most);
      if (length >= n) found.push_back({last + 1, length});
      if (found.size() == kMostOccurrences) break;
    }
    const uint32_t back = At(last).back[level];
    if (back == 0) break;
    last -= back;
  }
  return found;
}

// Follows the majority. A match that overlaps the end of the text means a repetition, which goes on
// beyond it.
SuffixDraft SuffixIndex::Expand(std::span<const Occurrence> occurrences, int32_t match_length,
                                const SuffixLimits& limits, int32_t max_tokens) const {
  SuffixDraft draft;
  draft.match_length = match_length;
  std::vector<int64_t> going;
  for (const Occurrence& o : occurrences) {
    if (o.length >= match_length) going.push_back(o.next);
  }
  const double by_match = limits.max_spec_factor * match_length;
  const auto most = static_cast<int32_t>(
      std::min({static_cast<double>(max_tokens), static_cast<double>(limits.max_depth),
                std::max(1.0, std::floor(by_match))}));
  const auto token_at = [&](int64_t p) {
    if (p < end_) return At(p).token;
    const auto beyond = static_cast<size_t>(p - end_);
    return beyond < draft.tokens.size() ? draft.tokens[beyond] : kBorder;
  };
  double path = 1;
  std::vector<std::pair<int32_t, int32_t>> counts;  // token, how often
  while (static_cast<int32_t>(draft.tokens.size()) < most && !going.empty()) {
    counts.clear();
    for (const int64_t p : going) {
      const int32_t token = token_at(p);
      if (token == kBorder) continue;
      const auto it = std::ranges::find(counts, token, &std::pair<int32_t, int32_t>::first);
      if (it != counts.end()) {
        ++it->second;
      } else {
        counts.emplace_back(token, 1);
      }
    }
    if (counts.empty()) break;
    // The first of equals is the one that occurred last.
    const auto best = std::ranges::max_element(counts, {}, &std::pair<int32_t, int32_t>::second);
    const double chance = best->second / static_cast<double>(going.size());
    path *= chance;
    if (path < limits.min_token_prob) break;
    std::erase_if(going, [&](int64_t p) { return token_at(p) != best->first; });
    for (int64_t& p : going) ++p;
    draft.tokens.push_back(best->first);
    draft.chances.push_back(static_cast<float>(chance));
  }
  return draft;
}

SuffixDraft SuffixIndex::Find(std::span<const int32_t> context, const SuffixLimits& limits,
                              int32_t max_tokens) const {
  SuffixDraft best;
  int32_t tried = INT32_MAX;
  for (size_t level = kLengths.size(); level-- > 0;) {
    const std::vector<Occurrence> found = Occurrences(level, context, limits.max_depth);
    if (found.empty()) continue;
    // The longest match, and all that share the n-gram.
    const int32_t longest = std::ranges::max_element(found, {}, &Occurrence::length)->length;
    for (const int32_t length : {longest, kLengths[level]}) {
      if (length >= tried) continue;
      tried = length;
      SuffixDraft draft = Expand(found, length, limits, max_tokens);
      if (draft.ExpectedAccepted() > best.ExpectedAccepted()) best = std::move(draft);
    }
  }
  return best;
}

}  // namespace firesteel
