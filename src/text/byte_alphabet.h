// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written:
// "Ġthe" is " the". Functions without state, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firesteel {

std::string SpellByte(uint8_t byte);

// nullopt when `token` holds a character that spells no byte. REQUIRES: valid UTF-8.
std::optional<std::string> BytesFromSpelling(std::string_view token);

}  // namespace firesteel
