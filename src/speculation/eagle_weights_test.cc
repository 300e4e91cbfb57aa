// Checkpoints of the EAGLE family that load, and what is said of those that do not.
#include <gmock/gmock.h>

#include "base/mapped_file.h"
#include "speculation/eagle3_internal.h"
#include "speculation/eagle_test_support.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class EagleWeightsTest : public ::testing::Test, public EagleFixture {
 protected:
  struct Checkpoint {
    Json config;
    TestTensors tensors;
  };
  static Checkpoint Read(const std::string& name) {
    const std::string directory = SourcePath("models/tiny/" + name);
    const Result<Safetensors> file = Safetensors::Open(directory);
    FS_CHECK(file.ok(), "{}", file.status().message());
    Checkpoint c{*ReadConfigJson(directory), {}};
    for (const auto& [tensor, info] : file->tensors()) {
      const auto bytes = static_cast<size_t>(info.NumElements()) * SizeOf(info.dtype);
      c.tensors[tensor] = {info.dtype, info.shape,
                           std::string(reinterpret_cast<const char*>(info.data), bytes)};
    }
    return c;
  }
  using Change = void (*)(Checkpoint&);
  // What loading says when the checkpoint is changed first.
  Status StatusOf(const std::string& name, Change change, const char* config = "{}",
                  int32_t tokens = 0) {
    Checkpoint c = Read(name);
    change(c);
    const TempDir dir;
    WriteCheckpoint(dir, c.config, c.tensors);
    return MakerOf(name)(Context(dir.path(), config, tokens), nullptr).status();
  }
  Draft DraftOf(const std::string& directory, const std::string& name) {
    const std::vector<int32_t> tokens = Text(30, 9);
    EaglePair pair(exec_, *target_, Context(directory), MakerOf(name));
    pair.Prefill(0, tokens);
    return pair.Propose(Query(0, tokens, 3));
  }
};

void SetOffset(std::string* bytes, size_t i, int64_t offset) {
  std::memcpy(bytes->data() + 8 * i, &offset, 8);
}

