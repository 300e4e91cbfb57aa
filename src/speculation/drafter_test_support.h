// A random target, a drafter, and their common cache, stepped by hand. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kv/kv_cache.h"
#include "model/architectures.h"
#include "model/test_checkpoint.h"
#include "speculation/drafters.h"

namespace firesteel {

inline constexpr int32_t kSlots = 4;
inline constexpr int32_t kMaxLen = 192;

inline std::vector<int32_t> Text(int32_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((seed * 7919 + i * i * 31 + i * 17) % 511);
  return tokens;
}

inline SamplingParams Sampling(double temperature, int32_t top_k = 0, double top_p = 1) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  return params;
}
inline const SamplingParams kGreedy = Sampling(0);

inline DraftQuery Query(SequenceSlot slot, std::span<const int32_t> tokens, int32_t max_tokens,
                        const SamplingParams& sampling = kGreedy, NoiseKey noise = {},
                        NoisePurpose purpose = NoisePurpose::kDraftGumbel) {
  DraftQuery query;
  query.slot = slot;
  query.tokens = tokens;
  query.max_tokens = query.max_depth = max_tokens;
  query.sampling = &sampling;
  query.noise = noise;
  query.purpose = purpose;
  return query;
}

inline bool SameDraft(const Draft& a, const Draft& b) {
  if (a.tokens != b.tokens || a.parents != b.parents || a.confidence != b.confidence ||
      a.probs.size() != b.probs.size()) {
    return false;
  }
  for (size_t i = 0; i < a.probs.size(); ++i) {
    if (a.probs[i].ids != b.probs[i].ids || a.probs[i].probs != b.probs[i].probs) return false;
  }
  return true;
}

// A target, a drafter, and their common cache: what stepping by hand has in common.
class DrafterRig {
 public:
  std::vector<Draft> Propose(const std::vector<DraftQuery>& queries) {
    std::vector<Draft> drafts;
    workspace_.Reset();
    Check(drafter_->Propose(exec_, queries, *cache_, workspace_, &drafts));
    FS_CHECK(drafts.size() == queries.size());
    return drafts;
  }
  Draft Propose(const DraftQuery& query) { return Propose(std::vector{query})[0]; }

  Drafter& drafter() { return *drafter_; }
  KvCache& cache() { return *cache_; }

 protected:
  DrafterRig(Exec& exec, const Model& target) : exec_(exec), target_(target) {}

  void Start(Result<std::unique_ptr<Drafter>> made, DType kv_dtype, bool prefix_caching) {
    FS_CHECK(made.ok(), "{}", made.status().message());
    drafter_ = *std::move(made);
    CacheLayout layout{target_.CacheGroups(kv_dtype)};
    for (CacheGroup& group : drafter_->CacheGroups(kv_dtype))
      layout.groups.push_back(std::move(group));
    cache_ = std::make_unique<KvCache>(layout, KvCache::Options{.num_blocks = kSlots * kMaxLen / 16,
                                                                .max_slots = kSlots,
                                                                .prefix_caching = prefix_caching});
  }

  // The target computes row_tokens[first, first + rows), and the drafter sees the first `committed`
  // of these rows; `text` is what is committed then.
  void Compute(SequenceSlot slot, std::span<const int32_t> row_tokens, int64_t first, int64_t rows,
               int64_t committed, std::span<const int32_t> text) {
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(first));
    const SequenceRows sequence{slot, 0, static_cast<int32_t>(rows), first};
    ForwardOutput out;
    target_workspace_.Reset();
    Check(target_.Forward(exec_,
                          {row_tokens.subspan(static_cast<size_t>(first), positions.size()),
                           positions,
                           {&sequence, 1},
                           {},
                           drafter_->info().feature_layers},
                          *cache_, target_workspace_, out));
    const CommittedRows observed{slot, first, static_cast<int32_t>(committed), 0, text};
    workspace_.Reset();
    Check(drafter_->Observe(exec_, {&observed, 1}, out.features, *cache_, workspace_));
  }

  static void Check(const Status& status) { FS_CHECK(status.ok(), "{}", status.message()); }

  Exec& exec_;
  const Model& target_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<KvCache> cache_;
  Workspace target_workspace_, workspace_;
};

