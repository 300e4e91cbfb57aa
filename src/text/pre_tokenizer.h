// Cuts text into the words that BPE works on, by the regular expressions of tokenizer.json.
//
// Immutable after construction, thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "firesteel/status.h"

namespace firesteel {

struct SplitRule {
  std::string pattern;
  bool literal = false;       // a plain string, not an expression
  bool only_matches = false;  // drop what lies between matches; otherwise it makes words of its own
  std::string where;          // file and field, for messages
};

struct PreTokenizerSpec {
  std::vector<SplitRule> splits;  // each cuts the pieces of the one before
  bool gpt2_words = false;        // ByteLevel's own expression, after `splits`
  bool add_prefix_space = false;  // in front of every piece that does not begin with a space
};

class PreTokenizer {
 public:
  // kUnsupported or kDataCorrupt, with the rule's `where`.
  static Result<std::unique_ptr<PreTokenizer>> Make(const PreTokenizerSpec& spec);
  ~PreTokenizer();

  // Calls `emit` with the words of `text` in order until it returns false; none is empty, each dies
  // with the call. REQUIRES: valid UTF-8. A pattern that runs into the matcher's limits leaves the
  // rest of the piece as one word.
  void Split(std::string_view text, FunctionRef<bool(std::string_view word)> emit) const;

 private:
  class Stage;
  PreTokenizer() = default;
  bool RunFrom(size_t stage, std::string_view piece,
               FunctionRef<bool(std::string_view)> emit) const;  // false: `emit` wants no more

  std::vector<std::unique_ptr<Stage>> stages_;
  bool add_prefix_space_ = false;
  size_t prefix_before_stage_ = 0;
};

}  // namespace firesteel