TEST_F(EagleWeightsTest, SaysWhatIsWrong) {
  struct Case {
    const char* name;
    Change change;
    const char* message;
  };
  const Case cases[] = {
      {"eagle3", [](auto& c) { c.config["architectures"] = {"Qwen3DSparkModel"}; },
       "architecture is \"Qwen3DSparkModel\", the eagle3 drafter reads Qwen3Eagle3Model"},
      {"eagle3", [](auto& c) { c.config["num_hidden_layers"] = 2; },
       "num_hidden_layers is 2, the eagle3 drafter computes 1"},
      {"eagle3", [](auto& c) { c.config["vocab_size"] = 511; },
       "vocab_size is 511, the target has 512"},
      {"eagle3", [](auto& c) { c.config["num_target_layers"] = 7; },
       "num_target_layers is 7, the target has 6"},
      {"eagle3",
       [](auto& c) {
         c.config["target_layer_ids"] = {0, 5};
       },
       "target_layer_ids holds 5, the target's last layer"},
      {"eagle3", [](auto& c) { c.config.erase("target_layer_ids"); },
       "target_layer_ids holds 0 layers"},
      {"eagle3",
       [](auto& c) {
         c.config["target_layer_ids"] = {0, 2};
       },
       "tensor fc.weight is [64, 192], config wants [64, 128]"},
      {"eagle3", [](auto& c) { c.config["ttt_length"] = 0; }, "ttt_length"},
      {"eagle3", [](auto& c) { c.config["norm_before_residual"] = 1; }, "norm_before_residual"},
      {"eagle3", [](auto& c) { c.config["eagle_config"] = 3; },
       "eagle_config is 3, expected an object"},
      {"eagle3", [](auto& c) { c.tensors.erase("layers.0.hidden_norm.weight"); },
       "tensor layers.0.hidden_norm.weight is missing"},
      {"eagle3", [](auto& c) { c.tensors["extra"] = c.tensors["norm.weight"]; }, "extra"},
      {"eagle3_specforge",
       [](auto& c) {
         c.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {1, 3, 6};
       },
       "eagle_aux_hidden_state_layer_ids, less one, holds 5, the target's last layer"},
      {"eagle3_specforge",
       [](auto& c) { c.config["eagle_config"]["use_aux_hidden_state"] = false; },
       "eagle_config.use_aux_hidden_state is false, which the eagle3 drafter does not compute"},
      {"eagle3_specforge", [](auto& c) { c.config["fc_norm"] = true; }, "fc_norm is true"},
      {"eagle3_specforge", [](auto& c) { c.config["target_hidden_size"] = 128; },
       "target_hidden_size is 128, the target has 64"},
      {"eagle3_specforge", [](auto& c) { c.config["draft_vocab_size"] = 513; }, "draft_vocab_size"},
      {"eagle3_specforge", [](auto& c) { c.tensors.erase("d2t"); },
       "tensor d2t is missing, which names the tokens of a draft vocabulary of 128"},
      {"eagle3_specforge", [](auto& c) { c.tensors.erase("lm_head.weight"); },
       "has no lm_head.weight, and the target has none of 128 rows to share"},
      {"eagle3_specforge",
       [](auto& c) {
         c.tensors["d2t"].shape = {2, 64};
       },
       "tensor d2t is I64 [128], expected I64 [128]"},
      {"eagle3_specforge", [](auto& c) { SetOffset(&c.tensors["d2t"].bytes, 5, 0); },
       "d2t[5] is 0, expected offsets that lead to ascending ids below 512"},
      {"eagle3_specforge", [](auto& c) { SetOffset(&c.tensors["d2t"].bytes, 127, 385); },
       "d2t[127] is 385"},
      {"eagle3_specforge", [](auto& c) { SetOffset(&c.tensors["d2t"].bytes, 0, INT64_MAX); },
       "d2t[0] is 9223372036854775807"},
      {"eagle3_specforge", [](auto& c) { c.config["norm_before_fc"] = true; },
       "tensor input_norm.weight is missing"},
      {"eagle3_speculators", [](auto& c) { c.config["speculators_model_type"] = "dflash"; },
       "speculators_model_type is \"dflash\", the eagle3 drafter reads \"eagle3\""},
      {"eagle3_speculators", [](auto& c) { c.config["transformer_layer_config"] = "llama"; },
       "transformer_layer_config is \"llama\", expected an object"},
      {"eagle", [](auto& c) { c.config["architectures"] = {"MedusaModel"}; },
       "architecture is \"MedusaModel\", the eagle drafter reads"},
      {"eagle", [](auto& c) { c.config["num_hidden_layers"] = 2; },
       "num_hidden_layers is 2, the eagle drafter computes 1"},
      {"eagle", [](auto& c) { c.config["hidden_size"] = 32; },
       "hidden_size is 32, the target has 64"},
      {"eagle",
       [](auto& c) {
         c.tensors["fc.bias"].shape = {32, 2};
       },
       "tensor fc.bias is [32, 2]"},
      {"eagle",
       [](auto& c) {
         c.tensors["layers.0.input_layernorm.weight"] =
             c.tensors["layers.0.post_attention_layernorm.weight"];
       },
       "layers.0.input_layernorm.weight"},
  };
  for (const Case& c : cases) {
    const Status status = StatusOf(c.name, c.change);
    EXPECT_NE(status.code(), StatusCode::kOk) << c.message;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
  for (const char* name : {"eagle", "eagle3", "eagle3_specforge", "eagle3_speculators"}) {
    const Status status = StatusOf(name, [](auto&) {});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(MakerOf(name)(Context(""), nullptr).status().message(),
                HasSubstr("no drafter checkpoint was named"));
  }
}

TEST_F(EagleWeightsTest, ReadsItsOptions) {
  const auto say = [&](const char* config, int32_t tokens = 0) {
    return StatusOf(
               "eagle3", [](auto&) {}, config, tokens)
        .message();
  };
  EXPECT_THAT(say(R"({"top_k":4})"),
              HasSubstr("\"top_k\" is no key of the EAGLE drafters (did you mean topk?)"));
  EXPECT_THAT(say(R"({"topk":0})"), HasSubstr("topk is 0, expected an integer from 1 to 32"));
  EXPECT_THAT(say(R"({"num_steps":65})"), HasSubstr("num_steps is 65"));
  EXPECT_THAT(say(R"({"num_draft_tokens":1})"), HasSubstr("num_draft_tokens is 1"));
  EXPECT_THAT(say(R"({"draft_sample_method":"best"})"), HasSubstr("draft_sample_method"));
  EXPECT_THAT(say(R"({"num_steps":3})", 4), HasSubstr("num_steps is 3 and 4 tokens are drafted"));
  struct Case {
    const char* config;
    int32_t tokens, max_tokens, max_depth;
  };
  for (const Case& c : {Case{"{}", 0, 4, 0}, Case{"{}", 9, 9, 0}, Case{"{}", 500, 64, 0},
                        Case{R"({"num_steps":3,"draft_tensor_parallel_size":1})", 0, 3, 0},
                        Case{R"({"num_draft_tokens":6})", 0, 5, 0}, Case{R"({"topk":4})", 0, 59, 4},
                        Case{R"({"topk":4})", 12, 12, 4},
                        Case{R"({"topk":8,"num_steps":5,"num_draft_tokens":32})", 0, 31, 5}}) {
    const auto made = MakeEagle3WithProbe(Tiny("eagle3", c.config, c.tokens), nullptr);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->info().max_tokens, c.max_tokens) << c.config;
    EXPECT_EQ((*made)->info().max_depth, c.max_depth) << c.config;
  }
}

