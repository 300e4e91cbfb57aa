// Drafts that are trees with the tiny real model: the text, the cache and the features of plain
// decoding, to the bit.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>

#include "engine/fake_tree.h"
#include "engine/test_engine.h"
#include "model/architectures.h"

namespace firesteel {
namespace {

const std::string kTarget = FIRESTEEL_SOURCE_DIR "/models/tiny/target";
constexpr int32_t kNodes = 14;
constexpr int32_t kDepth = 4;
constexpr int32_t kTokens = 40;

// What plain decoding computed, by the hash of the tokens up to a position.
struct Plain {
  std::map<uint64_t, int32_t> says;  // the next token
  std::map<uint64_t, std::vector<float>> features;
};

// Draws trees around what plain decoding says, and compares the features it is shown with plain
// decoding's. With nothing recorded it records.
class ScriptedTrees : public Drafter {
 public:
  ScriptedTrees(Plain* plain, bool record, int32_t right)
      : plain_(*plain), record_(record), right_(right) {
    info_ = {.name = "scripted",
             .max_tokens = record ? 0 : kNodes,
             .max_depth = record ? 0 : kDepth,
             .feature_layers = {0, 5}};
  }
  const DrafterInfo& info() const override { return info_; }

  Status Observe(Exec&, std::span<const CommittedRows> rows, ConstMatrix features, const KvView&,
                 Workspace&) override {
    for (const CommittedRows& r : rows) {
      for (int32_t i = 0; i < r.count; ++i) {
        const auto end = static_cast<size_t>(r.first_position + i) + 1;
        const auto row = features.RowSpan(r.feature_row + i);
        const uint64_t hash = FakeModel::Hash(r.tokens.first(end));
        std::vector<float> seen(row.begin(), row.end());
        if (record_) {
          if (end < r.tokens.size()) plain_.says[hash] = r.tokens[end];
          plain_.features[hash] = std::move(seen);
        } else if (const auto it = plain_.features.find(hash);
                   it == plain_.features.end() || it->second != seen) {
          ++different_features_;
        }
      }
    }
    return {};
  }

  Status Propose(Exec&, std::span<const DraftQuery> queries, const KvView&, Workspace&,
                 std::vector<Draft>* drafts) override {
    drafts->clear();
    for (const DraftQuery& query : queries) {
      uint64_t hash = FakeModel::Hash(query.tokens);
      const uint64_t seed = hash;
      std::vector<int32_t> says;
      for (int32_t k = 0; k <= query.max_depth; ++k) {
        const auto it = plain_.says.find(hash);
        if (it == plain_.says.end()) break;
        says.push_back(it->second);
        hash = FakeModel::Extend(hash, it->second);
      }
      const auto right = right_ >= 0 ? right_ : static_cast<int32_t>(seed % (kDepth + 1));
      drafts->push_back(FakeTree(
          {.nodes = query.max_tokens, .depth = query.max_depth, .right = right, .vocab = 512}, says,
          seed));
    }
    return {};
  }

  int64_t different_features() const { return different_features_; }

 private:
  Plain& plain_;
  bool record_;
  int32_t right_;
  DrafterInfo info_;
  int64_t different_features_ = 0;
};

struct Setting {
  DType kv = DType::kBF16;
  int32_t block_size = 16;
  bool prefix_caching = true;
  int32_t num_blocks = 200;
  int32_t seqs = 8;
  int32_t threads = 1;
  int32_t right = -1;  // levels; -1: as it comes
  bool record = false;
  bool plant_wrong_branch = false;
};

class PairEngine {
 public:
  PairEngine(const Setting& setting, Plain* plain) : setting_(setting) {
    EngineParts parts;
    parts.options.max_model_len = 256;
    parts.options.max_num_seqs = setting.seqs;
    parts.options.max_num_batched_tokens = 64;
    parts.options.block_size = setting.block_size;
    parts.options.enable_prefix_caching = setting.prefix_caching;
    parts.options.speculation.tokens = setting.record ? 0 : kNodes;
    parts.pool = std::make_unique<ThreadPool>(setting.threads);
    parts.exec = std::make_unique<Exec>(Exec{*parts.pool});
    auto model = LoadModel(*parts.exec, kTarget, {.max_positions = 256});
    FS_CHECK(model.ok(), "{}", model.status().message());
    parts.model = *std::move(model);
    auto drafter = std::make_unique<ScriptedTrees>(plain, setting.record, setting.right);
    drafter_ = drafter.get();
    model_ = parts.model.get();
    exec_ = parts.exec.get();
    parts.drafter = std::move(drafter);
    parts.cache =
        std::make_unique<KvCache>(CacheLayout{model_->CacheGroups(setting.kv)},
                                  KvCache::Options{.block_size = setting.block_size,
                                                   .num_blocks = setting.num_blocks,
                                                   .max_slots = setting.seqs,
                                                   .prefix_caching = setting.prefix_caching});
    parts.plant_wrong_branch = setting.plant_wrong_branch;
    auto engine = MakeEngine(std::move(parts));
    FS_CHECK(engine.ok(), "{}", engine.status().message());
    engine_ = *std::move(engine);
  }

