// A target without weights, for tests of everything around it.
//
// What it keeps in the cache per position is a hash chained over the row before and the token: a
// row that is stale, missing or another sequence's changes every token after it. The logits of a
// row are a function of its hash. So the output is a function of the tokens before it, as with a
// real model, and any slip in the bookkeeping of the cache shows in the text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"

namespace firesteel {

struct FakeModelOptions {
  int32_t vocab_size = 64;
  int32_t max_positions = 4096;
  std::vector<int32_t> eos_ids;
  float logit_spread = 6.0f;  // logits are uniform in [0, spread)
  // Makes a token by far the likeliest at a position (the token's own, not its row's); negative: no
  // wish. Null: never.
  std::function<int32_t(int64_t position)> script;
  // Called at the start of each Forward: turns a clock, or fails the pass.
  std::function<Status(const ForwardBatch&)> on_forward;
};

class FakeModel : public Model {
 public:
  explicit FakeModel(FakeModelOptions options);

  // The hash of the row behind `tokens`; 0 tokens give the chain's start.
  static uint64_t Hash(std::span<const int32_t> tokens);
  static uint64_t Extend(uint64_t hash, int32_t token);
  // What Forward captures for a row, the same for every feature layer; [kHidden].
  static constexpr int32_t kHidden = 2;
  static void Feature(uint64_t hash, std::span<float> out);

  // Logits for the token at `position`, when the tokens before it have this hash. out [vocab].
  void Logits(uint64_t hash, int64_t position, std::span<float> out) const;

  const ModelInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType kv_dtype) const override;
  Status Forward(Exec& exec, const ForwardBatch& batch, const KvView& kv, Workspace& workspace,
                 ForwardOutput& out) const override;
  const WeightView* embedding() const override { return nullptr; }
  const PackedWeight* lm_head() const override { return nullptr; }

 private:
  Status CheckBatch(const ForwardBatch& batch, const KvView& kv) const;

  FakeModelOptions options_;
  ModelInfo info_;
};

// The row of a position in a plane of one hash per position, as FakeModel and FakeDrafter keep it.
CacheGroup HashGroup(std::string name);
uint64_t LoadHash(const KvView& kv, int32_t group, SequenceSlot slot, int64_t position);
void StoreHash(const KvView& kv, int32_t group, SequenceSlot slot, int64_t position, uint64_t hash);

}  // namespace firesteel
