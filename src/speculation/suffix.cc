// Suffix decoding (arXiv 2411.04975): what followed the end of the text before, in the request
// itself or in past outputs of the same tenant. The more of the end had occurred, the longer the
// draft; how often each continuation came is its chance.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/option_map.h"
#include "base/rng.h"
#include "speculation/make_internal.h"
#include "speculation/suffix_index_internal.h"
#include "speculation/suffix_pools_internal.h"

namespace firesteel {
namespace {

constexpr char kWhere[] = "speculative config";
constexpr int64_t kMaxDepth = 64;

struct SuffixOptions {
  SuffixLimits limits;
  SuffixPools::Limits pools;
  int32_t max_tokens = 0;
  // Where every hash begins: random, so that nobody outside can prepare texts that collide.
  uint64_t hash_seed = 0;
};

class Suffix : public Drafter {
 public:
  Suffix(const SuffixOptions& options, int32_t max_slots)
      : options_(options), pools_(options.pools, options.hash_seed) {
    for (int32_t slot = 0; slot < max_slots; ++slot) sequences_.emplace_back(options.hash_seed);
    info_.name = "suffix";
    info_.max_tokens = options.max_tokens;
  }

  const DrafterInfo& info() const override { return info_; }

  Status Observe(Exec&, std::span<const CommittedRows> rows, ConstMatrix, const KvView&,
                 Workspace&) override {
    for (const CommittedRows& r : rows) {
      Sequence& sequence = sequences_[static_cast<size_t>(r.slot)];
      Follow(r.tokens, &sequence);
      if (r.tenant == nullptr) continue;
      sequence.tenant = *r.tenant;
      sequence.prompt_length = r.prompt_length;
    }
    return {};
  }

  Status Propose(Exec&, std::span<const DraftQuery> queries, const KvView&, Workspace&,
                 std::vector<Draft>* drafts) override {
    drafts->assign(queries.size(), {});
    for (size_t i = 0; i < queries.size(); ++i) {
      const DraftQuery& query = queries[i];
      Sequence& sequence = sequences_[static_cast<size_t>(query.slot)];
      Follow(query.tokens, &sequence);
      const int32_t most = std::min(query.max_tokens, options_.max_tokens);
      SuffixDraft best = sequence.own.Find(query.tokens, options_.limits, most);
      if (query.tenant != nullptr) {
        SuffixDraft past = pools_.Find(*query.tenant, query.tokens, options_.limits, most);
        if (past.ExpectedAccepted() > best.ExpectedAccepted()) best = std::move(past);
      }
      (*drafts)[i].tokens = std::move(best.tokens);
      (*drafts)[i].confidence = std::move(best.chances);
    }
    return {};
  }

  // The end of a sequence, or its preemption: then the rest of its output comes with the next end.
  void Forget(SequenceSlot slot) override {
    Sequence& sequence = sequences_[static_cast<size_t>(slot)];
    if (sequence.prompt_length) {
      std::vector<int32_t> output;
      for (int64_t p = *sequence.prompt_length; p < sequence.own.end(); ++p)
        output.push_back(sequence.own.token(p));
      pools_.Add(sequence.tenant, output);
    }
    sequence = Sequence(options_.hash_seed);
  }

 private:
  struct Sequence {
    explicit Sequence(uint64_t hash_seed) : own(hash_seed) {}
    SuffixIndex own;  // position p holds token p of the text
    std::string tenant;
    std::optional<int64_t> prompt_length;  // set when the output may be kept
  };

  // A slot is told to Forget before it is reused, so `tokens` continue what it holds.
  static void Follow(std::span<const int32_t> tokens, Sequence* sequence) {
    for (auto p = static_cast<size_t>(sequence->own.end()); p < tokens.size(); ++p)
      sequence->own.Append(tokens[p]);
  }

  DrafterInfo info_;
  const SuffixOptions options_;
  SuffixPools pools_;
  std::vector<Sequence> sequences_;  // by slot
};

Status CheckKeys(const Json& config) {
  static constexpr const char* kKnown[] = {"method",
                                           "model",
                                           "num_speculative_tokens",
                                           "suffix_decoding_max_tree_depth",
                                           "suffix_decoding_max_cached_requests",
                                           "suffix_decoding_max_cached_bytes",
                                           "suffix_decoding_max_spec_factor",
                                           "suffix_decoding_min_token_prob"};
  const std::vector<std::string> known(std::begin(kKnown), std::end(kKnown));
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string nearest = NearestName(key, known);
    return InvalidArgument(fmt::format(
        "{}: {} is no key of the suffix drafter{}, expected suffix_decoding_max_tree_depth, "
        "_max_cached_requests, _max_cached_bytes, _max_spec_factor or _min_token_prob",
        kWhere, DumpJson(key).substr(0, 100),
        nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
  }
  return {};
}

Status ReadCount(const Json& config, const char* key, int64_t lo, int64_t hi, int64_t* out) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return {};
  FS_ASSIGN(*out, RequireInt(config, key, lo, hi, kWhere));
  return {};
}

Status ReadNumber(const Json& config, const char* key, double hi, double* out) {
  FS_ASSIGN(const auto value, GetDouble(config, key, kWhere));
  if (value && !(*value >= 0 && *value <= hi)) {
    return InvalidArgument(fmt::format("{}: {} is {}, expected 0 to {}", kWhere, key, *value, hi));
  }
  *out = value.value_or(*out);
  return {};
}

Result<SuffixOptions> ReadOptions(const DrafterContext& context) {
  // No config at all is an empty one.
  const Json config = context.config.is_null() ? Json::object() : context.config;
  FS_TRY(CheckKeys(config));
  SuffixOptions options;
  int64_t depth = options.limits.max_depth;
  FS_TRY(ReadCount(config, "suffix_decoding_max_tree_depth", 1, kMaxDepth, &depth));
  options.limits.max_depth = static_cast<int32_t>(depth);
  FS_TRY(ReadCount(config, "suffix_decoding_max_cached_requests", 0, int64_t{1} << 30,
                   &options.pools.max_texts));
  FS_TRY(ReadCount(config, "suffix_decoding_max_cached_bytes", 0, int64_t{1} << 40,
                   &options.pools.max_bytes));
  FS_TRY(
      ReadNumber(config, "suffix_decoding_max_spec_factor", 64, &options.limits.max_spec_factor));
  FS_TRY(ReadNumber(config, "suffix_decoding_min_token_prob", 1, &options.limits.min_token_prob));
  int64_t tokens = context.options.tokens > 0 ? context.options.tokens : depth;
  FS_TRY(ReadCount(config, "num_speculative_tokens", 1, kMaxDepth, &tokens));
  options.max_tokens = static_cast<int32_t>(std::min(tokens, depth));
  return options;
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeSuffix(const DrafterContext& context) {
  FS_ASSIGN(SuffixOptions options, ReadOptions(context));
  options.hash_seed = RandomSeed();
  return std::unique_ptr<Drafter>(std::make_unique<Suffix>(options, context.max_slots));
}

}  // namespace firesteel
