// Unicode normalization. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace firesteel {

// The NFC form of `text`. REQUIRES: valid UTF-8.
std::string NormalizeNfc(std::string_view text);

// What a regular expression calls \w and \s.
bool IsWordCharacter(char32_t c);
bool IsWhiteSpace(char32_t c);

}  // namespace firesteel
