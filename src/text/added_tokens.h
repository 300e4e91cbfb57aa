// Finds added tokens in text: the leftmost match, of several the longest.
//
// Immutable after construction, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "text/tokenizer_file.h"

namespace firesteel {

class AddedTokens {
 public:
  // The text of tokens[i] is matched as tokens[i].content says.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Cuts `text` into added tokens and what lies between them, in order, until `emit` returns false;
  // the result is false then. For an added token `emit` gets its id (and the text it covers, with
  // the spaces that lstrip and rstrip take in); otherwise nullopt and a text that is not empty.
  // With `parse_special` false special tokens stay part of the text. REQUIRES: valid UTF-8.
  bool Split(std::string_view text, bool parse_special,
             FunctionRef<bool(std::string_view piece, std::optional<int32_t> id)> emit) const;

 private:
  // The token that begins at text[at], the longest; nullptr when none does.
  const AddedToken* MatchAt(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint64_t, uint32_t> edges_;  // a trie: node << 8 | byte -> node
  std::vector<int32_t> token_at_;                 // [nodes], index into tokens_ or -1
  std::vector<bool> begins_;                      // [256], whether any token begins with the byte
};

}  // namespace firesteel
