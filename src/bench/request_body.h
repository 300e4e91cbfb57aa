// The bodies of generation requests, by kind of API and by whose benchmark is imitated.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "bench/workload.h"

namespace firesteel {

enum class ApiKind { kCompletions, kChat, kSglang };

const char* ApiKindName(ApiKind api);                // completions | chat | sglang
const char* DefaultPath(ApiKind api);                // /v1/completions …
ApiKind ApiKindOfPath(const std::string& endpoint);  // by its end

// Whose rules hold where the two public tools differ, and ours where neither was asked for.
enum class Dialect { kNative, kVllm, kSglang };

// Keys that not every server takes.
struct OptionalKeys {
  bool token_ids = true;
  bool usage = true;
};

struct BodySettings {
  ApiKind api = ApiKind::kCompletions;
  Dialect dialect = Dialect::kNative;
  std::string model;
  int32_t output_len = 128;  // of prompts that name none
  bool ignore_eos = false;
  Json extra = Json::object();  // wins over everything but the row's own keys
};

// `keys` hold for the native dialect; the others send what their tool sends.
std::string RequestBody(const BodySettings& settings, const OptionalKeys& keys,
                        const Prompt& prompt);
// Tokens asked for.
int32_t RequestedTokens(const BodySettings& settings, const Prompt& prompt);

}  // namespace firesteel
