// Where the end of a text has occurred before, and what came next: what a suffix tree answers, from
// chains of hashed n-grams. A text may grow at its end, and the oldest texts can be dropped; both
// cost a constant time for each token, and an entry some 50 bytes, whatever the texts repeat (the
// nodes of a depth-limited suffix tree are as many as tokens times depth where long texts repeat).
//
// One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace firesteel {

// What followed, most likely first, and the chance of each token where those before it came true:
// its share among the occurrences that went that way.
struct SuffixDraft {
  int32_t match_length = 0;  // tokens at the end of the context that had occurred before; 0: none
  std::vector<int32_t> tokens;
  std::vector<float> chances;

  double ExpectedAccepted() const;
};

struct SuffixLimits {
  int32_t max_depth = 24;       // longest match that is told apart, and longest draft
  double max_spec_factor = 1;   // tokens drafted for each one that matches
  double min_token_prob = 0.1;  // of the whole path to a token
};

class SuffixIndex {
  // N-grams of these lengths have chains.
  static constexpr std::array<int32_t, 3> kLengths = {1, 3, 8};
  static constexpr int32_t kBorder = -1;
  struct Entry {
    int32_t token = kBorder;
    // How far back the last n-gram of the same hash ended; 0: none.
    std::array<uint32_t, kLengths.size()> back = {};
  };

 public:
  explicit SuffixIndex(uint64_t hash_seed) : hash_seed_(hash_seed) {}

  // Appends to the last text.
  void Append(int32_t token);
  // Ends the last text: what is appended next is another, and no match reaches over the border.
  void EndText();
  // Forgets the oldest `count` positions (borders count as one). Matches end there.
  void DropFront(int64_t count);

  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }  // position of what is appended next
  int32_t token(int64_t position) const { return At(position).token; }
  int64_t bytes() const { return BytesFor(static_cast<int64_t>(entries_.size())); }
  // What an index of this many positions takes at least.
  static int64_t BytesFor(int64_t positions) {
    return positions * static_cast<int64_t>(sizeof(Entry) + kLengths.size() * sizeof(int64_t));
  }

  // The best guess at up to `max_tokens` tokens behind `context`: of the matches that each kept
  // length gives, the one that promises most. `context` may be the last text of the index itself.
  SuffixDraft Find(std::span<const int32_t> context, const SuffixLimits& limits,
                   int32_t max_tokens) const;

 private:
  struct Occurrence {
    int64_t next = 0;    // position behind the match
    int32_t length = 0;  // of the match, at most max_depth
  };

  const Entry& At(int64_t position) const {
    return entries_[static_cast<size_t>(position) & (entries_.size() - 1)];
  }
  size_t Bucket(size_t level, uint64_t hash) const;
  void Link(int64_t position);
  void Resize(size_t capacity);
  int32_t MatchLength(int64_t last, std::span<const int32_t> context, int32_t most) const;
  std::vector<Occurrence> Occurrences(size_t level, std::span<const int32_t> context,
                                      int32_t max_depth) const;
  SuffixDraft Expand(std::span<const Occurrence> occurrences, int32_t match_length,
                     const SuffixLimits& limits, int32_t max_tokens) const;

  uint64_t hash_seed_;
  int64_t begin_ = 0, end_ = 0;
  int32_t text_length_ = 0;     // of the last text, as far as it is kept
  std::vector<Entry> entries_;  // a ring; a power of two
  std::array<std::vector<int64_t>, kLengths.size()> heads_;  // by hash: last position + 1; 0: none
};

}  // namespace firesteel
