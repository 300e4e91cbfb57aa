#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/architectures.h"
#include "model/test_checkpoint.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DecoderConfig, ReadsTheFields) {
  const Result<DecoderConfig> c = ParseDecoderConfig(TinyQwen3Config(), "config.json");
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(c->vocab_size, 512);
  EXPECT_EQ(c->hidden_size, 64);
  EXPECT_EQ(c->intermediate_size, 128);
  EXPECT_EQ(c->num_layers, 6);
  EXPECT_EQ(c->num_heads, 4);
  EXPECT_EQ(c->num_kv_heads, 2);
  EXPECT_EQ(c->head_dim, 32);
  EXPECT_EQ(c->rope_theta, 1e6);
  EXPECT_EQ(c->norm_eps, 1e-6f);
  EXPECT_EQ(c->max_positions, 512);
  EXPECT_TRUE(c->tie_embeddings);
  EXPECT_THAT(c->eos_ids, ElementsAre(1));
}

// What published files say in passing, and what newer writers moved.
TEST(DecoderConfig, AcceptsHarmlessVariants) {
  Json config = TinyQwen3Config();
  config["rope_scaling"] = nullptr;
  config["sliding_window"] = 4096;
  config["use_sliding_window"] = false;
  config["attention_bias"] = false;
  config["layer_types"] = {"full_attention", "full_attention"};
  config["quantization_config"] = {
      {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  config["eos_token_id"] = {5, 7};
  config.erase("head_dim");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000000}};
  const Result<DecoderConfig> c = ParseDecoderConfig(config, "config.json");
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->head_dim, 16);
  EXPECT_EQ(c->rope_theta, 5e6);
  EXPECT_THAT(c->eos_ids, ElementsAre(5, 7));
}

TEST(DecoderConfig, Llama) {
  Json config = TinyLlamaConfig();
  config.erase("rope_theta");
  config.erase("head_dim");
  const Result<DecoderConfig> c = ParseDecoderConfig(config, "config.json");
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_FALSE(c->qk_norms);
  EXPECT_EQ(c->rope_theta, 10000);
  EXPECT_EQ(c->head_dim, 16);
  EXPECT_EQ(c->rope_scaling.factor, 8);
  EXPECT_EQ(c->rope_scaling.low_freq_factor, 1);
  EXPECT_EQ(c->rope_scaling.high_freq_factor, 4);
  EXPECT_EQ(c->rope_scaling.original_max_positions, 64);
  // As newer writers have it: all in one object.
  Json rope = config["rope_scaling"];
  rope["rope_theta"] = 500000;
  config["rope_parameters"] = rope;
  config.erase("rope_scaling");
  const Result<DecoderConfig> newer = ParseDecoderConfig(config, "config.json");
  ASSERT_TRUE(newer.ok()) << newer.status().message();
  EXPECT_EQ(newer->rope_theta, 500000);
  EXPECT_EQ(newer->rope_scaling.factor, 8);

  const Result<DecoderConfig> qwen3 = ParseDecoderConfig(TinyQwen3Config(), "config.json");
  ASSERT_TRUE(qwen3.ok());
  EXPECT_TRUE(qwen3->qk_norms);
  EXPECT_EQ(qwen3->rope_scaling.factor, 1);
}

struct Hostile {
  const char* name;
  const char* patch;  // merged into a good config; null deletes
  StatusCode code;
  std::vector<std::string> message;
};

constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
constexpr StatusCode kUnknown = StatusCode::kUnsupported;

