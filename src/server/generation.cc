#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/rng.h"
#include "net/sse.h"

namespace firesteel {
namespace {

constexpr int32_t kDefaultCompletionTokens = 16;

std::string NewId(bool chat) {
  return fmt::format("{}-{:016x}{:016x}", chat ? "chatcmpl" : "cmpl", RandomSeed(), RandomSeed());
}

}  // namespace

ApiGeneration::ApiGeneration(const ApiGenerationContext& context, GenerationRequest request,
                             std::vector<std::vector<int32_t>> prompts, int64_t arrival_ns,
                             std::shared_ptr<ResponseWriter> writer, std::function<void()> on_end)
    : context_(context),
      request_(std::move(request)),
      prompts_(std::move(prompts)),
      arrival_ns_(arrival_ns),
      writer_(std::move(writer)),
      on_end_(std::move(on_end)),
      format_(request_, NewId(request_.chat), std::time(nullptr), context.model_name,
              context.engine->tokenizer()),
      parts_(prompts_.size() * static_cast<size_t>(request_.n)) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].output.index = static_cast<int32_t>(i);
    parts_[i].output.prompt_ids = &prompts_[i / static_cast<size_t>(request_.n)];
  }
}

SamplingParams ApiGeneration::SamplingOf(size_t part) const {
  SamplingParams sampling = request_.sampling;
  sampling.choice = static_cast<int32_t>(part % static_cast<size_t>(request_.n));
  if (!request_.has_max_tokens) {
    const auto prompt_size = static_cast<int32_t>(parts_[part].output.prompt_ids->size());
    const int32_t rest = std::max(1, context_.engine->Summary().max_model_len - prompt_size);
    sampling.max_tokens = request_.chat ? rest : std::min(rest, kDefaultCompletionTokens);
  }
  return sampling;
}

Status ApiGeneration::Submit(size_t part) {
  // Runs on the engine thread. `http` is there as long as the engine is.
  EventSink sink = [self = shared_from_this(), part, http = context_.http,
                    clock = context_.clock](TokenEvent event) {
    const int64_t now_ns = clock->NowNs();
    http->Post([self, part, now_ns, event = std::move(event)]() mutable {
      self->OnEvent(part, std::move(event), now_ns);
    });
  };
  Request request{.prompt = *parts_[part].output.prompt_ids,
                  .sampling = SamplingOf(part),
                  .tenant = request_.tenant};
  FS_ASSIGN(parts_[part].id, context_.engine->Submit(std::move(request), std::move(sink)));
  parts_[part].submitted = true;
  ++open_;
  return {};
}

void ApiGeneration::Start() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (const Status status = Submit(i); !status.ok()) {
      Fail(ErrorFromStatus(status));
      break;
    }
  }
  if (over_) {
    if (open_ == 0) on_end_();
    return;
  }
  if (request_.stream) {
    streaming_ = true;
    writer_->Start(200, {{"Content-Type", "text/event-stream; charset=utf-8"},
                         {"Cache-Control", "no-cache"},
                         {"X-Accel-Buffering", "no"}});
  }
  writer_->OnDisconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self != nullptr && !self->over_) {
      self->over_ = true;
      self->CancelAll();
    }
  });
}

void ApiGeneration::CancelAll() {
  for (const Part& part : parts_) {
    if (part.submitted && !part.ended) context_.engine->Cancel(part.id);
  }
}

void ApiGeneration::OnEvent(size_t index, TokenEvent event, int64_t now_ns) {
  Part& part = parts_[index];
  if (part.ended) return;
  Measure(part, event, now_ns);
  part.usage = event.usage;
  if (event.finish) {
    part.ended = true;
    --open_;
  }
  if (!over_) {
    if (event.finish == FinishReason::kError) {
      Fail(ErrorFromStatus(event.error.ok() ? Internal("the request failed") : event.error));
    } else if (event.finish == FinishReason::kCancelled) {
      Fail(ErrorFromStatus(Unavailable("the request was cancelled: the server is shutting down")));
    } else if (request_.stream) {
      WriteChunk(part, event);
    } else {
      Gather(part, event);
    }
  }
  if (open_ > 0) return;
  if (!over_) Finish();
  on_end_();  // last: may destroy this
}

