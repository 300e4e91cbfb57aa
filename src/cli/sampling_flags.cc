#include "cli/sampling_flags.h"

#include <fmt/format.h>

namespace firesteel {
namespace {

// A terminal wants one answer, the same each time, and one that is not cut after 16 tokens.
SamplingParams Defaults() {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 256;
  return sampling;
}

}  // namespace

std::vector<FlagSpec> SamplingFlags() {
  constexpr auto kValue = FlagKind::kValue;
  constexpr auto kSwitch = FlagKind::kSwitch;
  const SamplingParams d = Defaults();
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {
      {"--max-tokens", kValue, "N", number(d.max_tokens), "tokens to generate at most", {"-n"}},
      {"--min-tokens", kValue, "N", number(d.min_tokens), "no end before so many tokens", {}},
      {"--temperature", kValue, "T", number(d.temperature), "0 is greedy", {}},
      {"--top-k",
       kValue,
       "N",
       number(d.top_k),
       "sample among the N most likely tokens; 0: all",
       {}},
      {"--top-p",
       kValue,
       "P",
       number(d.top_p),
       "sample among the most likely tokens of this total",
       {}},
      {"--min-p",
       kValue,
       "P",
       number(d.min_p),
       "drop tokens below this part of the most likely one",
       {}},
      {"--presence-penalty",
       kValue,
       "X",
       number(d.presence_penalty),
       "taken from the logit of tokens that occurred",
       {}},
      {"--frequency-penalty",
       kValue,
       "X",
       number(d.frequency_penalty),
       "the same for each time that they occurred",
       {}},
      {"--repetition-penalty",
       kValue,
       "X",
       number(d.repetition_penalty),
       "divides the logit of tokens that occurred",
       {}},
      {"--seed", kValue, "N", "a fresh one", "the same seed gives the same text", {}},
      {"--stop", FlagKind::kRepeated, "TEXT", "none", "end before this text; may be repeated", {}},
      {"--ignore-eos", kSwitch, "", "off", "go on behind the end-of-text token", {}},
  };
}

Result<SamplingParams> ReadSamplingFlags(const FlagValues& values) {
  SamplingParams s = Defaults();
  FS_TRY(values.ReadInt("--max-tokens", 1, INT32_MAX, &s.max_tokens));
  FS_TRY(values.ReadInt("--min-tokens", 0, INT32_MAX, &s.min_tokens));
  FS_TRY(values.ReadDouble("--temperature", 0, 100, &s.temperature));
  FS_TRY(values.ReadInt("--top-k", -1, INT32_MAX, &s.top_k));
  FS_TRY(values.ReadDouble("--top-p", 0, 1, &s.top_p));
  FS_TRY(values.ReadDouble("--min-p", 0, 1, &s.min_p));
  FS_TRY(values.ReadDouble("--presence-penalty", -2, 2, &s.presence_penalty));
  FS_TRY(values.ReadDouble("--frequency-penalty", -2, 2, &s.frequency_penalty));
  FS_TRY(values.ReadDouble("--repetition-penalty", 1e-3, 100, &s.repetition_penalty));
  if (values.Has("--seed")) {
    int64_t seed = 0;
    FS_TRY(values.ReadInt64("--seed", INT64_MIN, INT64_MAX, &seed));
    s.seed = static_cast<uint64_t>(seed);
  }
  s.stop = values.List("--stop");
  FS_TRY(values.ReadSwitch("--ignore-eos", &s.ignore_eos));
  return s;
}

}  // namespace firesteel
