// One generation from an engine in this process, streamed to a sink on the calling thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "firesteel/engine.h"
#include "firesteel/request.h"
#include "firesteel/status.h"

namespace firesteel {

struct Generation {
  std::string text;
  FinishReason finish = FinishReason::kStop;
  Usage usage;
  double first_token_s = 0;  // from submitting to the first token; 0 without any
  double total_s = 0;        // to the end
};

// Waits for the end. `cancel` (may be null), once true, cancels the request; it then ends with
// kCancelled. Errors: those of Submit, and the request's own.
Result<Generation> Generate(Engine& engine, Request request,
                            const std::function<void(std::string_view text)>& on_text,
                            const std::atomic<bool>* cancel);

// "64 tokens, 35.1 tokens/s, first token after 0.120 s; dspark: acceptance length 3.10, rate 0.30".
std::string FormatGeneration(const Generation& generation, const ModelSummary& summary);

}  // namespace firesteel
