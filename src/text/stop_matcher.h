// Looks for stop strings in a text that arrives piece by piece. One for each sequence; not
// thread-safe.
//
// The match that ends first in the text wins; of several that end at the same byte, the longest. So
// the outcome does not depend on how the text is cut into pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace firesteel {

class StopMatcher {
 public:
  struct Output {
    std::string text;  // certain now: no stop string can begin in it any more
    std::optional<size_t>
        stop_index;  // into `stops`, from the Push whose piece completed the match
  };

  // Empty stop strings never match. With `include_stop` the text ends behind the stop string,
  // otherwise before it.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  // `text` is whole characters, as Detokenizer::Push gives them. After a match nothing comes out
  // any more.
  Output Push(std::string_view text);

  // What was held back because it might have begun a stop string; "" after a match.
  std::string Finish();

  bool matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    size_t index;                  // into `stops` of the constructor
    std::vector<size_t> fallback;  // [length + 1], Knuth-Morris-Pratt: the next shorter prefix that
                                   // the text also ends with
    size_t state = 0;              // bytes of this pattern that the text read so far ends with
  };

  std::vector<Pattern> patterns_;
  bool include_stop_;
  bool matched_ = false;
  std::string held_;
};

}  // namespace firesteel
