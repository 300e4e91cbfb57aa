#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <functional>

#include "model/model_runner.h"
#include "speculation/drafter_test_support.h"
#include "speculation/max_probability_internal.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

// Another width, depth and rotation than the target's.
Json DraftConfig(int32_t vocab = 512) {
  Json config = TinyLlamaConfig();
  config.update({{"vocab_size", vocab},
                 {"hidden_size", 32},
                 {"intermediate_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 1},
                 {"head_dim", 16}});
  return config;
}

class DraftModelTest : public ::testing::Test {
 protected:
  DraftModelTest() {
    WriteCheckpoint(target_dir_, TinyQwen3Config(), RandomQwen3(TinyQwen3Config(), DType::kBF16));
    WriteCheckpoint(dir_, DraftConfig(), RandomQwen3(DraftConfig(), DType::kBF16));
    target_ = LoadTarget(exec_, target_dir_.path());
    draft_ = LoadTarget(exec_, dir_.path());
  }
  static SpeculationOptions Options(const std::string& directory, int32_t tokens = 4) {
    return {.method = "draft_model", .model = directory, .tokens = tokens};
  }
  Rig Make(const std::string& config = "{}", DType kv = DType::kF32) {
    return Rig(exec_, *target_, Options(dir_.path()), config, kv);
  }
  // The logits behind each of `tokens`, from the draft model alone in one pass.
  std::vector<Row> Fresh(std::span<const int32_t> tokens) {
    Runner runner(exec_, *draft_);
    return runner.Run({{0, 0, tokens}});
  }
  // What the draft model alone continues with.
  std::vector<int32_t> Greedy(std::vector<int32_t> tokens, int32_t count) {
    const size_t begin = tokens.size();
    for (int32_t i = 0; i < count; ++i) tokens.push_back(ArgMax(Fresh(tokens).back().logits));
    return {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end()};
  }
  Status StatusOf(const SpeculationOptions& options, const char* config = "{}") {
    DrafterContext context{.exec = exec_,
                           .target = *target_,
                           .first_group = 1,
                           .max_slots = kSlots,
                           .max_model_len = kMaxLen,
                           .options = options,
                           .config = *ParseJson(config, "config")};
    return MakeDrafter(context).status();
  }

  TempDir target_dir_, dir_;
  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_, draft_;
};

TEST_F(DraftModelTest, Info) {
  Rig rig = Make();
  const DrafterInfo& info = rig.drafter().info();
  EXPECT_EQ(info.name, "draft_model");
  EXPECT_EQ(info.max_tokens, 4);
  EXPECT_EQ(info.max_depth, 0);
  EXPECT_TRUE(info.feature_layers.empty());
  EXPECT_EQ(info.weight_bytes, draft_->info().weight_bytes);
  EXPECT_EQ(info.tokenizer, dir_.path());
  const std::vector<CacheGroup> groups = rig.drafter().CacheGroups(DType::kBF16);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].num_layers, 2);
  EXPECT_EQ(groups[0].planes[0].RowBytes(), 16 * 2);
}

TEST_F(DraftModelTest, DraftsWhatTheModelSays) {
  const std::vector<int32_t> tokens = Text(37, 1);
  Rig rig = Make();
  rig.Open(1, {});
  rig.Prefill(1, tokens);
  const Draft draft = rig.Propose(Query(1, tokens, 4));
  EXPECT_EQ(draft.tokens, Greedy(tokens, 4));
  EXPECT_TRUE(draft.probs.empty());
  ASSERT_EQ(draft.confidence.size(), 4u);
  std::vector<int32_t> text = tokens;
  for (size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(draft.confidence[k], MaxProbability(Fresh(text).back().logits));
    text.push_back(draft.tokens[k]);
  }
  EXPECT_EQ(rig.Propose(Query(1, tokens, 2)).tokens, Greedy(tokens, 2));
  EXPECT_EQ(rig.Propose(Query(1, tokens, 9)).tokens, Greedy(tokens, 4));
}

// q is the distribution of the model's logits under the request's own parameters.
TEST_F(DraftModelTest, ProbsAreWhatWasSampled) {
  const std::vector<int32_t> tokens = Text(25, 2);
  Rig rig = Make();
  rig.Open(0, {});
  rig.Prefill(0, tokens);
  const SamplingParams sampling = Sampling(1.3, 50, 0.9);
  const NoiseKey noise{5, 1};
  for (const NoisePurpose purpose : {NoisePurpose::kDraftGumbel, NoisePurpose::kTargetGumbel}) {
    const Draft draft = rig.Propose(Query(0, tokens, 4, sampling, noise, purpose));
    ASSERT_EQ(draft.probs.size(), 4u);
    std::vector<int32_t> text = tokens;
    for (int32_t k = 0; k < 4; ++k) {
      const auto at = static_cast<size_t>(k);
      const Distribution q = MakeDistribution(Fresh(text).back().logits, sampling);
      EXPECT_EQ(draft.probs[at].ids, q.ids);
      EXPECT_EQ(draft.probs[at].probs, q.probs);
      EXPECT_EQ(draft.confidence[at], *std::ranges::max_element(q.probs));
      const int64_t place = purpose == NoisePurpose::kTargetGumbel ? 25 + k : RoundPosition(24, k);
      EXPECT_EQ(draft.tokens[at], SampleWithNoise(q, noise, place, purpose));
      text.push_back(draft.tokens[at]);
    }
  }
}

