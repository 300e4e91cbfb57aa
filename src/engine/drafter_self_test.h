// Does a drafter know this target? Measured on text of the target's own, before the first request.
//
// Another target or tokenizer, wrong layer ids, the other anchor convention: none of them fails,
// and the output is right whatever the drafts are worth. They only show in what is accepted. The
// bounds refuse what is accepted next to never; a drafter that is merely worse than it should be
// (the demo's with the other anchor: 45 % at position 1 instead of 71 %) shows in the figures
// alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/warmup.h"
#include "firesteel/options.h"
#include "firesteel/status.h"
#include "text/tokenizer.h"

namespace firesteel {

// 64 fixed prompts, every other one as a turn of chat where the model has a template.
std::vector<std::vector<int32_t>> SelfTestPrompts(const Tokenizer& tokenizer);

struct SelfTestResult {
  // Of the first two draft tokens of a round: how often all before it were accepted, and how often
  // it was itself.
  std::array<int64_t, 2> reached{}, accepted{};
  int64_t generated = 0;  // tokens
  bool out_of_time = false;

  // P(accepted | those before it were); 0 when none was reached.
  double Acceptance(size_t k) const;
  // "": the drafter is worth its work. Else one sentence why not. Says nothing against a drafter
  // that too few rounds have judged.
  std::string Objection() const;
};

// Greedy generation of 32 tokens behind each prompt, drafts verified two tokens deep; stops after
// ten seconds. No slot may be open; nothing stays in the cache.
Result<SelfTestResult> TestDrafter(const WarmupParts& parts, const EngineOptions& options,
                                   std::span<const std::vector<int32_t>> prompts);

}  // namespace firesteel
