#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/normalizer.h"

namespace firesteel {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t LengthAt(std::string_view text, size_t at) {
  size_t length = 1;
  while (at + length < text.size() && IsContinuation(text[at + length])) ++length;
  return length;
}

// REQUIRES: `at` is where a character of a valid text begins.
char32_t CharacterAt(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return lead;
  const size_t length = LengthAt(text, at);
  char32_t c = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i)
    c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  return c;
}

// Where the character that ends at `end` begins.
size_t Previous(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && IsContinuation(text[end]));
  return end;
}

bool IsSingleWord(std::string_view text, size_t begin, size_t end) {
  const bool word_before = begin > 0 && IsWordCharacter(CharacterAt(text, Previous(text, begin)));
  const bool word_after = end < text.size() && IsWordCharacter(CharacterAt(text, end));
  return !word_before && !word_after;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), token_at_(1, -1), begins_(256, false) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    uint64_t node = 0;
    for (const char c : tokens_[i].content) {
      const uint64_t edge = node << 8 | static_cast<unsigned char>(c);
      const auto [next, is_new] = edges_.emplace(edge, static_cast<uint32_t>(token_at_.size()));
      if (is_new) token_at_.push_back(-1);
      node = next->second;
    }
    if (node == 0) continue;
    token_at_[node] = static_cast<int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].content[0])] = true;
  }
}

const AddedToken* AddedTokens::MatchAt(std::string_view text, size_t at) const {
  if (!begins_[static_cast<unsigned char>(text[at])]) return nullptr;
  const AddedToken* longest = nullptr;
  uint64_t node = 0;
  for (; at < text.size(); ++at) {
    const auto next = edges_.find(node << 8 | static_cast<unsigned char>(text[at]));
    if (next == edges_.end()) break;
    node = next->second;
    if (token_at_[node] >= 0) longest = &tokens_[token_at_[node]];
  }
  return longest;
}

bool AddedTokens::Split(
    std::string_view text, bool parse_special,
    FunctionRef<bool(std::string_view piece, std::optional<int32_t> id)> emit) const {
  size_t done = 0;  // everything before it has been emitted
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = MatchAt(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->content.size();
    // What is refused here is not looked at again: a shorter token inside it does not count either.
    at = end;
    if (token->special && !parse_special) continue;
    if (token->single_word && !IsSingleWord(text, begin, end)) continue;
    if (token->lstrip) {
      while (begin > done && IsWhiteSpace(CharacterAt(text, Previous(text, begin)))) {
        begin = Previous(text, begin);
      }
    }
    if (token->rstrip) {
      while (end < text.size() && IsWhiteSpace(CharacterAt(text, end))) end += LengthAt(text, end);
    }
    // Spaces that the token before took in with rstrip may be the beginning of this one.
    begin = std::max(begin, done);
    if (end <= done) continue;
    if (begin > done && !emit(text.substr(done, begin - done), std::nullopt)) return false;
    if (!emit(text.substr(begin, end - begin), token->id)) return false;
    done = end;
  }
  return done == text.size() || emit(text.substr(done), std::nullopt);
}

}  // namespace firesteel
