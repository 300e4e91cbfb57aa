#include "text/regex_translation.h"

#include <fmt/format.h>

#include <cctype>

namespace firesteel {
namespace {

// Unicode's White_Space. PCRE2's \s adds U+180E, which lost the property in Unicode 6.3.
constexpr std::string_view kSpace =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x00-\x08\x0E-\x1F\x21-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{D7FF}\x{E000}-\x{10FFFF})";
// PCRE2's \w leaves out marks and most connectors.
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> Run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        FS_TRY(Escape(false));
      } else if (c == '[') {
        FS_TRY(Class());
      } else if (c == '(') {
        FS_TRY(Group());
      } else if (c == '{') {
        FS_TRY(Repeat());
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  Status Refuse(std::string_view what) const {
    return Unsupported(fmt::format("holds {} at byte {}, which is not supported", what, at_));
  }

  char Peek(size_t offset) const { return at_ + offset < in_.size() ? in_[at_ + offset] : '\0'; }

  Status Class() {
    out_ += '[';
    ++at_;
    if (Peek(0) == '^') {
      out_ += '^';
      ++at_;
    }
    if (Peek(0) == ']') return Refuse("an empty class or \"]\" as its first member");
    while (at_ < in_.size() && in_[at_] != ']') {
      const char c = in_[at_];
      if (c == '&' && Peek(1) == '&') return Refuse("\"&&\" inside a class");
      if (c == '[') return Refuse("a set inside a class");
      if (c == '\\') {
        FS_TRY(Escape(true));
      } else {
        out_ += c;
        ++at_;
      }
    }
    if (at_ == in_.size()) return Refuse("a class without end");
    out_ += ']';
    ++at_;
    return {};
  }

  Status Group() {
    out_ += '(';
    ++at_;
    if (Peek(0) == '*') return Refuse("\"(*\"");
    if (Peek(0) != '?') return {};
    for (const std::string_view known : {"?:", "?=", "?!", "?>", "?<=", "?<!", "?i:"}) {
      if (in_.substr(at_).starts_with(known)) {
        out_ += known;
        at_ += known.size();
        return {};
      }
    }
    return Refuse(fmt::format("the group \"({}\"", in_.substr(at_, 3)));
  }

  // {n}, {n,}, {n,m}. What follows it means something else in Ruby: "{2}+" repeats there and is
  // possessive in PCRE2.
  Status Repeat() {
    const size_t end = in_.find('}', at_);
    const std::string_view body =
        in_.substr(at_ + 1, end == std::string_view::npos ? end : end - at_ - 1);
    const bool counts = end != std::string_view::npos && !body.empty() && std::isdigit(body[0]) &&
                        body.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!counts) return Refuse("\"{\" without a count");
    out_ += in_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    if (Peek(0) == '+' || Peek(0) == '?') return Refuse("a sign behind a counted repeat");
    return {};
  }

  Status Escape(bool in_class) {
    const char c = Peek(1);
    const auto emit = [&](std::string_view set, bool negated) {
      if (in_class) {
        out_ += set;
      } else {
        out_ += fmt::format("[{}{}]", negated ? "^" : "", set);
      }
      at_ += 2;
    };
    switch (c) {
      case '\0':
        return Refuse("a backslash at the end");
      case 's':
        emit(kSpace, false);
        return {};
      case 'S':
        emit(in_class ? kNotSpace : kSpace, true);
        return {};
      case 'w':
        emit(kWord, false);
        return {};
      case 'W':
        if (in_class) return Refuse("\"\\W\" inside a class");
        emit(kWord, true);
        return {};
      case 'd':
        emit(R"(\p{Nd})", false);
        return {};
      case 'D':
        emit(R"(\P{Nd})", false);
        return {};
      case 'v':
        emit(R"(\x0B)", false);
        return {};
      case 'r':
      case 'n':
      case 't':
      case 'f':
        break;
      case 'u':
        return CodePoint(2, 4);
      case 'x':
        return Peek(2) == '{' ? CodePoint(2, 0) : CodePoint(2, 2);
      case 'p':
      case 'P':
        return Property();
      default:
        if (std::isalnum(static_cast<unsigned char>(c))) {
          return Refuse(fmt::format("the escape \"\\{}\"", c));
        }
        // An escaped character beyond ASCII is that character; its first byte goes with the
        // backslash.
        if (static_cast<unsigned char>(c) >= 0x80) {
          out_ += c;
          at_ += 2;
          return {};
        }
        break;
    }
    out_ += in_.substr(at_, 2);
    at_ += 2;
    return {};
  }

  // \uHHHH, \xHH (digits > 0) or \x{H…} (digits == 0).
  Status CodePoint(size_t skip, size_t digits) {
    size_t begin = at_ + skip;
    size_t end = begin + digits;
    if (digits == 0) {
      ++begin;
      end = in_.find('}', begin);
    }
    if (end == std::string_view::npos || end > in_.size() || begin == end || end - begin > 6 ||
        in_.substr(begin, end - begin).find_first_not_of("0123456789abcdefABCDEF") !=
            std::string_view::npos) {
      return Refuse("a malformed code point");
    }
    // Oniguruma reads \x80 and above as raw bytes.
    if (digits == 2 && in_[begin] >= '8') return Refuse("a byte above \\x7F");
    out_ += fmt::format("\\x{{{}}}", in_.substr(begin, end - begin));
    at_ = digits == 0 ? end + 1 : end;
    return {};
  }

  Status Property() {
    if (Peek(2) != '{') return Refuse("a property without braces");
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return Refuse("a property without end");
    const std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with("^");
    const std::string_view bare = name.substr(negated ? 1 : 0);
    for (const char c : bare) {
      if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') {
        return Refuse(fmt::format("the property \"{}\"", name));
      }
    }
    // A longer name is a script. PCRE2 would take its extensions too, Oniguruma takes the script
    // alone.
    const bool is_script = bare.size() > 2 && bare != "Any";
    out_ += fmt::format("\\{}{{{}{}{}}}", in_[at_ + 1], negated ? "^" : "", is_script ? "sc:" : "",
                        bare);
    at_ = end + 1;
    return {};
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> TranslateRegex(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace firesteel
