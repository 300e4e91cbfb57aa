// A small random target and block drafter, stepped by hand over one cache. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "model/architectures.h"
#include "model/test_checkpoint.h"
#include "speculation/block_drafter_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {

inline constexpr int32_t kSlots = 4;
inline constexpr int32_t kMaxLen = 192;

// vocab 512 and hidden 64 as the target; other heads and widths than its layers have.
inline Json TinyDsparkConfig() {
  Json config = TinyQwen3Config();
  config.update({{"architectures", {"Qwen3DSparkModel"}},
                 {"num_target_layers", 6},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 6},
                 {"head_dim", 16},
                 {"intermediate_size", 96},
                 {"block_size", 5},
                 {"mask_token_id", 511},
                 {"target_layer_ids", {-1, 1, 4}},
                 {"tie_word_embeddings", false},
                 {"markov_rank", 8},
                 {"markov_head_type", "vanilla"},
                 {"enable_confidence_head", true},
                 {"confidence_head_with_markov", true}});
  return config;
}

inline TestTensors RandomDspark(const Json& config, DType dtype) {
  TestTensors t;
  const int64_t h = config["hidden_size"], v = config["vocab_size"], r = config["markov_rank"];
  const auto m = static_cast<int64_t>(config["target_layer_ids"].size());
  AddRandomLayers(config, "layers.", dtype, &t);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float scale,
                       float mean = 0) {
    t[name] = RandomTensor(name, std::move(shape), dtype, scale, mean);
  };
  add("fc.weight", {h, m * h}, 0.2f);
  add("hidden_norm.weight", {h}, 0.2f, 1);
  add("norm.weight", {h}, 0.2f, 1);
  const std::string kind = config.value("markov_head_type", "vanilla");
  if (r > 0) {
    add("markov_head.markov_w1.weight", {v, r}, 1);
    add("markov_head.markov_w2.weight", {v, r}, 2);
  }
  if (r > 0 && kind == "gated") {
    add("markov_head.gate_proj.weight", {r, h + r}, 0.5f);
    add("markov_head.gate_proj.bias", {r}, 0.5f);
  }
  if (r > 0 && kind == "rnn") {
    add("markov_head.joint_proj.weight", {3 * r, 2 * r + h}, 0.5f);
    add("markov_head.joint_proj.bias", {3 * r}, 0.5f);
  }
  if (config["enable_confidence_head"].get<bool>()) {
    const bool markov = config["confidence_head_with_markov"].get<bool>();
    add("confidence_head.proj.weight", {1, markov ? h + r : h}, 0.3f);
    add("confidence_head.proj.bias", {1}, 0.5f);
  }
  return t;
}

inline std::vector<int32_t> Tokens(int32_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((seed * 7919 + i * i * 31 + i * 17) % 511);
  return tokens;
}

// A target, a drafter, and their common cache, stepped by hand.
class Pair {
 public:
  Pair(Exec& exec, const Model& target, DrafterContext context, BlockDrafterFaults faults = {},
       DType kv_dtype = DType::kF32)
      : exec_(exec), target_(target) {
    probe_.faults = faults;
    Result<std::unique_ptr<Drafter>> made =
        MakeBlockDrafter(context, context.options.method, &probe_);
    FS_CHECK(made.ok(), "{}", made.status().message());
    drafter_ = *std::move(made);
    CacheLayout layout{target.CacheGroups(kv_dtype)};
    for (CacheGroup& group : drafter_->CacheGroups(kv_dtype))
      layout.groups.push_back(std::move(group));
    cache_ = std::make_unique<KvCache>(layout, KvCache::Options{.num_blocks = kSlots * kMaxLen / 16,
                                                                .max_slots = kSlots,
                                                                .prefix_caching = false});
    for (SequenceSlot slot = 0; slot < kSlots; ++slot) {
      cache_->Open(slot, {});
      FS_CHECK(cache_->Reserve(slot, kMaxLen));
    }
  }

