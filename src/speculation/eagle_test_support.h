// The tiny target and an EAGLE drafter beside it, stepped by hand over one cache with prefix hits.
// Tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/test_golden.h"
#include "speculation/drafter_test_support.h"
#include "speculation/eagle_internal.h"

namespace firesteel {

using MakeEagleFn = Result<std::unique_ptr<Drafter>> (*)(const DrafterContext&, EagleProbe*);

// By the name of its directory under models/tiny.
inline MakeEagleFn MakerOf(const std::string& name) {
  return name == "eagle" ? &MakeEagleWithProbe : &MakeEagle3WithProbe;
}

class EaglePair : public ProbeHolder<EagleProbe>, public DrafterRig {
 public:
  EaglePair(Exec& exec, const Model& target, const DrafterContext& context, MakeEagleFn make,
            EagleFaults faults = {}, DType kv_dtype = DType::kF32, bool prefix_caching = true)
      : DrafterRig(exec, target) {
    probe_.faults = faults;
    Start(make(context, &probe_), kv_dtype, prefix_caching);
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
    Compute(slot, row_tokens, first, rows, count,
            tokens.first(static_cast<size_t>(first + count + 1)));
    cache_->Commit(slot, tokens, first + count, first + count);
  }

  std::vector<Draft> Propose(const std::vector<DraftQuery>& queries) {
    for (const DraftQuery& query : queries)
      FS_CHECK(cache_->Reserve(query.slot, static_cast<int64_t>(query.tokens.size())));
    return DrafterRig::Propose(queries);
  }
  Draft Propose(const DraftQuery& query) { return Propose(std::vector{query})[0]; }
};

class EagleFixture {
 public:
  EagleFixture() { target_ = LoadTarget(exec_, SourcePath("models/tiny/target")); }

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
