// One small random checkpoint of every block drafter format, and how an oracle is to read it. Tests
// only.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "speculation/block_drafter_oracle.h"
#include "speculation/block_drafter_test_support.h"

namespace firesteel {

struct BlockLayout {
  std::string name;
  std::string method;
  Json config;
  Json decoder;  // the flat fields that an oracle reads
  TestTensors tensors;
  OracleLayout oracle;
};

// Of TinyDsparkConfig, every other field as there: `head` "" has neither head.
inline Json DeepSpecConfig(const std::string& head, int64_t block) {
  Json config = TinyDsparkConfig();
  config["block_size"] = block;
  config["markov_rank"] = head.empty() ? 0 : 8;
  config["markov_head_type"] = head.empty() ? "vanilla" : head;
  config["enable_confidence_head"] = !head.empty();
  config["confidence_head_with_markov"] = !head.empty();
  return config;
}

inline BlockLayout DeepSpec(const std::string& head, const std::string& method) {
  BlockLayout layout;
  layout.name = "deepspec_" + (head.empty() ? "without_heads_as_" + method : head);
  layout.method = method;
  layout.config = layout.decoder = DeepSpecConfig(head, 5);
  layout.tensors = RandomDspark(layout.config, DType::kBF16);
  layout.oracle = {.layers = {-1, 1, 4}, .block = 5, .head = head};
  layout.oracle.confidence = layout.oracle.confidence_with_markov = !head.empty();
  return layout;
}

// z-lab's, without target_layer_ids when `layers` is empty. `window` 0: full attention.
inline BlockLayout ZLab(const std::string& name, std::vector<int32_t> layers, int64_t window,
                        std::optional<bool> causal) {
  BlockLayout layout;
  layout.name = "zlab_" + name;
  layout.method = "dflash";
  layout.decoder = DeepSpecConfig("", 5);
  Json& config = layout.config = TinyQwen3Config();
  for (const char* key : {"num_hidden_layers", "num_attention_heads", "head_dim",
                          "intermediate_size", "num_target_layers", "block_size"}) {
    config[key] = layout.decoder[key];
  }
  config["architectures"] = {"DFlashDraftModel"};
  config["tie_word_embeddings"] = false;
  config["dflash_config"] = {{"mask_token_id", 511}};
  // For L = 6 and two layers of its own: round(1 + i (6 - 4) / 1).
  layout.oracle = {.layers = {1, 3}, .block = 5, .first_row = 1};
  if (!layers.empty()) {
    config["dflash_config"]["target_layer_ids"] = layers;
    layout.oracle.layers = layers;
  }
  if (window > 0) {
    config["layer_types"] = {"sliding_attention", "full_attention"};
    config["sliding_window"] = window;
    config["use_sliding_window"] = true;
    layout.oracle.window = {window, 0};
    layout.oracle.causal = {causal.value_or(true), causal.value_or(false)};
  }
  if (causal) config["is_causal"] = *causal;
  layout.decoder["target_layer_ids"] = layout.oracle.layers;
  layout.tensors = RandomDspark(layout.decoder, DType::kBF16);
  return layout;
}

inline TestTensor Int64s(const std::vector<int64_t>& values) {
  TestTensor tensor{DType::kI64, {static_cast<int64_t>(values.size())}, ""};
  tensor.bytes.resize(values.size() * 8);
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// A head over `size` of the target's 512 tokens, not quite in their order.
inline void ReduceVocabulary(int32_t size, BlockLayout* layout) {
  std::vector<int32_t>& ids = layout->oracle.vocabulary;
  for (int32_t i = 0; i < size; ++i) ids.push_back(3 * i + i % 3);
  std::swap(ids[5], ids[6]);
  std::vector<int64_t> offsets;
  for (int32_t i = 0; i < size; ++i) offsets.push_back(ids[static_cast<size_t>(i)] - i);
  TestTensors& t = layout->tensors;
  t["d2t"] = Int64s(offsets);
  t["t2d"] = {DType::kBool, {512}, std::string(512, '\1')};
  t["lm_head.weight"] = RandomTensor("own head", {size, 64}, DType::kBF16, 1);
  if (t.contains("markov_head.markov_w2.weight")) {
    t["markov_head.markov_w2.weight"] = RandomTensor("w2", {size, 8}, DType::kBF16, 2);
  }
  layout->config["draft_vocab_size"] = size;
}

// An export of speculators: `head` "" is its dflash, else its dspark; `tokens` of a block of five.
inline BlockLayout Speculators(const std::string& name, const std::string& head, int64_t tokens) {
  BlockLayout layout;
  layout.name = "speculators_" + name;
  layout.method = head.empty() ? "dflash" : "dspark";
  layout.decoder = DeepSpecConfig(head, 5);
  Json backbone = Json::object();
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps",
                          "rope_theta", "max_position_embeddings", "hidden_act"}) {
    backbone[key] = layout.decoder[key];
  }
  backbone["model_type"] = "qwen3";
  layout.config = {{"architectures", {head.empty() ? "DFlashDraftModel" : "DSparkDraftModel"}},
                   {"speculators_model_type", layout.method},
                   {"speculators_config",
                    {{"algorithm", layout.method},
                     {"default_proposal_method", "greedy"},
                     {"proposal_methods",
                      {{{"proposal_type", "sampled"}, {"speculative_tokens", 2}},
                       {{"proposal_type", "greedy"}, {"speculative_tokens", tokens}}}},
                     {"verifier", {{"name_or_path", "a target"}}}}},
                   {"transformer_layer_config", backbone},
                   {"aux_hidden_state_layer_ids", {0, 2, 5}},
                   {"block_size", 5},
                   {"mask_token_id", 511},
                   {"draft_vocab_size", 512},
                   {"target_hidden_size", nullptr},
                   {"tie_word_embeddings", false}};
  for (const char* key : {"markov_rank", "markov_head_type", "enable_confidence_head",
                          "confidence_head_with_markov"}) {
    if (!head.empty()) layout.config[key] = layout.decoder[key];
  }
  layout.tensors = RandomDspark(layout.decoder, DType::kBF16);
  layout.tensors["mask_embedding"] = RandomTensor("mask_embedding", {64}, DType::kBF16, 1);
  layout.oracle = {.layers = {-1, 1, 4}, .block = 5, .first_row = 5 - tokens, .head = head};
  layout.oracle.confidence = layout.oracle.confidence_with_markov = !head.empty();
  return layout;
}