  // The target computes tokens[first, first + rows) and the drafter sees the first `committed` of
  // them.
  void Step(SequenceSlot slot, std::span<const int32_t> tokens, int64_t first, int64_t rows,
            int64_t committed) {
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(first));
    const SequenceRows sequence{slot, 0, static_cast<int32_t>(rows), first};
    ForwardOutput out;
    target_workspace_.Reset();
    Check(target_.Forward(exec_,
                          {tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)),
                           positions,
                           {&sequence, 1},
                           {},
                           drafter_->info().feature_layers},
                          *cache_, target_workspace_, out));
    const CommittedRows observed{slot, first, static_cast<int32_t>(committed), 0, tokens};
    workspace_.Reset();
    Check(drafter_->Observe(exec_, {&observed, 1}, out.features, *cache_, workspace_));
  }
  // All but the anchor, in chunks.
  void Prefill(SequenceSlot slot, std::span<const int32_t> tokens, int64_t chunk = 1000) {
    const auto end = static_cast<int64_t>(tokens.size()) - 1;
    for (int64_t first = 0; first < end; first += chunk) {
      const int64_t rows = std::min(chunk, end - first);
      Step(slot, tokens, first, rows, rows);
    }
  }

  std::vector<Draft> Propose(const std::vector<DraftQuery>& queries) {
    std::vector<Draft> drafts;
    workspace_.Reset();
    Check(drafter_->Propose(exec_, queries, *cache_, workspace_, &drafts));
    FS_CHECK(drafts.size() == queries.size());
    return drafts;
  }
  Draft Propose(const DraftQuery& query) { return Propose(std::vector{query})[0]; }

  // What the drafter keeps of positions [0, count), FS_CHECKed to be float32: element by element.
  std::vector<float> CachedRows(SequenceSlot slot, int64_t count) const {
    std::vector<float> rows;
    const CacheGroup group = drafter_->CacheGroups(DType::kF32)[0];
    for (int32_t l = 0; l < group.num_layers; ++l) {
      for (int32_t which = 0; which < 2; ++which) {
        const PagedPlane plane = cache_->Plane(1, l, which);
        FS_CHECK(plane.format.dtype == DType::kF32);
        for (int64_t p = 0; p < count; ++p) {
          const std::byte* tile = plane.Tile(cache_->Table(slot, 1), p);
          for (int32_t head = 0; head < plane.format.heads; ++head) {
            for (int32_t d = 0; d < plane.format.head_dim; ++d) {
              std::memcpy(&rows.emplace_back(),
                          tile + plane.format.ElementOffset(head, p % kAttentionTile, d), 4);
            }
          }
        }
      }
    }
    return rows;
  }

  Drafter& drafter() { return *drafter_; }
  const BlockDrafterProbe& probe() const { return probe_; }

 private:
  static void Check(const Status& status) { FS_CHECK(status.ok(), "{}", status.message()); }

  Exec& exec_;
  const Model& target_;
  BlockDrafterProbe probe_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<KvCache> cache_;
  Workspace target_workspace_, workspace_;
};

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
  return {slot, tokens, max_tokens, &sampling, noise, purpose};
}

inline bool SameDraft(const Draft& a, const Draft& b) {
  if (a.tokens != b.tokens || a.confidence != b.confidence || a.probs.size() != b.probs.size())
    return false;
  for (size_t i = 0; i < a.probs.size(); ++i) {
    if (a.probs[i].ids != b.probs[i].ids || a.probs[i].probs != b.probs[i].probs) return false;
  }
  return true;
}

class BlockDrafterTest : public ::testing::Test {
 protected:
  BlockDrafterTest() {
    WriteCheckpoint(target_dir_, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
    Result<std::unique_ptr<Model>> target = LoadModel(exec_, target_dir_.path(), {});
    FS_CHECK(target.ok(), "{}", target.status().message());
    target_ = *std::move(target);
  }

  DrafterContext Context(const std::string& method, const std::string& directory,
                         const char* config) {
    SpeculationOptions options{.method = method, .model = directory};
    return {exec_, *target_, 1, kSlots, kMaxLen, options, *ParseJson(config, "config")};
  }

  TempDir target_dir_;
  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_;
};

class DsparkTest : public BlockDrafterTest {
 protected:
  DsparkTest() {
    WriteCheckpoint(dir_, TinyDsparkConfig(), RandomDspark(TinyDsparkConfig(), DType::kBF16));
  }

  DrafterContext Context(const std::string& directory, const char* config = "{}") {
    return BlockDrafterTest::Context("dspark", directory, config);
  }
  // What loading says when the random checkpoint is changed first.
  Status StatusOf(const std::function<void(Json*, TestTensors*)>& change) {
    const TempDir dir;
    Json config = TinyDsparkConfig();
    TestTensors tensors = RandomDspark(config, DType::kBF16);
    change(&config, &tensors);
    WriteCheckpoint(dir, config, tensors);
    return MakeDspark(Context(dir.path())).status();
  }

  TempDir dir_;
};

}  // namespace firesteel
