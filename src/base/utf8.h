// The few UTF-8 questions that streaming asks. Immutable functions, thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace firesteel {

bool IsValidUtf8(std::string_view text);
// Bytes at the end of `text` that are the start of a character not yet complete (0 … 3).
size_t IncompleteUtf8Tail(std::string_view text);
// Invalid sequences become U+FFFD, one for each maximal ill-formed part (Unicode 3.9, as Python's
// errors="replace").
std::string ReplaceInvalidUtf8(std::string_view text);
void AppendUtf8(char32_t code_point, std::string* out);

}  // namespace firesteel
