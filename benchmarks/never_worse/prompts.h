// Prompts of three kinds: text that repeats itself, text of the corpus, random ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"
#include "text/tokenizer.h"

namespace firesteel {

class Prompts {
 public:
  // `file`: JSON lines with "prompt".
  static Result<Prompts> Load(const Tokenizer& tokenizer, const std::string& file);

  // repetitive: a piece of the text three times over; corpus: its first kTokens; random: kTokens
  // ids. The same for the same index; text comes again after as many as the file has.
  // REQUIRES: kind is one of kKinds.
  std::vector<int32_t> Make(std::string_view kind, int64_t index) const;

  static constexpr int32_t kTokens = 48;
  static constexpr std::string_view kKinds[] = {"repetitive", "corpus", "random"};

 private:
  std::vector<std::vector<int32_t>> texts_;  // each of at least kTokens
  int32_t vocab_size_ = 0;
};

}  // namespace firesteel
