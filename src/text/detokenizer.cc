#include "text/detokenizer.h"

#include "base/utf8.h"

namespace firesteel {

std::string Detokenizer::Push(int32_t token) {
  if (skip_special_tokens_ && tokenizer_->IsSpecial(token)) return "";
  pending_ += tokenizer_->TokenBytes(token);
  const size_t certain = pending_.size() - IncompleteUtf8Tail(pending_);
  // The tail begins at a lead byte, where a new ill-formed part would begin in any case: replacing
  // on both sides of the cut gives what replacing in the whole gives.
  std::string text = ReplaceInvalidUtf8(std::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text = ReplaceInvalidUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace firesteel
