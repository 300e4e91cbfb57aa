// Tokens to text while they arrive. One for each sequence; not thread-safe.
//
// The texts of all Push calls and of Finish in a row are Tokenizer::Decode of all tokens, and each
// of them is valid UTF-8.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace firesteel {

class Detokenizer {
 public:
  // `tokenizer` must outlive this object.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that `token` makes certain. Up to three bytes of a character that is not yet complete
  // wait for the next token.
  std::string Push(int32_t token);

  // What still waits, as U+FFFD: no token follows. Afterwards the object is as new.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;  // at most three bytes
};

}  // namespace firesteel
