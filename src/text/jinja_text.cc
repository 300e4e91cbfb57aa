// Functions of text that methods and filters share.
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include "text/jinja_library.h"
#include "text/normalizer.h"

namespace firesteel::jinja {

// str.isspace: White_Space and the four separators of ASCII.
bool IsPythonSpace(char32_t c) { return IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F); }

std::string ToUpper(const std::string& text) {
  std::string out;
  icu::UnicodeString::fromUTF8(text).toUpper(icu::Locale::getRoot()).toUTF8String(out);
  return out;
}

std::string ToLower(const std::string& text) {
  std::string out;
  icu::UnicodeString::fromUTF8(text).toLower(icu::Locale::getRoot()).toUTF8String(out);
  return out;
}

std::string Capitalize(const std::string& text) {
  if (text.empty()) return text;
  size_t first = 1;
  while (first < text.size() && (static_cast<unsigned char>(text[first]) & 0xC0) == 0x80) ++first;
  std::string out;
  icu::UnicodeString::fromUTF8(text.substr(0, first))
      .toTitle(nullptr, icu::Locale::getRoot())
      .toUTF8String(out);
  // The whole is lowered, not the rest alone: a final sigma looks at what precedes it.
  const icu::UnicodeString lower =
      icu::UnicodeString::fromUTF8(text).toLower(icu::Locale::getRoot());
  icu::UnicodeString head =
      icu::UnicodeString::fromUTF8(text.substr(0, first)).toLower(icu::Locale::getRoot());
  lower.tempSubString(head.length()).toUTF8String(out);
  return out;
}

std::string Strip(const std::string& text, const std::string* chars, bool left, bool right) {
  const std::u32string all = Decode(text);
  const std::u32string set = chars ? Decode(*chars) : std::u32string();
  const auto drops = [&](char32_t c) {
    return chars ? set.find(c) != std::u32string::npos : IsPythonSpace(c);
  };
  size_t begin = 0, end = all.size();
  while (left && begin < end && drops(all[begin])) ++begin;
  while (right && end > begin && drops(all[end - 1])) --end;
  return Encode(std::u32string_view(all).substr(begin, end - begin));
}

std::string ReplaceAll(const std::string& text, const std::string& from, const std::string& to,
                       int64_t count) {
  std::string out;
  size_t at = 0;
  if (from.empty()) {
    // Python puts `to` before every character and at the end.
    for (const char32_t c : Decode(text)) {
      if (count-- != 0)
        out += to;
      else
        count = 0;
      out += Encode({&c, 1});
      if (out.size() > kMaxText) return out;
    }
    return count != 0 ? out + to : out;
  }
  while (count != 0) {
    const size_t next = text.find(from, at);
    if (next == std::string::npos) break;
    out.append(text, at, next - at);
    out += to;
    at = next + from.size();
    --count;
    if (out.size() > kMaxText) return out;  // MakeText refuses it
  }
  out.append(text, at);
  return out;
}

}  // namespace firesteel::jinja
