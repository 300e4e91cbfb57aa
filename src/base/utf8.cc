#include "base/utf8.h"

#include <cstdint>

namespace firesteel {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Kind { kCharacter, kIllFormed, kCutShort };

// The character that starts at text[at], or the maximal part of one (Unicode table 3-7 says which
// bytes may follow which).
struct Step {
  Kind kind;
  size_t length;  // >= 1
};

Step Next(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {Kind::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::kIllFormed, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte alone rules out overlong forms, surrogates and code points past U+10FFFF.
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (at + i == text.size()) return {Kind::kCutShort, i};
    if (byte(at + i) < low || byte(at + i) > high) return {Kind::kIllFormed, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::kCharacter, length};
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Step step = Next(text, at);
    if (step.kind != Kind::kCharacter) return false;
    at += step.length;
  }
  return true;
}

size_t IncompleteUtf8Tail(std::string_view text) {
  for (size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const Step step = Next(text, text.size() - length);
    if (step.kind == Kind::kCutShort && step.length == length) return length;
    if (step.kind == Kind::kCharacter) return 0;
  }
  return 0;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Step step = Next(text, at);
    out += step.kind == Kind::kCharacter ? text.substr(at, step.length) : kReplacement;
    at += step.length;
  }
  return out;
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto c = static_cast<uint32_t>(code_point);
  const auto push = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xC0 | c >> 6);
    push(0x80 | (c & 0x3F));
  } else if ((c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) {
    *out += kReplacement;
  } else if (c < 0x10000) {
    push(0xE0 | c >> 12);
    push(0x80 | (c >> 6 & 0x3F));
    push(0x80 | (c & 0x3F));
  } else {
    push(0xF0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3F));
    push(0x80 | (c >> 6 & 0x3F));
    push(0x80 | (c & 0x3F));
  }
}

}  // namespace firesteel
