// Everything the engine can be told. Each field is a flag of `firesteel serve`; the comment says
// what changing it costs.
#pragma once

#include <cstdint>
#include <string>

namespace firesteel {

struct SpeculationOptions {
  std::string method =
      "none";  // a name of speculation/drafters.h, or "auto": what model or spec_model holds
  std::string model = "";       // drafter checkpoint directory; "" when the method needs none
  int32_t tokens = 0;           // draft tokens to verify per step; 0: as many as pay
  std::string verify = "auto";  // auto | match | rejection | block
  double confidence_threshold =
      0.0;  // cut the draft before the first token whose confidence is below; 0: never
  // Most draft tokens by the number of sequences that decode: "1-16:5,17-48:4,49-:3"; "": no limit.
  std::string k_by_load = "";
  int32_t min_batch = 1;           // no drafts while fewer sequences decode
  int32_t min_output_tokens = 0;   // no drafts for requests whose max_tokens is below
  std::string config_json = "{}";  // method's own keys, as vLLM's --speculative-config spells them
  // Before the first request: measure on fixed prompts what is accepted, and go on without drafts
  // when that is next to nothing, as with a drafter of another target. Up to ten seconds.
  bool self_test = false;
  int32_t ballast_layers = 0;  // as EngineOptions::ballast_layers, for the drafter
  int32_t ballast_width = 0;
};

struct EngineOptions {
  std::string model;  // directory of an HF checkpoint
  // auto | float32 | bfloat16 | fp8 (stored so) | int8 | int4 (made at load; the head is int8)
  std::string weight_dtype = "auto";
  std::string weight_cache = "";         // directory that keeps what int8 and int4 made; "": none
  std::string kv_cache_dtype = "auto";   // auto (bfloat16) | float32 | bfloat16 | fp8
  int32_t block_size = 16;               // positions per KV block, a multiple of 16
  int32_t max_model_len = 0;             // prompt + output; 0: what the checkpoint was made for
  int32_t max_num_seqs = 64;             // sequences that run at once
  int32_t max_num_batched_tokens = 512;  // rows of one step
  int64_t kv_cache_memory_bytes = 0;  // 0: enough for max_num_seqs of 2048 positions, at most 2 GiB
  bool enable_prefix_caching = true;
  int32_t long_prefill_token_threshold =
      0;                                  // prompts above are "long"; 0: a quarter of max_model_len
  int32_t max_long_partial_prefills = 1;  // long prompts that prefill at the same time
  int32_t max_queue = 1024;               // requests waiting; above: kResourceExhausted
  int32_t threads = 0;                    // 0: what affinity and cgroup leave
  // Adds N decoder layers whose output projections are zero: the same tokens at the cost of a large
  // model (demo, benchmarks).
  int32_t ballast_layers = 0;
  int32_t ballast_width = 0;  // their MLP width; 0: the model's
  // A planted fault for tests of the demo's own check: accept this many wrong draft tokens per
  // process, then stop.
  int32_t plant_wrong_accepts = 0;
  bool warmup = true;
  // auto: a request that names no temperature, top_p, top_k, min_p or repetition_penalty gets the
  // checkpoint's (generation_config.json); vllm: OpenAI's defaults.
  std::string generation_config = "auto";
  SpeculationOptions speculation;
};

}  // namespace firesteel
