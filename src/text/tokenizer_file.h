// What tokenizer.json says, checked, before anything is built from it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "firesteel/status.h"
#include "text/pre_tokenizer.h"

namespace firesteel {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
};

struct TokenizerFile {
  std::vector<std::pair<std::string, int32_t>>
      vocab;  // in the byte spelling; ids and tokens are unique
  std::vector<std::pair<std::string, std::string>> merges;  // in the order of their ranks
  bool ignore_merges =
      false;  // a word that is in the vocabulary whole is one token, whatever the merges say
  std::vector<AddedToken>
      added_tokens;  // ids and contents are unique, and agree with the vocabulary
  bool nfc = false;
  PreTokenizerSpec pre_tokenizer;
  std::vector<int32_t> prefix_ids;  // what add_special_tokens puts in front and behind
  std::vector<int32_t> suffix_ids;
};

constexpr int32_t kMaxTokenId = (1 << 24) - 1;

// Reads `path`. kNotFound, kDataCorrupt or kUnsupported, naming the field.
Result<TokenizerFile> ReadTokenizerFile(const std::string& path);

}  // namespace firesteel