TEST_F(DraftModelTest, ChunksAndNeighboursDoNotMatter) {
  const std::vector<int32_t> a = Text(50, 1), b = Text(21, 2), c = Text(2, 3);
  const SamplingParams hot = Sampling(0.8, 40);
  const std::vector<DraftQuery> queries = {Query(2, a, 4), Query(0, b, 2, hot, NoiseKey{7, 0}),
                                           Query(3, c, 9, hot, NoiseKey{8, 1})};
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    Rig whole = Make("{}", kv);
    std::vector<Draft> alone;
    for (const DraftQuery& query : queries) {
      whole.Open(query.slot, {});
      whole.Prefill(query.slot, query.tokens);
      alone.push_back(whole.Propose(query));
    }
    for (const int64_t chunk : {1, 7, 16}) {
      Rig chunked = Make("{}", kv);
      for (const DraftQuery& query : queries) {
        chunked.Open(query.slot, {});
        chunked.Prefill(query.slot, query.tokens, chunk);
      }
      const std::vector<Draft> together = chunked.Propose(queries);
      for (size_t q = 0; q < queries.size(); ++q)
        EXPECT_TRUE(SameDraft(together[q], alone[q])) << Name(kv) << chunk << " query " << q;
    }
  }
}

// After any number of accepted tokens, at every place in a block, the model drafts as if it had
// read the text at once: nothing of what was refused is left, and nothing is missing.
TEST_F(DraftModelTest, AfterEveryNumberOfAcceptedTokens) {
  for (int32_t length = 9; length < 27; ++length) {
    std::vector<int32_t> text = Text(length, 5);
    Rig rig = Make();
    rig.Open(0, {});
    rig.Prefill(0, text);
    for (const int32_t accepted : {0, 4, 1, 4, 4, 3, 2, 0}) {
      const std::vector<int32_t> before = text;
      const Draft draft = rig.Round(0, 4, accepted, 300 + accepted, &text);
      ASSERT_EQ(draft.tokens, Greedy(before, 4)) << length << " then " << accepted;
    }
  }
}

// Rounds without drafts, and rounds of which not all was verified.
TEST_F(DraftModelTest, PlainRoundsBetween) {
  std::vector<int32_t> text = Text(14, 6);
  Rig rig = Make();
  rig.Open(0, {});
  rig.Prefill(0, text);
  for (int32_t round = 0; round < 24; ++round) {
    const std::vector<int32_t> before = text;
    if (round % 8 == 0) {
      EXPECT_EQ(rig.Round(0, 3, 2, 100 + round, &text).tokens, Greedy(before, 3)) << round;
    } else if (round % 8 == 1) {
      // Drafted and not verified; the token that comes is the first of the draft all the same.
      text.push_back(rig.Propose(Query(0, text, 4)).tokens[0]);
      rig.Step(0, before, 1, 1, text);
    } else {
      text.push_back(200 + round);
      rig.Step(0, before, 1, 1, text);
    }
  }
  EXPECT_EQ(rig.Propose(Query(0, text, 4)).tokens, Greedy(text, 4));
}

// What the prefix cache hands on holds the draft model's rows too, also those of a text that was
// generated by drafts, and that grew without any.
TEST_F(DraftModelTest, PrefixHitsBringTheDraftState) {
  for (const bool with_drafts : {true, false}) {
    std::vector<int32_t> text = Text(20, 7);
    Rig rig = Make();
    rig.Open(0, text);
    rig.Prefill(0, text);
    for (int32_t round = 0; round < 20; ++round) {
      const std::vector<int32_t> before = text;
      if (with_drafts) {
        rig.Round(0, 4, round % 5, 100 + round, &text);
      } else {
        text.push_back(100 + round);
        rig.Step(0, before, 1, 1, text);
      }
    }
    const int64_t full = (static_cast<int64_t>(text.size()) - 1) / 16 * 16;
    ASSERT_EQ(rig.Open(1, text), full);
    rig.Prefill(1, text);
    EXPECT_EQ(rig.Propose(Query(1, text, 4)).tokens, Greedy(text, 4)) << with_drafts;
    // All of it cached but the anchor: a draft before anything was observed.
    const auto cut = std::span(text).first(static_cast<size_t>(full) + 1);
    ASSERT_EQ(rig.Open(2, cut), full);
    EXPECT_EQ(rig.Propose(Query(2, cut, 4)).tokens, Greedy({cut.begin(), cut.end()}, 4));
    // Resumed in the slot of another.
    rig.Close(1);
    rig.Open(1, text);
    rig.Prefill(1, text);
    EXPECT_EQ(rig.Propose(Query(1, text, 4)).tokens, Greedy(text, 4));
  }
}

