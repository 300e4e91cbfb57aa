#include "text/byte_alphabet.h"

#include "base/utf8.h"

namespace firesteel {
namespace {

bool IsPrintable(uint32_t c) {
  return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

// The 68 other bytes are spelled, in their order, by the characters from U+0100 on: 0 to 32, 127 to
// 160, 173.
constexpr uint32_t kFirstSubstitute = 256;
constexpr uint32_t kNumLow = 33;
constexpr uint32_t kNumMiddle = 34;
constexpr uint32_t kNumSubstitutes = kNumLow + kNumMiddle + 1;

std::optional<uint8_t> ByteOf(uint32_t c) {
  if (c < kFirstSubstitute) {
    return IsPrintable(c) ? std::optional<uint8_t>(static_cast<uint8_t>(c)) : std::nullopt;
  }
  const uint32_t k = c - kFirstSubstitute;
  if (k >= kNumSubstitutes) return std::nullopt;
  if (k < kNumLow) return static_cast<uint8_t>(k);
  if (k < kNumLow + kNumMiddle) return static_cast<uint8_t>(127 + k - kNumLow);
  return uint8_t{173};
}

}  // namespace

std::string SpellByte(uint8_t byte) {
  uint32_t c = byte;
  if (!IsPrintable(byte)) {
    const uint32_t k = byte < kNumLow ? byte
                       : byte < 161   ? kNumLow + byte - 127
                                      : kNumLow + kNumMiddle;
    c = kFirstSubstitute + k;
  }
  std::string out;
  AppendUtf8(c, &out);
  return out;
}

std::optional<std::string> BytesFromSpelling(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t i = 0; i < token.size(); ++i) {
    const auto lead = static_cast<uint8_t>(token[i]);
    uint32_t c = lead;
    if (lead >= 0x80) {
      // The alphabet ends at U+0143, so a longer character spells nothing.
      if (lead >= 0xE0 || i + 1 >= token.size()) return std::nullopt;
      c = (lead & 0x1Fu) << 6 | (static_cast<uint8_t>(token[++i]) & 0x3Fu);
    }
    const std::optional<uint8_t> byte = ByteOf(c);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace firesteel