  EngineImpl& engine() { return *engine_; }
  ScriptedTrees& drafter() { return *drafter_; }

  void Submit(std::vector<int32_t> prompt, SamplingParams sampling, std::vector<int32_t>* tokens) {
    const auto id = engine_->Submit(
        {.prompt = std::move(prompt), .sampling = std::move(sampling)}, [tokens](TokenEvent event) {
          tokens->insert(tokens->end(), event.tokens.begin(), event.tokens.end());
        });
    FS_CHECK(id.ok(), "{}", id.status().message());
  }

  // How many of the first `length` rows of slot 0 differ from those of one prefill of `tokens`.
  int64_t DifferentRows(std::span<const int32_t> tokens) const {
    KvCache fresh({model_->CacheGroups(setting_.kv)},
                  {.block_size = 64, .num_blocks = 4, .max_slots = 1});
    fresh.Open(0, {});
    const auto length = static_cast<int64_t>(tokens.size());
    FS_CHECK(fresh.Reserve(0, length));
    std::vector<int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    const SequenceRows rows{0, 0, static_cast<int32_t>(length), 0};
    Workspace workspace;
    ForwardOutput out;
    const Status status =
        model_->Forward(*exec_, {tokens, positions, {&rows, 1}, {}, {}}, fresh, workspace, out);
    FS_CHECK(status.ok(), "{}", status.message());
    int64_t different = 0;
    for (int32_t layer = 0; layer < model_->info().num_layers; ++layer) {
      for (int32_t plane = 0; plane < 2; ++plane) {
        for (int64_t p = 0; p < length; ++p) {
          different +=
              Row(engine_->cache(), layer, plane, p) != Row(fresh, layer, plane, p) ? 1 : 0;
        }
      }
    }
    return different;
  }

 private:
  static std::vector<std::byte> Row(const KvCache& cache, int32_t layer, int32_t plane,
                                    int64_t position) {
    const PagedPlane paged = cache.Plane(0, layer, plane);
    const RowFormat& format = paged.format;
    const std::byte* tile = paged.Tile(cache.Table(0, 0), position);
    const int64_t row = position % kAttentionTile;
    std::vector<std::byte> bytes;
    for (int64_t head = 0; head < format.heads; ++head) {
      for (int64_t dim = 0; dim < format.head_dim; ++dim) {
        const std::byte* element = tile + format.ElementOffset(head, row, dim);
        bytes.insert(bytes.end(), element, element + format.ElementBytes());
      }
      if (format.dtype != DType::kF8E4M3) continue;
      const std::byte* scale = tile + format.ScaleOffset(head, row);
      bytes.insert(bytes.end(), scale, scale + 4);
    }
    return bytes;
  }

