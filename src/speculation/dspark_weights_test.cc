#include <gmock/gmock.h>

#include "speculation/block_drafter_test_support.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

TEST_F(DsparkTest, EmbeddingAndHeadOfItsOwn) {
  const std::vector<int32_t> tokens = Text(25, 9);
  const TestTensors target = RandomQwen3(TinyQwen3Config(), DType::kBF16);
  const auto draft = [&](const std::function<void(TestTensors*)>& change, int64_t* bytes) {
    const TempDir dir;
    TestTensors tensors = RandomDspark(TinyDsparkConfig(), DType::kBF16);
    change(&tensors);
    WriteCheckpoint(dir, TinyDsparkConfig(), tensors);
    Pair pair(exec_, *target_, Context(dir.path()));
    *bytes = pair.drafter().info().weight_bytes;
    pair.Prefill(0, tokens);
    pair.Propose(Query(0, tokens, 5));
    return pair.probe().logits;
  };
  int64_t bytes[4];
  const auto shared = draft([](TestTensors*) {}, &bytes[0]);
  const auto copies = draft(
      [&](TestTensors* t) {
        (*t)["embed_tokens.weight"] = (*t)["lm_head.weight"] =
            target.at("model.embed_tokens.weight");
      },
      &bytes[1]);
  const auto own_head = draft(
      [](TestTensors* t) {
        (*t)["lm_head.weight"] = RandomTensor("x", {512, 64}, DType::kBF16, 1);
      },
      &bytes[2]);
  const auto own_embedding = draft(
      [](TestTensors* t) {
        (*t)["embed_tokens.weight"] = RandomTensor("x", {512, 64}, DType::kF32, 1);
      },
      &bytes[3]);
  EXPECT_EQ(copies, shared);
  EXPECT_NE(own_head, shared);
  EXPECT_NE(own_embedding, shared);
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(DsparkTest, BadCheckpoints) {
  using C = Json*;
  using T = TestTensors*;
  struct Case {
    std::function<void(C, T)> change;
    StatusCode code;
    std::vector<std::string> parts;
  };
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument, kUnknown = StatusCode::kUnsupported,
                       kCorrupt = StatusCode::kDataCorrupt;
  const std::vector<Case> cases = {
      {[](C c, T) { (*c)["architectures"] = {"Gemma4DSparkModel"}; },
       kUnknown,
       {"Gemma4DSparkModel", "Qwen3DSparkModel"}},
      {[](C c, T) {
         (*c)["vocab_size"] = 500;
         (*c)["mask_token_id"] = 499;
       },
       kInvalid,
       {"vocab_size is 500, the target has 512"}},
      {[](C c, T) { (*c)["hidden_size"] = 32; },
       kInvalid,
       {"hidden_size is 32, the target has 64"}},
      {[](C c, T) { (*c)["num_target_layers"] = 36; },
       kInvalid,
       {"num_target_layers is 36, the target has 6"}},
      {[](C c, T) { c->erase("num_target_layers"); }, kInvalid, {"num_target_layers is missing"}},
      {[](C c, T) { (*c)["block_size"] = 0; }, kInvalid, {"block_size is 0"}},
      {[](C c, T) { c->erase("block_size"); }, kInvalid, {"block_size is missing"}},
      {[](C c, T) { (*c)["block_size"] = 1000000; }, kInvalid, {"block_size is 1000000"}},
      {[](C c, T) { (*c)["mask_token_id"] = 512; }, kInvalid, {"mask_token_id is 512", "0 to 511"}},
      {[](C c, T) { (*c)["mask_token_id"] = -1; }, kInvalid, {"mask_token_id is -1"}},
      {[](C c, T) {
         (*c)["target_layer_ids"] = {-1, 1, 5};
       },
       kInvalid,
       {"target_layer_ids holds 5", "last layer"}},
      {[](C c, T) {
         (*c)["target_layer_ids"] = {-2, 1, 4};
       },
       kInvalid,
       {"target_layer_ids holds -2", "-1 to 4"}},
      {[](C c, T) {
         (*c)["target_layer_ids"] = {1, 2, 99};
       },
       kInvalid,
       {"target_layer_ids holds 99"}},
      {[](C c, T) { (*c)["target_layer_ids"] = Json::array(); },
       kInvalid,
       {"target_layer_ids holds 0 layers"}},
      {[](C c, T) { (*c)["target_layer_ids"] = 3; }, kInvalid, {"target_layer_ids is 3"}},
      {[](C c, T) { c->erase("target_layer_ids"); }, kInvalid, {"target_layer_ids"}},
      {[](C c, T) { (*c)["markov_rank"] = -8; }, kInvalid, {"markov_rank is -8"}},
      {[](C c, T) { (*c)["markov_head_type"] = "lstm"; },
       kUnknown,
       {"markov_head_type is \"lstm\"", "vanilla, gated or rnn"}},
      {[](C c, T) { (*c)["markov_head_type"] = "gated"; },
       kCorrupt,
       {"markov_head.gate_proj.weight is missing"}},
      {[](C c, T) { (*c)["markov_head_type"] = "rnn"; },
       kCorrupt,
       {"markov_head.joint_proj.weight is missing"}},
      {[](C c, T t) {
         (*c)["markov_head_type"] = "rnn";
         (*t)["markov_head.joint_proj.weight"] = RandomTensor("x", {24, 72}, DType::kBF16, 1);
       },
       kCorrupt,
       {"markov_head.joint_proj.weight is [24, 72], config wants [24, 80]"}},
      {[](C c, T) { (*c)["markov_rank"] = 0; },
       kInvalid,
       {"confidence_head_with_markov", "markov_rank is 0"}},
      {[](C c, T) {
         (*c)["layer_types"] = {"full_attention", "sliding_attention"};
       },
       kInvalid,
       {"sliding_window is missing"}},
      {[](C c, T) {
         (*c)["layer_types"] = {"full_attention", "sliding_attention"};
         (*c)["sliding_window"] = 0;
       },
       kInvalid,
       {"sliding_window is 0"}},
      {[](C c, T) {
         (*c)["layer_types"] = {"full_attention", "sliding_attention"};
         (*c)["sliding_window"] = 64;
         (*c)["use_sliding_window"] = false;
       },
       kInvalid,
       {"sliding_attention", "use_sliding_window is false"}},
      {[](C c, T) {
         (*c)["layer_types"] = {"full_attention", "linear_attention"};
       },
       kUnknown,
       {"layer_types holds \"linear_attention\""}},
      {[](C c, T) { (*c)["layer_types"] = {"full_attention"}; },
       kInvalid,
       {"layer_types is [\"full_attention\"], expected a list of 2 names"}},
      {[](C c, T) { (*c)["use_sliding_window"] = true; }, kUnknown, {"use_sliding_window"}},
      {[](C, T t) { t->erase("fc.weight"); }, kCorrupt, {"tensor fc.weight is missing"}},
      {[](C, T t) {
         (*t)["fc.weight"] = RandomTensor("x", {64, 128}, DType::kBF16, 1);
       },
       kCorrupt,
       {"fc.weight is [64, 128], config wants [64, 192]"}},
      {[](C, T t) {
         (*t)["markov_head.gate_proj.weight"] = RandomTensor("x", {8, 72}, DType::kBF16, 1);
       },
       kCorrupt,
       {"markov_head.gate_proj.weight is extra"}},
      {[](C, T t) {
         (*t)["markov_head.markov_w2.weight"] = RandomTensor("x", {512, 9}, DType::kBF16, 1);
       },
       kCorrupt,
       {"markov_w2.weight is [512, 9]"}},
      {[](C, T t) {
         (*t)["markov_head.markov_w1.weight"] = {DType::kI8, {512, 8}, std::string(4096, '\0')};
       },
       kUnknown,
       {"markov_w1.weight is I8"}},
      {[](C, T t) {
         (*t)["confidence_head.proj.weight"] = RandomTensor("x", {1, 64}, DType::kBF16, 1);
       },
       kCorrupt,
       {"confidence_head.proj.weight is [1, 64], config wants [1, 72]"}},
      {[](C, T t) {
         (*t)["lm_head.weight"] = RandomTensor("x", {512, 32}, DType::kBF16, 1);
       },
       kCorrupt,
       {"lm_head.weight is [512, 32]"}},
      {[](C, T t) {
         (*t)["embed_tokens.weight"] = RandomTensor("x", {500, 64}, DType::kBF16, 1);
       },
       kCorrupt,
       {"embed_tokens.weight is [500, 64]"}},
      {[](C, T t) { t->erase("layers.1.self_attn.k_norm.weight"); },
       kCorrupt,
       {"layers.1.self_attn.k_norm.weight is missing"}},
  };
  EXPECT_TRUE(StatusOf([](C, T) {}).ok());
  for (const Case& c : cases) {
    const Status status = StatusOf(c.change);
    EXPECT_EQ(status.code(), c.code) << status.message();
    for (const std::string& part : c.parts) EXPECT_THAT(status.message(), HasSubstr(part));
  }
  EXPECT_EQ(MakeDspark(Context("")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeDspark(Context("/nonexistent")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace firesteel
