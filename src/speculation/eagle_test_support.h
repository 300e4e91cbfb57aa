// The tiny target and an EAGLE drafter beside it, stepped by hand over one cache with prefix hits.
// Tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/test_golden.h"
#include "speculation/block_drafter_test_support.h"
#include "speculation/eagle_internal.h"

namespace firesteel {

using MakeEagleFn = Result<std::unique_ptr<Drafter>> (*)(const DrafterContext&, EagleProbe*);

// By the name of its directory under models/tiny.
inline MakeEagleFn MakerOf(const std::string& name) {
  return name == "eagle" ? &MakeEagleWithProbe : &MakeEagle3WithProbe;
}

class EaglePair {
 public:
  EaglePair(Exec& exec, const Model& target, const DrafterContext& context, MakeEagleFn make,
            EagleFaults faults = {}, DType kv_dtype = DType::kF32, bool prefix_caching = true)
      : exec_(exec), target_(target) {
    probe_.faults = faults;
    Result<std::unique_ptr<Drafter>> made = make(context, &probe_);
    FS_CHECK(made.ok(), "{}", made.status().message());
    drafter_ = *std::move(made);
    CacheLayout layout{target.CacheGroups(kv_dtype)};
    for (CacheGroup& group : drafter_->CacheGroups(kv_dtype))
      layout.groups.push_back(std::move(group));
    cache_ = std::make_unique<KvCache>(layout, KvCache::Options{.num_blocks = kSlots * kMaxLen / 16,
                                                                .max_slots = kSlots,
                                                                .prefix_caching = prefix_caching});
  }

  // Shares what is cached of `prompt` and computes the rest in chunks. `tokens`: the prompt and the
  // anchor behind it. Returns how many positions were found.
  int64_t Prefill(SequenceSlot slot, std::span<const int32_t> tokens, int64_t chunk = 1000) {
    const auto end = static_cast<int64_t>(tokens.size()) - 1;
    const int64_t found = cache_->Open(slot, tokens.first(static_cast<size_t>(end)));
    FS_CHECK(cache_->Reserve(slot, end + 20));
    for (int64_t first = found; first < end; first += chunk) {
      const int64_t rows = std::min(chunk, end - first);
      Step(slot, tokens, tokens, rows, rows);
    }
    return found;
  }
  void Close(SequenceSlot slot) {
    drafter_->Forget(slot);
    cache_->Close(slot);
  }

  // The target computes `rows` rows from the cache's length on, with `row_tokens` (drafts among
  // them), of which `count` are committed; `tokens` are all committed ones, the next anchor
  // included.
  void Step(SequenceSlot slot, std::span<const int32_t> row_tokens, std::span<const int32_t> tokens,
            int64_t rows, int64_t count) {
    const int64_t first = cache_->Length(slot);
    FS_CHECK(cache_->Reserve(slot, first + rows + 1));
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
    const CommittedRows observed{slot, first, static_cast<int32_t>(count), 0,
                                 tokens.first(static_cast<size_t>(first + count + 1))};
    workspace_.Reset();
    Check(drafter_->Observe(exec_, {&observed, 1}, out.features, *cache_, workspace_));
    cache_->Commit(slot, tokens, first + count, first + count);
  }

  std::vector<Draft> Propose(const std::vector<DraftQuery>& queries) {
    std::vector<Draft> drafts;
    workspace_.Reset();
    for (const DraftQuery& query : queries)
      FS_CHECK(cache_->Reserve(query.slot, static_cast<int64_t>(query.tokens.size())));
    Check(drafter_->Propose(exec_, queries, *cache_, workspace_, &drafts));
    FS_CHECK(drafts.size() == queries.size());
    return drafts;
  }
  Draft Propose(const DraftQuery& query) { return Propose(std::vector{query})[0]; }

  Drafter& drafter() { return *drafter_; }
  KvCache& cache() { return *cache_; }
  const EagleProbe& probe() const { return probe_; }

 private:
  static void Check(const Status& status) { FS_CHECK(status.ok(), "{}", status.message()); }

  Exec& exec_;
  const Model& target_;
  EagleProbe probe_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<KvCache> cache_;
  Workspace target_workspace_, workspace_;
};

class EagleFixture {
 public:
  EagleFixture() {
    Result<std::unique_ptr<Model>> target = LoadModel(exec_, SourcePath("models/tiny/target"), {});
    FS_CHECK(target.ok(), "{}", target.status().message());
    target_ = *std::move(target);
  }

  DrafterContext Context(const std::string& directory, const char* config = "{}",
                         int32_t tokens = 0) {
    SpeculationOptions options{.model = directory, .tokens = tokens};
    return {exec_, *target_, 1, kSlots, kMaxLen, options, *ParseJson(config, "config")};
  }
  DrafterContext Tiny(const std::string& name, const char* config = "{}", int32_t tokens = 0) {
    return Context(SourcePath("models/tiny/" + name), config, tokens);
  }
  EaglePair MakePair(const std::string& name, EagleFaults faults = {}, DType kv = DType::kF32,
                     const char* config = "{}", bool prefix_caching = true) {
    return EaglePair(exec_, *target_, Tiny(name, config), MakerOf(name), faults, kv,
                     prefix_caching);
  }

 protected:
  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_;
};

}  // namespace firesteel