// A drafter's probe, which must outlive it: the first base of a rig that has one.
template <typename Probe>
struct ProbeHolder {
  const Probe& probe() const { return probe_; }

 protected:
  Probe probe_;
};

// A drafter made by the table, stepped as the engine steps it.
class Rig : public DrafterRig {
 public:
  Rig(Exec& exec, const Model& target, const SpeculationOptions& options,
      const std::string& config = "{}", DType kv_dtype = DType::kF32)
      : DrafterRig(exec, target) {
    const DrafterContext context{.exec = exec,
                                 .target = target,
                                 .first_group = 1,
                                 .max_slots = kSlots,
                                 .max_model_len = kMaxLen,
                                 .options = options,
                                 .config = *ParseJson(config, "config")};
    Start(MakeDrafter(context), kv_dtype, true);
  }

  // Begins a sequence; returns how many of its positions the prefix cache had.
  int64_t Open(SequenceSlot slot, std::span<const int32_t> tokens) {
    return cache_->Open(slot, tokens);
  }
  void Close(SequenceSlot slot) {
    drafter_->Forget(slot);
    cache_->Close(slot);
  }

  // The target computes `rows` of `tokens`, from where the cache ends; the first `committed` of
  // them are kept, and `text`, which ends with the next anchor, is what is committed then.
  void Step(SequenceSlot slot, std::span<const int32_t> tokens, int64_t rows, int64_t committed,
            std::span<const int32_t> text) {
    const int64_t first = cache_->Length(slot);
    FS_CHECK(cache_->Reserve(slot, first + rows));
    Compute(slot, tokens, first, rows, committed, text);
    cache_->Commit(slot, text, first + committed, first + committed);
  }
  // All but the anchor, in chunks.
  void Prefill(SequenceSlot slot, std::span<const int32_t> tokens, int64_t chunk = 1000) {
    const auto end = static_cast<int64_t>(tokens.size()) - 1;
    while (cache_->Length(slot) < end) {
      const int64_t rows = std::min(chunk, end - cache_->Length(slot));
      Step(slot, tokens, rows, rows, tokens);
    }
  }
  // A whole round: a draft of `length` tokens, of which the first `accepted` are taken to be right,
  // and the next committed token is `next`. Returns the draft; `text` grows.
  Draft Round(SequenceSlot slot, int32_t length, int32_t accepted, int32_t next,
              std::vector<int32_t>* text) {
    const Draft draft = Propose(Query(slot, *text, length));
    std::vector<int32_t> rows = *text;
    rows.insert(rows.end(), draft.tokens.begin(), draft.tokens.end());
    const auto drafted = static_cast<int64_t>(draft.tokens.size());
    FS_CHECK(accepted <= drafted);
    text->insert(text->end(), draft.tokens.begin(), draft.tokens.begin() + accepted);
    text->push_back(next);
    Step(slot, rows, 1 + drafted, 1 + accepted, *text);
    return draft;
  }

  std::vector<Draft> Propose(const std::vector<DraftQuery>& queries) {
    for (const DraftQuery& query : queries) {
      FS_CHECK(cache_->Reserve(query.slot,
                               static_cast<int64_t>(query.tokens.size()) + query.max_tokens));
    }
    return DrafterRig::Propose(queries);
  }
  Draft Propose(const DraftQuery& query) { return Propose(std::vector{query})[0]; }
};

inline std::unique_ptr<Model> LoadTarget(Exec& exec, const std::string& directory) {
  Result<std::unique_ptr<Model>> model = LoadModel(exec, directory, {});
  FS_CHECK(model.ok(), "{}", model.status().message());
  return *std::move(model);
}

}  // namespace firesteel
