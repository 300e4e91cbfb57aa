// Whether two tokenizers give ids the same meaning: what a draft model of its own needs.
#pragma once

#include <string>

#include "firesteel/status.h"
#include "text/tokenizer.h"

namespace firesteel {

// kInvalidArgument names the first id that stands for another text in the tokenizer of `directory`
// than in `target`. The first five ids, often special tokens of each model's own, may differ, and
// so may ids that only one of them knows.
Status CheckSameTokens(const Tokenizer& target, const std::string& directory);

}  // namespace firesteel
