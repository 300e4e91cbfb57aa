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
#include "speculation/drafter_test_support.h"
#include "speculation/make_internal.h"

namespace firesteel {

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

// A block drafter with its probe, over a cache in which every slot has room from the beginning.
class Pair : public ProbeHolder<BlockDrafterProbe>, public DrafterRig {
 public:
  Pair(Exec& exec, const Model& target, const DrafterContext& context,
       BlockDrafterFaults faults = {}, DType kv_dtype = DType::kF32)
      : DrafterRig(exec, target) {
    probe_.faults = faults;
    Start(MakeBlockDrafter(context, context.options.method, &probe_), kv_dtype, false);
    for (SequenceSlot slot = 0; slot < kSlots; ++slot) {
      cache_->Open(slot, {});
      FS_CHECK(cache_->Reserve(slot, kMaxLen));
    }
  }

  // The target computes tokens[first, first + rows) and the drafter sees the first `committed` of
  // them.
  void Step(SequenceSlot slot, std::span<const int32_t> tokens, int64_t first, int64_t rows,
            int64_t committed) {
    Compute(slot, tokens, first, rows, committed, tokens);
  }
  // All but the anchor, in chunks.
  void Prefill(SequenceSlot slot, std::span<const int32_t> tokens, int64_t chunk = 1000) {
    const auto end = static_cast<int64_t>(tokens.size()) - 1;
    for (int64_t first = 0; first < end; first += chunk) {
      const int64_t rows = std::min(chunk, end - first);
      Step(slot, tokens, first, rows, rows);
    }
  }

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
};

class BlockDrafterTest : public ::testing::Test {
 protected:
  BlockDrafterTest() {
    WriteCheckpoint(target_dir_, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
    target_ = LoadTarget(exec_, target_dir_.path());
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
