// The visible text of one sequence: detokenizer and stop strings in a row. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "firesteel/request.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace firesteel {

class TextStream {
 public:
  // Without a tokenizer there is no text, and stop strings never match. `tokenizer` must outlive
  // this object.
  TextStream(const Tokenizer* tokenizer, const SamplingParams& params);

  // The text that `token` makes certain is added to `*text`. Returns the index into
  // SamplingParams::stop of a stop string that is complete now. While `ignore_stops`, text goes
  // past the search and can be no part of a match.
  std::optional<size_t> Push(int32_t token, bool ignore_stops, std::string* text);

  // No token follows: adds what was held back.
  void Finish(std::string* text);

 private:
  std::optional<Detokenizer> detokenizer_;
  StopMatcher stops_;
};

}  // namespace firesteel