std::vector<Hostile> HostileConfigs() {
  return {
      {"ArchitecturesMissing", R"({"architectures":null})", kInvalid, {"architectures"}},
      {"ArchitecturesString",
       R"({"architectures":"Qwen3ForCausalLM"})",
       kInvalid,
       {"architectures"}},
      {"ArchitecturesTwo", R"({"architectures":["a","b"]})", kInvalid, {"architectures"}},
      {"VocabMissing", R"({"vocab_size":null})", kInvalid, {"vocab_size is missing"}},
      {"VocabZero", R"({"vocab_size":0})", kInvalid, {"vocab_size is 0"}},
      {"VocabHuge",
       R"({"vocab_size":4611686018427387904})",
       kInvalid,
       {"vocab_size is 4611686018427387904"}},
      {"VocabString", R"({"vocab_size":"512"})", kInvalid, {"vocab_size is a string"}},
      {"HiddenNegative", R"({"hidden_size":-64})", kInvalid, {"hidden_size is -64"}},
      {"HiddenFraction", R"({"hidden_size":64.5})", kInvalid, {"hidden_size is 64.5"}},
      {"LayersZero", R"({"num_hidden_layers":0})", kInvalid, {"num_hidden_layers is 0"}},
      {"LayersHuge", R"({"num_hidden_layers":100000})", kInvalid, {"num_hidden_layers is 100000"}},
      {"HeadsNotMultiple",
       R"({"num_attention_heads":5})",
       kInvalid,
       {"num_attention_heads is 5", "num_key_value_heads, 2"}},
      {"KvHeadsZero", R"({"num_key_value_heads":0})", kInvalid, {"num_key_value_heads is 0"}},
      {"HeadDimOdd", R"({"head_dim":31})", kInvalid, {"head_dim is 31"}},
      {"HeadDimZero", R"({"head_dim":0})", kInvalid, {"head_dim is 0"}},
      // Attention's scratch holds no larger head.
      {"HeadDimHuge", R"({"head_dim":514})", kInvalid, {"head_dim is 514", "512"}},
      {"HeadDimDerivedZero", R"({"head_dim":null,"hidden_size":2})", kInvalid, {"head_dim is 0"}},
      {"IntermediateList",
       R"({"intermediate_size":[128]})",
       kInvalid,
       {"intermediate_size is an array"}},
      {"ThetaMissing", R"({"rope_theta":null})", kInvalid, {"rope_theta is missing"}},
      {"ThetaZero", R"({"rope_theta":0})", kInvalid, {"rope_theta is 0"}},
      {"ThetaNegative", R"({"rope_theta":-1e6})", kInvalid, {"rope_theta is -1000000"}},
      {"EpsZero", R"({"rms_norm_eps":0})", kInvalid, {"rms_norm_eps is 0"}},
      {"EpsTwo", R"({"rms_norm_eps":2})", kInvalid, {"rms_norm_eps is 2"}},
      {"PositionsMissing",
       R"({"max_position_embeddings":null})",
       kInvalid,
       {"max_position_embeddings is missing"}},
      {"PositionsHuge",
       R"({"max_position_embeddings":1000000000000})",
       kInvalid,
       {"max_position_embeddings is 1000000000000"}},
      {"TieNumber", R"({"tie_word_embeddings":1})", kInvalid, {"tie_word_embeddings is 1"}},
      {"EosBeyondVocab", R"({"eos_token_id":512})", kInvalid, {"eos_token_id is 512", "0 to 511"}},
      {"EosString", R"({"eos_token_id":"</s>"})", kInvalid, {"eos_token_id is a string"}},
      {"EosListNegative", R"({"eos_token_id":[1,-1]})", kInvalid, {"eos_token_id is -1"}},
      {"RopeScalingYarn",
       R"({"rope_scaling":{"rope_type":"yarn","factor":4}})",
       kUnknown,
       {"rope_scaling.rope_type is \"yarn\""}},
      {"RopeScalingList", R"({"rope_scaling":[4]})", kInvalid, {"rope_scaling is not an object"}},
      {"Llama3WithoutFactor",
       R"({"rope_scaling":{"rope_type":"llama3"}})",
       kInvalid,
       {"rope_scaling.factor is missing"}},
      {"Llama3FactorBelowOne",
       R"({"rope_scaling":{"rope_type":"llama3","factor":0.5}})",
       kInvalid,
       {"rope_scaling.factor is 0.5", "from 1 to"}},
      {"Llama3Crossed",
       R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,)"
       R"("high_freq_factor":4,"original_max_position_embeddings":8192}})",
       kInvalid,
       {"rope_scaling.low_freq_factor is 4, expected less than high_freq_factor, 4"}},
      {"RopePartial",
       R"({"rope_parameters":{"partial_rotary_factor":0.5}})",
       kUnknown,
       {"partial_rotary_factor is 0.5"}},
      {"SlidingWindow", R"({"use_sliding_window":true})", kUnknown, {"use_sliding_window is true"}},
      {"SlidingLayer",
       R"({"layer_types":["full_attention","sliding_attention"]})",
       kUnknown,
       {"sliding_attention"}},
      {"AttentionBias", R"({"attention_bias":true})", kUnknown, {"attention_bias is true"}},
      {"Gelu", R"({"hidden_act":"gelu"})", kUnknown, {"hidden_act is \"gelu\""}},
      {"Quantized",
       R"({"quantization_config":{"quant_method":"gptq"}})",
       kUnknown,
       {"quantization_config.quant_method is \"gptq\", this engine reads \"fp8\" only"}},
      {"QuantizedInOtherBlocks",
       R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[1,128]}})",
       kUnknown,
       {"quantization_config.weight_block_size is [1,128]"}},
      {"QuantizedWithoutBlocks",
       R"({"quantization_config":{"quant_method":"fp8"}})",
       kUnknown,
       {"quantization_config.weight_block_size is missing"}},
      {"QuantizedSomehow",
       R"({"quantization_config":7})",
       kUnknown,
       {"quantization_config.quant_method is missing"}},
  };
}

