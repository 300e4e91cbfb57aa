// Prompt lookup: what followed the last tokens the last time they
// occurred in this request.
//
// Each sequence has an index of its own tokens and of nobody else's, so no text can pass from one
// request to another.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/option_map.h"
#include "base/rng.h"
#include "speculation/make_internal.h"

namespace firesteel {
namespace {

constexpr std::string_view kWhere = "speculative config";
constexpr int64_t kMaxNgram = 64;
constexpr int64_t kMaxDraft = 64;

struct NgramOptions {
  int32_t max_ngram = 4;
  int32_t min_ngram = 2;
  int32_t max_tokens = 8;
  // Where every hash begins. Random, so that nobody outside can prepare a prompt whose n-grams all
  // collide and make the step wait for the probing.
  uint64_t hash_seed = 0;
};

// Where each n-gram of one length ended last. Open addressing over positions alone: the tokens
// themselves tell n-grams apart, so a collision is never a match, and an entry costs 8 to 16 bytes.
class NgramTable {
 public:
  NgramTable(int32_t n, uint64_t hash_seed) : n_(static_cast<size_t>(n)), hash_seed_(hash_seed) {}

  // The last position recorded for the n-gram that ends at `end`, or -1.
  int32_t Find(std::span<const int32_t> tokens, size_t end, uint64_t hash) const {
    return ends_.empty() ? -1 : ends_[Probe(tokens, end, hash)];
  }

  void Record(std::span<const int32_t> tokens, size_t end, uint64_t hash) {
    if (2 * (used_ + 1) > ends_.size()) Grow(tokens);
    int32_t& entry = ends_[Probe(tokens, end, hash)];
    used_ += entry < 0 ? 1 : 0;
    entry = static_cast<int32_t>(end);
  }

  uint64_t Hash(std::span<const int32_t> tokens, size_t end) const {
    uint64_t h = hash_seed_;
    for (size_t i = 0; i < n_; ++i) h = Extend(h, tokens[end - i]);
    return h;
  }
  // Of an n-gram from that of its last n - 1 tokens, so that all lengths at one position cost a
  // single pass.
  static uint64_t Extend(uint64_t hash, int32_t token) {
    const uint64_t h = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
  }

 private:
  // The entry of this n-gram, or the empty one where it belongs. REQUIRES: not full.
  size_t Probe(std::span<const int32_t> tokens, size_t end, uint64_t hash) const {
    const size_t mask = ends_.size() - 1;
    const auto ngram = tokens.subspan(end + 1 - n_, n_);
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      if (ends_[i] < 0) return i;
      if (std::ranges::equal(tokens.subspan(static_cast<size_t>(ends_[i]) + 1 - n_, n_), ngram)) {
        return i;
      }
    }
  }

  void Grow(std::span<const int32_t> tokens) {
    std::vector<int32_t> old(std::max<size_t>(16, 2 * ends_.size()), -1);
    old.swap(ends_);
    for (int32_t end : old) {
      if (end < 0) continue;
      const auto at = static_cast<size_t>(end);
      ends_[Probe(tokens, at, Hash(tokens, at))] = end;
    }
  }

  size_t n_;
  uint64_t hash_seed_;
  size_t used_ = 0;
  std::vector<int32_t> ends_;  // a power of two; -1: empty
};

class SequenceIndex {
 public:
  explicit SequenceIndex(const NgramOptions& options) : options_(options) {
    for (int32_t n = options.min_ngram; n <= options.max_ngram; ++n) {
      tables_.emplace_back(n, options.hash_seed);
    }
  }

  // `tokens` continue those of the last call. A slot that now holds another text begins again.
  void Follow(std::span<const int32_t> tokens) {
    if (!Continues(tokens)) *this = SequenceIndex(options_);
    tokens_.insert(tokens_.end(), tokens.begin() + static_cast<std::ptrdiff_t>(tokens_.size()),
                   tokens.end());
    // The n-grams of the last token stay out: they would find themselves.
    for (; recorded_ + 1 < tokens_.size(); ++recorded_) {
      ForEachLength(recorded_, [&](NgramTable& table, uint64_t hash) {
        table.Record(tokens_, recorded_, hash);
        return true;
      });
    }
  }

  Draft Lookup(int32_t max_tokens) {
    Draft draft;
    if (tokens_.empty()) return draft;
    const size_t last = tokens_.size() - 1;
    int32_t end = -1;
    ForEachLength(last, [&](NgramTable& table, uint64_t hash) {
      const int32_t found = table.Find(tokens_, last, hash);
      if (found >= 0) end = found;  // the longest wins, and the lengths come in ascending order
      return found >= 0;            // nothing longer can occur where this does not
    });
    if (end < 0) return draft;
    draft.confidence.assign(1, Confidence(static_cast<size_t>(end), last));
    // A match that overlaps the suffix means a repetition, which goes on beyond the end of the
    // text.
    const auto next = static_cast<size_t>(end) + 1;
    for (size_t i = 0; i < static_cast<size_t>(std::min(max_tokens, options_.max_tokens)); ++i) {
      const size_t from = next + i;
      draft.tokens.push_back(from <= last ? tokens_[from] : draft.tokens[from - last - 1]);
    }
    draft.confidence.resize(draft.tokens.size(), draft.confidence[0]);
    return draft;
  }

 private:
  // The longer the match, the likelier that it goes on. How likely is for others to find out
  // (AcceptanceModel): odds of one to one for each token that matches.
  float Confidence(size_t end, size_t last) const {
    constexpr size_t kMost = 64;
    size_t match = 0;
    while (match < kMost && match <= end && tokens_[end - match] == tokens_[last - match]) ++match;
    return static_cast<float>(match) / static_cast<float>(match + 1);
  }

