#include "cli/generation.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace firesteel {
namespace {

// How often a wait looks at `cancel`.
constexpr auto kCancelInterval = std::chrono::milliseconds(50);

struct EventQueue {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<TokenEvent> events;

  void Push(TokenEvent event) {
    {
      const std::lock_guard lock(mutex);
      events.push_back(std::move(event));
    }
    filled.notify_one();
  }

  // False when nothing came in time.
  bool Pop(TokenEvent* event) {
    std::unique_lock lock(mutex);
    if (!filled.wait_for(lock, kCancelInterval, [this] { return !events.empty(); })) return false;
    *event = std::move(events.front());
    events.pop_front();
    return true;
  }
};

double SecondsSince(int64_t start_ns) { return SecondsFromNs(Clock::Real().NowNs() - start_ns); }

}  // namespace

Result<Generation> Generate(Engine& engine, Request request,
                            const std::function<void(std::string_view text)>& on_text,
                            const std::atomic<bool>* cancel) {
  // Shared with the sink, which the engine may hold a moment longer than the last event.
  const auto queue = std::make_shared<EventQueue>();
  const int64_t start_ns = Clock::Real().NowNs();
  FS_ASSIGN(const RequestId id, engine.Submit(std::move(request), [queue](TokenEvent event) {
    queue->Push(std::move(event));
  }));
  Generation generation;
  bool cancelled = false;
  for (;;) {
    if (cancel != nullptr && *cancel && !std::exchange(cancelled, true)) engine.Cancel(id);
    TokenEvent event;
    if (!queue->Pop(&event)) continue;
    if (!event.tokens.empty() && generation.first_token_s == 0)
      generation.first_token_s = SecondsSince(start_ns);
    generation.text += event.text;
    if (on_text && !event.text.empty()) on_text(event.text);
    if (!event.finish) continue;
    if (*event.finish == FinishReason::kError) return event.error;
    generation.finish = *event.finish;
    generation.usage = event.usage;
    generation.total_s = SecondsSince(start_ns);
    return generation;
  }
}

std::string FormatGeneration(const Generation& g, const ModelSummary& summary) {
  const int32_t tokens = g.usage.completion_tokens;
  std::string line = fmt::format("{} tokens, {:.1f} tokens/s, first token after {:.3f} s", tokens,
                                 g.total_s > 0 ? tokens / g.total_s : 0.0, g.first_token_s);
  const SpeculationUsage& spec = g.usage.speculation;
  if (summary.spec_method == "none") {
    line += "; no speculation";
  } else if (spec.rounds == 0) {
    line += fmt::format("; {}: no draft was verified", summary.spec_method);
  } else {
    line += fmt::format(
        "; {} with {} tokens: acceptance length {:.2f}, rate {:.2f}", summary.spec_method,
        summary.spec_tokens,
        1 + static_cast<double>(spec.accepted) / static_cast<double>(spec.rounds),
        spec.verified > 0 ? static_cast<double>(spec.accepted) / static_cast<double>(spec.verified)
                          : 0.0);
  }
  if (g.finish == FinishReason::kLength) line += "; ended by --max-tokens or the context length";
  if (g.finish == FinishReason::kCancelled) line += "; interrupted";
  return line;
}

}  // namespace firesteel
