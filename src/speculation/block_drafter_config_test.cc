// What the formats of block drafters say when a field is wrong, and how they are told apart.
#include <gmock/gmock.h>

#include "speculation/block_drafter_layouts.h"
#include "speculation/draft_vocabulary_internal.h"
#include "speculation/drafters.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class BlockDrafterConfigTest : public BlockDrafterTest {
 protected:
  using Change = std::function<void(Json*, TestTensors*)>;

  // What loading says when a checkpoint is changed first.
  Status StatusOf(BlockLayout layout, const Change& change, const char* method = nullptr,
                  const char* options = "{}") {
    change(&layout.config, &layout.tensors);
    const TempDir dir;
    WriteCheckpoint(dir, layout.config, layout.tensors);
    return MakeDrafter(Context(method != nullptr ? method : layout.method, dir.path(), options))
        .status();
  }
  struct Case {
    Change change;
    StatusCode code;
    std::string part;
  };
  void ExpectEach(const BlockLayout& layout, const std::vector<Case>& cases) {
    EXPECT_TRUE(StatusOf(layout, [](Json*, TestTensors*) {}).ok());
    for (const Case& c : cases) {
      const Status status = StatusOf(layout, c.change);
      EXPECT_EQ(status.code(), c.code) << status.message();
      EXPECT_THAT(status.message(), HasSubstr(c.part));
    }
  }

  static constexpr StatusCode kInvalid = StatusCode::kInvalidArgument,
                              kUnknown = StatusCode::kUnsupported,
                              kCorrupt = StatusCode::kDataCorrupt;
};

TEST_F(BlockDrafterConfigTest, ZLab) {
  const auto dflash = [](const char* key, const Json& value) {
    return [=](Json* c, TestTensors*) { (*c)["dflash_config"][key] = value; };
  };
  const auto top = [](const char* key, const Json& value) {
    return [=](Json* c, TestTensors*) { (*c)[key] = value; };
  };
  ExpectEach(
      ZLab("sliding", {1, 4}, 8, {}),
      {{dflash("mask_token_id", 512), kInvalid, "mask_token_id is 512"},
       {dflash("mask_token_id", nullptr), kInvalid, "mask_token_id is missing"},
       {dflash("target_layer_ids", Json{1, 5}), kInvalid, "target_layer_ids holds 5"},
       {dflash("target_layer_ids", Json{1, 2, 3}), kCorrupt, "fc.weight is [64, 128]"},
       {dflash("block_size", 1), kInvalid, "block_size is 1"},
       {dflash("block_size", 65), kInvalid, "block_size is 65"},
       {dflash("output_multiplier", 2), kUnknown, "dflash_config.output_multiplier is 2"},
       {dflash("final_logit_softcapping", 30), kUnknown, "final_logit_softcapping is 30"},
       {dflash("attention_sink_bias", true), kUnknown, "attention_sink_bias is true"},
       {top("dflash_config", 3), kInvalid, "dflash_config is 3, expected an object"},
       {top("num_target_layers", 36), kInvalid, "num_target_layers is 36, the target has 6"},
       {top("hidden_size", 32), kInvalid, "hidden_size is 32, the target has 64"},
       {top("sliding_window", nullptr), kInvalid, "sliding_window is missing"},
       {top("is_causal", 1), kInvalid, "is_causal is 1"},
       {top("architectures", Json{"DFlash2DraftModel"}), kUnknown,
        "architecture is \"DFlash2DraftModel\", no drafter of this build reads it: expected "
        "Qwen3DSparkModel, DFlashDraftModel"},
       {[](Json*, TestTensors* t) {
          (*t)["markov_head.markov_w1.weight"] = RandomTensor("x", {512, 8}, DType::kBF16, 1);
        },
        kCorrupt, "markov_head.markov_w1.weight is extra"}});
  // The block may be named in either place, and a dflash_config alone is enough to know the format.
  const auto nothing = [](Json* c, TestTensors*) { c->erase("architectures"); };
  EXPECT_TRUE(StatusOf(ZLab("full", {1, 4}, 0, {}), nothing).ok());
  const auto moved = [](Json* c, TestTensors*) {
    (*c)["dflash_config"]["block_size"] = (*c)["block_size"];
    c->erase("block_size");
  };
  EXPECT_TRUE(StatusOf(ZLab("full", {1, 4}, 0, {}), moved).ok());
}