// Beyond what the draft model was made for it is silent, and nothing else changes.
TEST_F(DraftModelTest, StopsAtItsOwnLimit) {
  Json config = DraftConfig();
  config["max_position_embeddings"] = 40;
  const TempDir dir;
  WriteCheckpoint(dir, config, RandomQwen3(config, DType::kBF16));
  Rig rig(exec_, *target_, Options(dir.path()));
  for (int32_t length = 35; length < 60; ++length) {
    std::vector<int32_t> text = Text(length, 8);
    rig.Open(0, {});
    rig.Prefill(0, text, 9);
    // Position 39 is the last that it reads; what it says there is drafted.
    const auto expected = static_cast<size_t>(std::clamp(40 - (length - 1), 0, 4));
    const Draft draft = rig.Propose(Query(0, text, 4));
    EXPECT_EQ(draft.tokens.size(), expected) << length;
    EXPECT_EQ(draft.tokens, Greedy(text, static_cast<int32_t>(expected)));
    rig.Round(0, 4, static_cast<int32_t>(expected) / 2, 9, &text);
    rig.Round(0, 4, 0, 9, &text);
    rig.Close(0);
  }
}

// Padding of the draft's vocabulary is never proposed, padding of the target's never looked up.
TEST_F(DraftModelTest, VocabulariesMayDifferByPadding) {
  for (const int32_t vocab : {640, 500}) {
    Json config = DraftConfig(vocab);
    TestTensors tensors = RandomQwen3(config, DType::kF32);
    if (vocab == 640) {
      // Its padding would win every time.
      TestTensor& table = tensors["model.embed_tokens.weight"];
      for (int64_t i = 512 * 32; i < 640 * 32; ++i) {
        float value;
        std::memcpy(&value, table.bytes.data() + i * 4, 4);
        value *= 100;
        std::memcpy(table.bytes.data() + i * 4, &value, 4);
      }
    }
    const TempDir dir;
    WriteCheckpoint(dir, config, tensors);
    Rig rig(exec_, *target_, Options(dir.path()));
    std::vector<int32_t> text = Text(30, 9);
    text[7] = text[29] = 511;
    rig.Open(0, {});
    rig.Prefill(0, text);
    const SamplingParams hot = Sampling(2);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Draft draft = rig.Propose(Query(0, text, 4, hot, NoiseKey{seed, 0}));
      ASSERT_EQ(draft.tokens.size(), 4u);
      for (size_t k = 0; k < 4; ++k) {
        EXPECT_LT(draft.tokens[k], std::min(vocab, 512));
        EXPECT_LT(draft.probs[k].ids.back(), std::min(vocab, 512));
      }
    }
  }
}

// The first token of whose distribution no probability reaches p_min ends the draft, whatever would
// have been drawn.
TEST_F(DraftModelTest, StopsWhereItIsUnsure) {
  const std::vector<int32_t> tokens = Text(30, 3);
  const SamplingParams hot = Sampling(0.7);
  Rig all = Make();
  all.Open(0, {});
  all.Prefill(0, tokens);
  const Draft full = all.Propose(Query(0, tokens, 4, hot));
  for (size_t cut = 0; cut < 4; ++cut) {
    Rig rig = Make(fmt::format(R"({{"draft_p_min":{}}})", full.confidence[cut] + 1e-6));
    rig.Open(0, {});
    rig.Prefill(0, tokens);
    const Draft draft = rig.Propose(Query(0, tokens, 4, hot));
    size_t expected = 0;
    while (expected < 4 && full.confidence[expected] > full.confidence[cut]) ++expected;
    EXPECT_EQ(draft.tokens.size(), expected);
    EXPECT_EQ(draft.probs.size(), expected);
    EXPECT_TRUE(std::equal(draft.tokens.begin(), draft.tokens.end(), full.tokens.begin()));
  }
}

TEST_F(DraftModelTest, WhatCannotBeIsOneSentence) {
  EXPECT_THAT(StatusOf(Options("")).message(), HasSubstr("expected a directory"));
  EXPECT_EQ(StatusOf(Options("/nonexistent")).code(), StatusCode::kNotFound);
  const TempDir dir;
  WriteCheckpoint(dir, DraftConfig(641), RandomQwen3(DraftConfig(641), DType::kBF16));
  EXPECT_THAT(StatusOf(Options(dir.path())).message(),
              HasSubstr("vocab_size is 641, the target has 512, expected the same vocabulary"));
  EXPECT_THAT(StatusOf(Options(dir_.path()), R"({"draft_p_min":1.5})").message(),
              HasSubstr("draft_p_min is 1.5, expected 0 to 1"));
  SpeculationOptions automatic = Options(dir_.path());
  automatic.method = "auto";
  EXPECT_TRUE(StatusOf(automatic).ok());
}

}  // namespace
}  // namespace firesteel
