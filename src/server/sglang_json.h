// SGLang's native /generate: its body, and its answers, which repeat the whole text in every event.
//
// Immutable functions, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "server/openai_json.h"
#include "server/openai_response.h"

namespace firesteel {

// As ParseCompletionRequest; one prompt, text or input_ids. Errors name SGLang's fields.
ApiError ParseGenerateRequest(std::string_view body, const ModelLimits& limits,
                              GenerationRequest* out);

// An event of a stream or, without one, the answer: {"text", "meta_info"}. `text` is all of it so
// far; `ids` null: left out.
std::string GenerateAnswer(const std::string& id, std::string_view text,
                           const std::vector<int32_t>* ids, const ChoiceOutput& last,
                           const UsageTotals& usage);

}  // namespace firesteel
