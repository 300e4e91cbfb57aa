// Rewrites a pre-tokenization pattern from the dialect of Hugging Face's tokenizers (Oniguruma,
// Ruby syntax) into PCRE2's with the same meaning.
#pragma once

#include <string>
#include <string_view>

#include "firesteel/status.h"

namespace firesteel {

// kUnsupported for whatever the two read differently, or might: set operations ("&&") and nested
// sets inside classes, POSIX classes, unusual escapes, groups and flags. The message says what and
// at which byte. REQUIRES: valid UTF-8.
Result<std::string> TranslateRegex(std::string_view pattern);

}  // namespace firesteel
