// One request on its way: its tokens, and what belongs to it alone.
//
// The state that counts is `tokens` (prompt, then output; all committed) against the length of its
// cache slot: what the cache lacks is what remains to be computed. One row lacking: it decodes, and
// that row is the anchor. More: it prefills, whether the first time or again after a preemption.
// There is no other mode.
//
// Built on the caller's thread, then engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/text_stream.h"
#include "firesteel/request.h"
#include "kv/view.h"
#include "sampling/logit_processor.h"
#include "sampling/noise.h"
#include "speculation/acceptance_model.h"
#include "speculation/verifier.h"

namespace firesteel {

inline constexpr SequenceSlot kNoSlot = -1;

struct Sequence {
  Sequence(Request request, EventSink event_sink, const Tokenizer* tokenizer,
           std::span<const int32_t> eos, uint64_t seed, VerifyRule verify_rule)
      : tenant(std::move(request.tenant)),
        sampling(std::move(request.sampling)),
        sink(std::move(event_sink)),
        noise{seed, static_cast<uint32_t>(sampling.choice)},
        rule(verify_rule),
        tokens(std::move(request.prompt)),
        prompt_length(static_cast<int32_t>(tokens.size())),
        processor(sampling, tokens, eos),
        text(tokenizer, sampling) {
    usage.prompt_tokens = prompt_length;
  }

  int32_t NumOutput() const { return static_cast<int32_t>(tokens.size()) - prompt_length; }
  int64_t Length() const { return static_cast<int64_t>(tokens.size()); }

  RequestId id = 0;  // also the order of arrival
  std::string tenant;
  SamplingParams sampling;
  EventSink sink;
  NoiseKey noise;
  VerifyRule rule;

  std::vector<int32_t> tokens;
  int32_t prompt_length;
  LogitProcessor processor;
  TextStream text;

  // The scheduler's.
  SequenceSlot slot = kNoSlot;
  bool admitted_before = false;
  bool in_long_lane = false;           // its prefill holds a place in the long-prompt lane
  std::optional<bool> is_long_prompt;  // decided when it first reaches the head of the queue

  RequestAcceptance acceptance;  // how its drafts fare

  bool counted = false;  // in EngineStats::prompt_tokens
  Usage usage;
  TokenEvent event;  // what the next Emit tells
  std::optional<FinishReason> finish;
};

}  // namespace firesteel