  // Comparing everything would cost the length at every step. A slot is told to Forget before it is
  // reused; this catches a caller who did not.
  bool Continues(std::span<const int32_t> tokens) const {
    constexpr size_t kLook = 16;
    if (tokens.size() < tokens_.size()) return false;
    const size_t n = std::min(kLook, tokens_.size());
    return std::equal(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(n),
                      tokens.begin()) &&
           std::equal(tokens_.end() - static_cast<std::ptrdiff_t>(n), tokens_.end(),
                      tokens.begin() + static_cast<std::ptrdiff_t>(tokens_.size() - n));
  }

  // Calls fn(table, hash) for the n-grams that end at `end`, short ones first, until it returns
  // false.
  template <typename Fn>
  void ForEachLength(size_t end, const Fn& fn) {
    uint64_t hash = options_.hash_seed;
    for (size_t n = 1; n <= static_cast<size_t>(options_.max_ngram) && n <= end + 1; ++n) {
      hash = NgramTable::Extend(hash, tokens_[end + 1 - n]);
      if (n < static_cast<size_t>(options_.min_ngram)) continue;
      if (!fn(tables_[n - static_cast<size_t>(options_.min_ngram)], hash)) return;
    }
  }

  NgramOptions options_;
  std::vector<int32_t> tokens_;
  size_t recorded_ = 0;             // positions whose n-grams are in the tables
  std::vector<NgramTable> tables_;  // by length, from min_ngram
};

class Ngram : public Drafter {
 public:
  Ngram(const NgramOptions& options, int32_t max_slots)
      : options_(options), sequences_(static_cast<size_t>(max_slots), SequenceIndex(options)) {
    info_.name = "ngram";
    info_.max_tokens = options.max_tokens;
  }

  const DrafterInfo& info() const override { return info_; }

  Status Observe(Exec&, std::span<const CommittedRows> rows, ConstMatrix, const KvView&,
                 Workspace&) override {
    for (const CommittedRows& r : rows) sequences_[static_cast<size_t>(r.slot)].Follow(r.tokens);
    return {};
  }

  Status Propose(Exec&, std::span<const DraftQuery> queries, const KvView&, Workspace&,
                 std::vector<Draft>* drafts) override {
    drafts->assign(queries.size(), {});
    for (size_t i = 0; i < queries.size(); ++i) {
      SequenceIndex& sequence = sequences_[static_cast<size_t>(queries[i].slot)];
      sequence.Follow(queries[i].tokens);
      (*drafts)[i] = sequence.Lookup(queries[i].max_tokens);
    }
    return {};
  }

  void Forget(SequenceSlot slot) override {
    sequences_[static_cast<size_t>(slot)] = SequenceIndex(options_);
  }

 private:
  DrafterInfo info_;
  const NgramOptions options_;
  std::vector<SequenceIndex> sequences_;  // by slot
};

Status CheckKeys(const Json& config) {
  // The first three are vLLM's for every method; the command line has read them already.
  static constexpr const char* kKnown[] = {"method", "model", "num_speculative_tokens",
                                           "prompt_lookup_max", "prompt_lookup_min"};
  const std::vector<std::string> known(std::begin(kKnown), std::end(kKnown));
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string nearest = NearestName(key, known);
    return InvalidArgument(
        fmt::format("{}: {} is no key of the ngram drafter{}, expected prompt_lookup_max, "
                    "prompt_lookup_min or num_speculative_tokens",
                    kWhere, DumpJson(key).substr(0, 100),
                    nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
  }
  return {};
}

Result<std::optional<int64_t>> GetCount(const Json& config, std::string_view key, int64_t max) {
  FS_ASSIGN(const std::optional<int64_t> count, GetInt(config, key, kWhere));
  if (count && (*count < 1 || *count > max)) {
    return InvalidArgument(
        fmt::format("{}: {} is {}, expected an integer from 1 to {}", kWhere, key, *count, max));
  }
  return count;
}

Result<NgramOptions> ReadOptions(const DrafterContext& context) {
  // No config at all is an empty one.
  const Json config = context.config.is_null() ? Json::object() : context.config;
  FS_ASSIGN(const auto longest, GetCount(config, "prompt_lookup_max", kMaxNgram));
  FS_ASSIGN(const auto shortest, GetCount(config, "prompt_lookup_min", kMaxNgram));
  FS_ASSIGN(const auto tokens, GetCount(config, "num_speculative_tokens", kMaxDraft));
  FS_TRY(CheckKeys(config));
  NgramOptions options;
  // A default gives way to what was said.
  const int64_t max = longest.value_or(std::max<int64_t>(options.max_ngram, shortest.value_or(0)));
  const int64_t min = shortest.value_or(std::min<int64_t>(options.min_ngram, max));
  if (min > max) {
    return InvalidArgument(fmt::format(
        "{}: prompt_lookup_min is {}, expected at most prompt_lookup_max, {}", kWhere, min, max));
  }
  options.max_ngram = static_cast<int32_t>(max);
  options.min_ngram = static_cast<int32_t>(min);
  if (tokens) {
    options.max_tokens = static_cast<int32_t>(*tokens);
  } else if (context.options.tokens > 0) {
    options.max_tokens = static_cast<int32_t>(std::min<int64_t>(context.options.tokens, kMaxDraft));
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeNgram(const DrafterContext& context) {
  FS_ASSIGN(NgramOptions options, ReadOptions(context));
  options.hash_seed = RandomSeed();
  return std::unique_ptr<Drafter>(std::make_unique<Ngram>(options, context.max_slots));
}

}  // namespace firesteel
