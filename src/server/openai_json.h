// Bodies of /v1/completions, /v1/chat/completions, /tokenize and /detokenize, from JSON to what the
// engine is asked.
//
// Fields we know are checked; fields nobody knows are ignored; fields that others know and that
// would change the answer are refused. Immutable functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "firesteel/request.h"
#include "server/errors.h"

namespace firesteel {

// What a request is checked against.
struct ModelLimits {
  int32_t vocab_size = 0;
  SamplingParams defaults;  // of what a request does not say
};

// What a chat template is given.
struct ChatInput {
  Json messages =
      Json::array();  // content parts joined to one string, arguments of tool calls as objects
  Json tools = nullptr;
  Json template_kwargs = nullptr;
  bool add_generation_prompt = true;
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;  // text, or token ids

struct GenerationRequest {
  bool chat = false;
  std::string model;  // "": the served one
  ChatInput chat_input;
  std::vector<Prompt> prompts;     // of a completion
  bool add_special_tokens = true;  // around prompts that are text

  SamplingParams sampling;      // choice is 0; max_tokens holds only when:
  bool has_max_tokens = false;  // otherwise 16 for a completion, the rest of the context for a chat
  int32_t n = 1;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // usage in every chunk
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // names of tokens in logprobs are "token_id:7"
  bool spec_metrics = false;

  std::string cache_salt;  // sets a client's texts apart from those of others with the same key
  std::string tenant;      // Request::tenant; the routes' to fill in
};

struct TokenizeRequest {
  std::string model;
  bool chat = false;
  ChatInput chat_input;
  std::string prompt;
  bool add_special_tokens = true;
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
};

// `status` 0 and `*out` filled, or what is wrong with the body and `*out` in part.
ApiError ParseCompletionRequest(std::string_view body, const ModelLimits& limits,
                                GenerationRequest* out);
ApiError ParseChatRequest(std::string_view body, const ModelLimits& limits, GenerationRequest* out);
ApiError ParseTokenizeRequest(std::string_view body, TokenizeRequest* out);
ApiError ParseDetokenizeRequest(std::string_view body, const ModelLimits& limits,
                                DetokenizeRequest* out);

}  // namespace firesteel