void ApiGeneration::Measure(Part& part, const TokenEvent& event, int64_t now_ns) {
  ServerMetrics& metrics = *context_.metrics;
  if (!event.tokens.empty()) {
    if (part.first_token_ns == 0) {
      part.first_token_ns = now_ns;
      metrics.time_to_first_token.Observe(SecondsFromNs(now_ns - arrival_ns_));
    } else {
      metrics.inter_token.Observe(SecondsFromNs(now_ns - part.last_token_ns));
    }
    part.last_token_ns = now_ns;
  }
  if (event.finish != FinishReason::kStop && event.finish != FinishReason::kLength) return;
  metrics.e2e.Observe(SecondsFromNs(now_ns - arrival_ns_));
  metrics.prompt_tokens.Observe(event.usage.prompt_tokens);
  metrics.generation_tokens.Observe(event.usage.completion_tokens);
  if (event.usage.completion_tokens > 1) {
    metrics.time_per_output_token.Observe(SecondsFromNs(part.last_token_ns - part.first_token_ns) /
                                          (event.usage.completion_tokens - 1));
  }
}

void ApiGeneration::WriteData(std::string_view data) { writer_->Write(SseEvent(data)); }

void ApiGeneration::WriteChunk(Part& part, TokenEvent& event) {
  ChoiceOutput& delta = part.output;
  delta.text = std::move(event.text);
  if (request_.sglang) delta.text_so_far += delta.text;
  delta.tokens = std::move(event.tokens);
  delta.logprobs = std::move(event.logprobs);
  delta.finish = event.finish;
  delta.stop_reason = std::move(event.stop_reason);
  const UsageTotals totals = request_.continuous_usage ? Totals() : UsageTotals();
  WriteData(format_.Chunk(delta, !part.started, request_.continuous_usage ? &totals : nullptr));
  part.started = true;
  if (!request_.chat && !delta.logprobs.empty())
    delta.text_offset += format_.TextLength(delta.logprobs);
}

void ApiGeneration::Gather(Part& part, TokenEvent& event) {
  ChoiceOutput& output = part.output;
  output.text += event.text;
  output.tokens.insert(output.tokens.end(), event.tokens.begin(), event.tokens.end());
  std::move(event.logprobs.begin(), event.logprobs.end(), std::back_inserter(output.logprobs));
  output.finish = event.finish;
  output.stop_reason = std::move(event.stop_reason);
}

UsageTotals ApiGeneration::Totals() const {
  UsageTotals totals;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i % static_cast<size_t>(request_.n) == 0) {
      totals.prompt_tokens += static_cast<int64_t>(parts_[i].output.prompt_ids->size());
      totals.cached_tokens += parts_[i].usage.cached_tokens;
    }
    totals.completion_tokens += parts_[i].usage.completion_tokens;
  }
  return totals;
}

Json ApiGeneration::Metrics() const {
  SpeculationUsage sum;
  for (const Part& part : parts_) {
    const SpeculationUsage& usage = part.usage.speculation;
    sum.rounds += usage.rounds;
    sum.drafted += usage.drafted;
    sum.verified += usage.verified;
    sum.accepted += usage.accepted;
    const size_t positions =
        std::max(sum.accepted_per_position.size(), usage.accepted_per_position.size());
    sum.accepted_per_position.resize(positions);
    for (size_t i = 0; i < usage.accepted_per_position.size(); ++i) {
      sum.accepted_per_position[i] += usage.accepted_per_position[i];
    }
  }
  return Json{
      {"speculative_decoding", SpeculationMetrics(sum, context_.engine->Summary().spec_tokens)}};
}

void ApiGeneration::Finish() {
  over_ = true;
  const UsageTotals totals = Totals();
  const Json metrics = request_.spec_metrics ? Metrics() : Json();
  const Json* shown_metrics = request_.spec_metrics ? &metrics : nullptr;
  if (!request_.stream) {
    std::vector<ChoiceOutput> choices;
    for (Part& part : parts_) choices.push_back(std::move(part.output));
    writer_->Respond(200, {{"Content-Type", "application/json"}},
                     format_.Whole(choices, totals, shown_metrics));
    return;
  }
  if (request_.include_usage || request_.spec_metrics) {
    WriteData(format_.LastChunk(request_.include_usage ? &totals : nullptr, shown_metrics));
  }
  WriteData("[DONE]");
  writer_->End();
}

void ApiGeneration::Fail(const ApiError& error) {
  over_ = true;
  CancelAll();
  if (!streaming_) {
    SendError(*writer_, error);
    return;
  }
  WriteData(ErrorBody(error));
  WriteData("[DONE]");
  writer_->End();
}

}  // namespace firesteel