TEST_F(BlockDrafterConfigTest, Speculators) {
  const auto top = [](const char* key, const Json& value) {
    return [=](Json* c, TestTensors*) { (*c)[key] = value; };
  };
  const auto backbone = [](const char* key, const Json& value) {
    return [=](Json* c, TestTensors*) { (*c)["transformer_layer_config"][key] = value; };
  };
  const auto tensor = [](const char* name, const TestTensor& value) {
    return [=](Json*, TestTensors* t) { (*t)[name] = value; };
  };
  const auto offsets = [](size_t at, int64_t value) {
    std::vector<int64_t> d2t(128, 5);
    d2t[at] = value;
    return Int64s(d2t);
  };
  ExpectEach(
      WithFewTokens(Speculators("few", "gated", 4), 128),
      {{top("aux_hidden_state_layer_ids", Json{0, 2, 6}), kInvalid, "holds 6, expected 0 to 5"},
       {top("aux_hidden_state_layer_ids", Json{-1, 2, 5}), kInvalid, "holds -1, expected 0 to 5"},
       {top("aux_hidden_state_layer_ids", nullptr), kInvalid, "aux_hidden_state_layer_ids holds 0"},
       {top("transformer_layer_config", nullptr), kInvalid, "transformer_layer_config is missing"},
       {top("transformer_layer_config", "qwen3"), kInvalid, "expected an object"},
       {backbone("model_type", "llama"), kUnknown, "model_type is \"llama\", expected qwen3"},
       {backbone("vocab_size", 500), kInvalid, "vocab_size is 500, the target has 512"},
       {top("target_hidden_size", 32), kInvalid, "target_hidden_size is 32, the target has 64"},
       {top("draft_vocab_size", 513), kInvalid, "draft_vocab_size is 513"},
       {top("draft_vocab_size", 127), kCorrupt, "d2t is [128], config wants [127]"},
       {top("block_size", 9), kInvalid, "speculative_tokens is 4, expected block_size, 9"},
       {top("speculators_config", 1), kInvalid, "speculators_config is 1"},
       {top("speculators_config", Json{{"proposal_methods", 1}}), kInvalid,
        "proposal_methods is 1, expected a list of objects"},
       {top("sample_from_anchor", true), kInvalid,
        "sample_from_anchor is true, but speculative_tokens is 4 of a block of 5"},
       {top("markov_head_type", "rnn"), kCorrupt, "joint_proj.weight is missing"},
       {top("speculators_model_type", "peagle"), kUnknown,
        "speculators_model_type is \"peagle\", no drafter of this build reads it"},
       {[](Json*, TestTensors* t) { t->erase("d2t"); }, kCorrupt, "tensor d2t is missing"},
       {[](Json*, TestTensors* t) { t->erase("lm_head.weight"); }, kUnknown, "no lm_head.weight"},
       {tensor("d2t", RandomTensor("x", {128}, DType::kF32, 1)), kUnknown, "d2t is F32"},
       {tensor("d2t", offsets(3, -4)), kCorrupt, "d2t holds -4 at 3, expected -3 to 508"},
       {tensor("d2t", offsets(3, 509)), kCorrupt, "d2t holds 509 at 3"},
       {tensor("d2t", offsets(3, 6)), kCorrupt, "d2t names token 9 twice, again at 4"},
       {tensor("verifier_norm.weight", RandomTensor("x", {64}, DType::kF32, 1)), kCorrupt,
        "verifier_norm.weight is extra"}});
}

