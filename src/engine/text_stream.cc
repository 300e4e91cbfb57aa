#include "engine/text_stream.h"

#include <utility>

namespace firesteel {

TextStream::TextStream(const Tokenizer* tokenizer, const SamplingParams& params)
    : stops_(params.stop, params.include_stop_in_output) {
  if (tokenizer != nullptr) detokenizer_.emplace(*tokenizer, params.skip_special_tokens);
}

std::optional<size_t> TextStream::Push(int32_t token, bool ignore_stops, std::string* text) {
  if (!detokenizer_) return std::nullopt;
  const std::string piece = detokenizer_->Push(token);
  if (ignore_stops) {
    *text += piece;
    return std::nullopt;
  }
  StopMatcher::Output out = stops_.Push(piece);
  *text += out.text;
  return out.stop_index;
}

void TextStream::Finish(std::string* text) {
  if (!detokenizer_) return;
  // After a match neither gives anything: what follows a stop string is cut.
  *text += stops_.Push(detokenizer_->Finish()).text;
  *text += stops_.Finish();
}

}  // namespace firesteel