// Ways to say the same.
TEST_F(EagleWeightsTest, LayoutsOfTheSameWeights) {
  const Draft expected = DraftOf(SourcePath("models/tiny/eagle3_specforge"), "eagle3");
  const auto draft = [&](Change change) {
    Checkpoint c = Read("eagle3_specforge");
    change(c);
    const TempDir dir;
    WriteCheckpoint(dir, c.config, c.tensors);
    return DraftOf(dir.path(), "eagle3");
  };
  EXPECT_TRUE(SameDraft(expected, draft([](auto& c) {
                          TestTensors renamed;
                          for (auto& [name, tensor] : c.tensors) {
                            const bool layer = name.starts_with("midlayer.");
                            renamed[layer ? "layers.0." + name.substr(9) : name] = tensor;
                          }
                          c.tensors = renamed;
                          c.tensors.erase("t2d");
                        })));
  EXPECT_TRUE(SameDraft(expected, draft([](auto& c) {
                          c.config["eagle_aux_hidden_state_layer_ids"] =
                              c.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"];
                          c.config.erase("eagle_config");
                          c.config["target_hidden_size"] = nullptr;
                        })));
  EXPECT_TRUE(SameDraft(expected, draft([](auto& c) {
                          Json layer = c.config;
                          layer.erase("architectures");
                          Json outer = {{"architectures", {"Eagle3DraftModel"}},
                                        {"speculators_model_type", "eagle3"},
                                        {"draft_vocab_size", 128},
                                        {"eagle_aux_hidden_state_layer_ids", {1, 3, 5}}};
                          outer["transformer_layer_config"] = layer;
                          c.config = outer;
                        })));
  // One layer off, as the other conventions would have it.
  EXPECT_FALSE(SameDraft(expected, draft([](auto& c) {
                           c.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0, 2, 4};
                         })));
}

// DeepSpec allows any number of layers.
TEST_F(EagleWeightsTest, AnyNumberOfTargetLayers) {
  Checkpoint c = Read("eagle3");
  for (const size_t m : {1u, 2u, 5u}) {
    const std::vector<int32_t> ids = {4, 0, 3, 1, 2};
    c.config["target_layer_ids"] =
        std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<int64_t>(m));
    c.tensors["fc.weight"] =
        RandomTensor("fc.weight", {64, static_cast<int64_t>(m) * 64}, DType::kBF16, 0.2f);
    const TempDir dir;
    WriteCheckpoint(dir, c.config, c.tensors);
    EXPECT_EQ(DraftOf(dir.path(), "eagle3").tokens.size(), 3u);
  }
}

}  // namespace
}  // namespace firesteel