  Setting setting_;
  ScriptedTrees* drafter_ = nullptr;
  const Model* model_ = nullptr;
  Exec* exec_ = nullptr;
  std::unique_ptr<EngineImpl> engine_;
};

struct Asked {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

// Greedy and seeded, with penalties, two choices of one request, shared beginnings.
std::vector<Asked> Requests() {
  std::vector<Asked> requests;
  for (int32_t i = 0; i < 8; ++i) {
    SamplingParams sampling;
    sampling.temperature = i % 2 == 0 ? 0.0 : 0.9;
    sampling.seed = 40 + i / 4;
    sampling.choice = i % 4 / 2;
    sampling.max_tokens = kTokens;
    sampling.ignore_eos = true;
    if (i % 4 == 3) sampling.repetition_penalty = 1.2;
    if (i % 4 == 2) sampling.frequency_penalty = 0.6;
    requests.push_back({MakePrompt(i % 3, 3 + i / 2 * 23 % 70, 512), sampling});
  }
  return requests;
}

std::vector<std::vector<int32_t>> RunAll(PairEngine* pair) {
  const std::vector<Asked> requests = Requests();
  std::vector<std::vector<int32_t>> texts(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    pair->Submit(requests[i].prompt, requests[i].sampling, &texts[i]);
  }
  while (pair->engine().StepOnce()) pair->engine().CheckInvariants();
  EXPECT_EQ(pair->engine().Stats().kv_blocks_used, 0);
  return texts;
}

TEST(TreePair, TheTextAndTheFeaturesOfPlainDecoding) {
  Plain plain;
  PairEngine recorder({.record = true}, &plain);
  const auto expected = RunAll(&recorder);
  for (const auto& text : expected) ASSERT_EQ(text.size(), static_cast<size_t>(kTokens));
  int64_t preemptions = 0, trimmed = 0;
  for (const Setting& setting : std::vector<Setting>{{},
                                                     {.prefix_caching = false, .threads = 2},
                                                     {.block_size = 32},
                                                     {.block_size = 64, .seqs = 3},
                                                     {.seqs = 1},
                                                     {.num_blocks = 9},
                                                     {.block_size = 32, .num_blocks = 5},
                                                     {.num_blocks = 24, .threads = 2}}) {
    SCOPED_TRACE(testing::Message() << "block " << setting.block_size << " blocks "
                                    << setting.num_blocks << " seqs " << setting.seqs);
    PairEngine pair(setting, &plain);
    for (const char* cache : {"cold", "warm"}) EXPECT_EQ(RunAll(&pair), expected) << cache;
    EXPECT_EQ(pair.drafter().different_features(), 0);
    const EngineStats stats = pair.engine().Stats();
    EXPECT_GT(stats.spec_accepted_per_position[kDepth - 1], 0);
    preemptions += stats.preemptions;
    trimmed += stats.spec_trimmed;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(trimmed, 0);
}

// Of one greedy request, after every step. `wrong`: rows that differed, over all steps.
struct Stepped {
  std::vector<int32_t> text;
  int64_t wrong = 0, features = 0, accepted = 0, rounds = 0;
};

Stepped StepThrough(const Setting& setting, Plain* plain) {
  PairEngine pair(setting, plain);
  SamplingParams greedy;
  greedy.temperature = 0;
  greedy.max_tokens = kTokens;
  greedy.ignore_eos = true;
  const std::vector<int32_t> prompt = MakePrompt(5, 11, 512);
  Stepped run;
  pair.Submit(prompt, greedy, &run.text);
  while (pair.engine().StepOnce()) {
    if (pair.engine().cache().Length(0) == 0) break;  // it has ended
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), run.text.begin(), run.text.end());
    all.pop_back();  // the anchor has no row yet
    EXPECT_EQ(pair.engine().cache().Length(0), static_cast<int64_t>(all.size()));
    run.wrong += pair.DifferentRows(all);
  }
  run.features = pair.drafter().different_features();
  run.accepted = pair.engine().Stats().spec_accepted;
  run.rounds = pair.engine().Stats().spec_rounds;
  return run;
}

TEST(TreePair, EveryAcceptedDepthLeavesTheCacheOfAFreshPrefill) {
  for (DType kv : {DType::kBF16, DType::kF8E4M3}) {
    Plain plain;
    const Stepped expected = StepThrough({.kv = kv, .record = true}, &plain);
    EXPECT_EQ(expected.wrong, 0);
    for (int32_t block_size : {16, 32}) {
      for (int32_t right = 0; right <= kDepth; ++right) {
        SCOPED_TRACE(testing::Message() << "block " << block_size << " right " << right);
        const Stepped run =
            StepThrough({.kv = kv, .block_size = block_size, .right = right}, &plain);
        EXPECT_EQ(run.text, expected.text);
        EXPECT_EQ(run.wrong, 0);
        EXPECT_EQ(run.features, 0);
        EXPECT_GE(run.accepted, right * (run.rounds - 2));
        EXPECT_LE(run.accepted, right * run.rounds);
      }
    }
  }
}

TEST(TreePair, KeepingAnotherBranchIsSeen) {
  Plain plain;
  const Stepped expected = StepThrough({.record = true}, &plain);
  for (int32_t right = 1; right <= kDepth; ++right) {
    const Stepped run = StepThrough({.right = right, .plant_wrong_branch = true}, &plain);
    EXPECT_GT(run.wrong, 0) << right << " accepted: a planted fault went unseen";
    EXPECT_NE(run.text, expected.text) << right << " accepted: the wrong rows did not show";
  }
}

}  // namespace
}  // namespace firesteel