class HostileConfig : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileConfig, IsOneClearSentence) {
  Json config = TinyQwen3Config();
  config.merge_patch(*ParseJson(GetParam().patch, "patch"));
  const Status status = ParseDecoderConfig(config, "demo/config.json").status();
  EXPECT_EQ(status.code(), GetParam().code) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("demo/config.json: "));
  for (const std::string& part : GetParam().message) EXPECT_THAT(status.message(), HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Table, HostileConfig, ::testing::ValuesIn(HostileConfigs()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ConfigJson, Files) {
  const TempDir dir;
  EXPECT_EQ(ReadConfigJson(dir.path()).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ReadConfigJson("Qwen/Qwen3-0.6B").status().message(),
              HasSubstr("Qwen/Qwen3-0.6B: is no directory, expected one that holds"));
  dir.Write("config.json", "{");
  EXPECT_EQ(ReadConfigJson(dir.path()).status().code(), StatusCode::kInvalidArgument);
  dir.Write("config.json", "[]");
  EXPECT_THAT(ReadConfigJson(dir.path()).status().message(), HasSubstr("not a JSON object"));
  dir.Write("config.json", DumpJson(TinyQwen3Config()));
  EXPECT_TRUE(ReadConfigJson(dir.path()).ok());
}

TEST(ConfigJson, EosIds) {
  const TempDir dir;
  Json config = TinyQwen3Config();
  EXPECT_THAT(*ReadEosIds(dir.path(), config), ElementsAre(1));
  dir.Write("generation_config.json", R"({"eos_token_id":[3,4]})");
  EXPECT_THAT(*ReadEosIds(dir.path(), config), ElementsAre(3, 4));
  dir.Write("generation_config.json", R"({"eos_token_id":9})");
  EXPECT_THAT(*ReadEosIds(dir.path(), config), ElementsAre(9));
  dir.Write("generation_config.json", R"({"temperature":0.6})");
  EXPECT_THAT(*ReadEosIds(dir.path(), config), ElementsAre(1));
  config["eos_token_id"] = nullptr;
  EXPECT_THAT(*ReadEosIds(dir.path(), config), IsEmpty());
  dir.Write("generation_config.json", R"({"eos_token_id":512})");
  EXPECT_THAT(ReadEosIds(dir.path(), config).status().message(),
              HasSubstr("generation_config.json: eos_token_id is 512"));
  dir.Write("generation_config.json", "nonsense");
  EXPECT_THAT(ReadEosIds(dir.path(), config).status().message(),
              HasSubstr("generation_config.json"));
}

TEST(ConfigJson, SamplingDefaults) {
  const TempDir dir;
  EXPECT_EQ(ReadSamplingDefaults(dir.path())->temperature, 1.0);
  dir.Write("generation_config.json",
            R"({"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":null,"do_sample":true})");
  const SamplingParams params = *ReadSamplingDefaults(dir.path());
  EXPECT_EQ(params.temperature, 0.6);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.top_p, 0.95);
  EXPECT_EQ(params.min_p, 0);
  EXPECT_EQ(params.repetition_penalty, 1);
  dir.Write("generation_config.json", R"({"top_p":"high"})");
  EXPECT_THAT(ReadSamplingDefaults(dir.path()).status().message(),
              AllOf(HasSubstr("generation_config.json"), HasSubstr("top_p")));
  dir.Write("generation_config.json", R"({"top_k":0.5})");
  EXPECT_THAT(ReadSamplingDefaults(dir.path()).status().message(), HasSubstr("top_k"));
}

TEST(LoadModel, UnknownArchitecture) {
  const TempDir dir;
  ThreadPool pool(1);
  Exec exec{pool};
  EXPECT_EQ(LoadModel(exec, dir.path(), {}).status().code(), StatusCode::kNotFound);
  dir.Write("config.json", R"({"architectures":["GPT2LMHeadModel"]})");
  const Status status = LoadModel(exec, dir.path(), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("GPT2LMHeadModel"), HasSubstr("Qwen3ForCausalLM")));
  dir.Write("config.json", DumpJson(TinyQwen3Config()));
  EXPECT_THAT(LoadModel(exec, dir.path(), {.weight_dtype = "int3"}).status().message(),
              HasSubstr("int3"));
  EXPECT_THAT(LoadModel(exec, dir.path(), {.ballast_layers = -1}).status().message(),
              HasSubstr("-1"));
  EXPECT_EQ(LoadModel(exec, dir.path(), {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace firesteel