inline BlockLayout WithWindow(BlockLayout layout, int64_t window, bool both_ways) {
  Json& backbone = layout.config["transformer_layer_config"];
  backbone["layer_types"] = {"full_attention", "sliding_attention"};
  backbone["sliding_window"] = window;
  backbone["use_sliding_window"] = true;
  layout.config["sliding_window_non_causal"] = both_ways;
  layout.oracle.window = {0, window};
  layout.oracle.causal = {false, !both_ways};
  return layout;
}

inline BlockLayout WithFewTokens(BlockLayout layout, int32_t size) {
  ReduceVocabulary(size, &layout);
  return layout;
}

inline std::vector<BlockLayout> AllBlockLayouts() {
  return {DeepSpec("vanilla", "dspark"),
          DeepSpec("gated", "dspark"),
          DeepSpec("rnn", "dspark"),
          DeepSpec("", "dspark"),
          DeepSpec("", "dflash"),
          ZLab("full", {-1, 1, 4}, 0, {}),
          ZLab("default_layers", {}, 0, {}),
          ZLab("sliding", {1, 4}, 8, {}),
          ZLab("sliding_both_ways", {1, 4}, 8, false),
          ZLab("window_within_block", {1, 4}, 3, false),
          ZLab("causal_window_within_block", {1, 4}, 3, {}),
          ZLab("all_causal", {1, 4}, 20, true),
          Speculators("anchor", "vanilla", 5),
          Speculators("behind_anchor", "rnn", 4),
          Speculators("dflash", "", 4),
          WithFewTokens(Speculators("few_tokens", "gated", 4), 128),
          WithFewTokens(Speculators("dflash_few_tokens", "", 5), 100),
          WithWindow(Speculators("sliding", "vanilla", 4), 8, false),
          WithWindow(Speculators("sliding_both_ways", "vanilla", 5), 8, true)};
}

}  // namespace firesteel
