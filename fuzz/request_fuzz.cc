// Bodies that a client sends: parsed or refused with 400 and a sentence, and what was parsed keeps
// to its limits. The first byte picks the route.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "server/openai_json.h"

namespace {

using firesteel::ApiError;
using firesteel::GenerationRequest;

constexpr firesteel::ModelLimits kLimits{.vocab_size = 512};

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

void Check(const ApiError& error) {
  Require(error.status == 400 && !error.message.empty());
  (void)firesteel::ErrorBody(error);
}

void CheckIds(const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) Require(id >= 0 && id < kLimits.vocab_size);
}

void Check(const GenerationRequest& request) {
  Require(request.n >= 1 && request.sampling.max_tokens >= 1 && request.sampling.min_tokens >= 0);
  Require(request.sampling.temperature >= 0 && request.sampling.top_p > 0);
  Require(request.chat ? !request.chat_input.messages.empty() : !request.prompts.empty());
  CheckIds(request.sampling.stop_token_ids);
  for (const firesteel::Prompt& prompt : request.prompts) {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) CheckIds(*ids);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  ApiError error;
  if (data[0] % 4 < 2) {
    GenerationRequest request;
    error = data[0] % 4 == 0 ? ParseCompletionRequest(body, kLimits, &request)
                             : ParseChatRequest(body, kLimits, &request);
    if (error.status == 0) Check(request);
  } else if (data[0] % 4 == 2) {
    firesteel::TokenizeRequest request;
    error = ParseTokenizeRequest(body, &request);
  } else {
    firesteel::DetokenizeRequest request;
    error = ParseDetokenizeRequest(body, kLimits, &request);
    if (error.status == 0) CheckIds(request.tokens);
  }
  if (error.status != 0) Check(error);
  return 0;
}