// Both conventions are in the wild, and an absent sample_from_anchor means either.
TEST_F(BlockDrafterConfigTest, WhichRowPredictsFirst) {
  const auto first_row = [&](const Change& change, const char* options = "{}") -> Result<int32_t> {
    BlockLayout layout = Speculators("anchor", "vanilla", 5);
    change(&layout.config, &layout.tensors);
    const Result<BlockDrafterConfig> config = ParseBlockDrafterConfig(
        layout.config, "dspark", target_->info(), *ParseJson(options, "options"), "here");
    if (!config.ok()) return config.status();
    EXPECT_EQ(config->max_tokens(), 5 - config->first_row);
    return config->first_row;
  };
  const auto method = [](const Json& methods) {
    return [=](Json* c, TestTensors*) { (*c)["speculators_config"]["proposal_methods"] = methods; };
  };
  const auto proposes = [](int64_t tokens) {
    return Json{{"proposal_type", "greedy"}, {"speculative_tokens", tokens}};
  };
  EXPECT_EQ(*first_row([](Json*, TestTensors*) {}), 0);
  EXPECT_EQ(*first_row(method(Json::array({proposes(5)}))), 0);
  EXPECT_EQ(*first_row(method(Json::array({proposes(4)}))), 1);
  EXPECT_FALSE(first_row(method(Json::array({proposes(3)}))).ok());
  EXPECT_FALSE(first_row(method(Json::array({proposes(6)}))).ok());
  // Without a default the first method counts.
  EXPECT_EQ(*first_row([&](Json* c, TestTensors* t) {
    method(Json::array({proposes(4), proposes(5)}))(c, t);
    (*c)["speculators_config"].erase("default_proposal_method");
  }),
            1);
  for (const bool anchor : {true, false}) {
    EXPECT_EQ(*first_row([&](Json* c, TestTensors*) {
      c->erase("speculators_config");
      (*c)["sample_from_anchor"] = anchor;
    }),
              anchor ? 0 : 1);
  }
  const auto silent = [](Json* c, TestTensors*) { c->erase("speculators_config"); };
  EXPECT_THAT(first_row(silent).status().message(),
              HasSubstr("neither speculative_tokens nor sample_from_anchor"));
  EXPECT_EQ(*first_row(silent, R"({"sample_from_anchor": false})"), 1);
  // A converter's mistake can be overruled.
  const auto both = [&](Json* c, TestTensors* t) {
    method(Json::array({proposes(4)}))(c, t);
    (*c)["sample_from_anchor"] = true;
  };
  EXPECT_FALSE(first_row(both).ok());
  EXPECT_EQ(*first_row(both, R"({"sample_from_anchor": true})"), 0);
  EXPECT_THAT(first_row(both, R"({"sample_from_anchor": 1})").status().message(),
              HasSubstr("sample_from_anchor is 1"));
}

// One sentence that names the method to use instead.
TEST_F(BlockDrafterConfigTest, TheOtherMethodIsNamed) {
  const auto as = [&](const BlockLayout& layout, const char* method) {
    const Status status = StatusOf(
        layout, [](Json*, TestTensors*) {}, method);
    EXPECT_EQ(status.code(), kUnknown);
    return status.message();
  };
  EXPECT_THAT(as(ZLab("full", {1, 4}, 0, {}), "dspark"),
              HasSubstr("architecture is \"DFlashDraftModel\", which method dspark does not read: "
                        "expected method dflash, or auto"));
  EXPECT_THAT(as(DeepSpec("rnn", "dspark"), "dflash"),
              HasSubstr("markov_rank is 8, a Markov head, which method dflash does not compute: "
                        "expected method dspark, or auto"));
  EXPECT_THAT(as(Speculators("x", "rnn", 4), "dflash"),
              HasSubstr("speculators_model_type is \"dspark\", which method dflash does not read: "
                        "expected method dspark, or auto"));
  EXPECT_THAT(as(Speculators("x", "", 4), "dspark"), HasSubstr("expected method dflash, or auto"));
}

}  // namespace
}  // namespace firesteel
