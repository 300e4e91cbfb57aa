#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/utf8.h"

namespace firesteel::jinja {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

// \r\n and \r become \n, and one newline at the very end goes.
std::string NormalizeNewlines(const std::string& source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(NormalizeNewlines(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) FS_TRY(Data());
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Status Error(std::string_view message) const { return TemplateError(line_, message); }

  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool At(std::string_view text, size_t offset = 0) const {
    return std::string_view(source_)
        .substr(std::min(at_ + offset, source_.size()))
        .starts_with(text);
  }

  void Advance(size_t count) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }

  void SkipSpace() {
    while (at_ < source_.size() && IsSpace(source_[at_])) Advance(1);
  }

  // The text up to the next tag, and the tag.
  Status Data() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        AddData(source_.size(), '\0', false);
        Advance(source_.size() - at_);
        return {};
      }
      const char c = source_[tag + 1];
      if (c == '{' || c == '%' || c == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    AddData(tag, has_sign ? sign : '\0', kind != '{');
    Advance(tag - at_ + 2 + (has_sign ? 1 : 0));
    if (kind == '#') return Comment();
    if (kind == '%' && IsRaw()) return Raw();
    Add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    return Expression(kind == '{');
  }

  // `sign` is that of the tag that follows: '-' takes the white space before it; without a sign a
  // block or comment takes what stands before it on its line, if that is white space only.
  void AddData(size_t end, char sign, bool may_lstrip) {
    std::string_view text(source_);
    text = text.substr(at_, end - at_);
    if (sign == '-') {
      while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    } else if (sign != '+' && may_lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_starts_) && std::all_of(text.begin() + line, text.end(), IsSpace)) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) Add(TokenKind::kData, std::string(text));
  }

  // Behind the closing sign of a block or comment.
  void EndTag(char sign, bool trims_newline) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trims_newline && At("\n")) {
      Advance(1);
    }
    line_starts_ = at_ == 0 || source_[at_ - 1] == '\n';
  }

  Status Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return Error("a comment is not closed");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Advance(end - at_ + 2);
    EndTag(sign, true);
    return {};
  }

  bool IsRaw() const {
    size_t i = at_;
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    if (source_.compare(i, 3, "raw") != 0) return false;
    i += 3;
    while (i < source_.size() && IsSpace(source_[i])) ++i;
    return source_.compare(i, 2, "%}") == 0 || source_.compare(i, 3, "-%}") == 0;
  }

  Status Raw() {
    const size_t close = source_.find("%}", at_);
    const char sign = source_[close - 1];
    Advance(close - at_ + 2);
    EndTag(sign == '-' ? '-' : '\0', false);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      size_t i = tag + 2;
      const char open = i < source_.size() ? source_[i] : '\0';
      const bool has_sign = open == '-' || open == '+';
      if (has_sign) ++i;
      while (i < source_.size() && IsSpace(source_[i])) ++i;
      if (source_.compare(i, 6, "endraw") != 0) continue;
      i += 6;
      while (i < source_.size() && IsSpace(source_[i])) ++i;
      const char shut = i < source_.size() ? source_[i] : '\0';
      if (shut == '-' || shut == '+') ++i;
      if (source_.compare(i, 2, "%}") != 0) continue;
      AddData(tag, has_sign ? open : '\0', true);
      Advance(i + 2 - at_);
      EndTag(shut, true);
      return {};
    }
    return Error("a raw block is not closed");
  }

  Status Expression(bool is_variable) {
    std::string open;  // brackets not yet closed; inside them "}}" is two of them
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) return Error("the template ends inside a tag");
      if (open.empty()) {
        const std::string_view end = is_variable ? "}}" : "%}";
        const char sign = source_[at_];
        const bool signed_end = (sign == '-' || (sign == '+' && !is_variable)) && At(end, 1);
        if (At(end) || signed_end) {
          Add(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          Advance(signed_end ? 3 : 2);
          EndTag(signed_end ? sign : '\0', !is_variable);
          return {};
        }
      }
      const char c = source_[at_];
      if (IsNameStart(c)) {
        size_t end = at_;
        while (end < source_.size() && IsNamePart(source_[end])) ++end;
        Add(TokenKind::kName, source_.substr(at_, end - at_));
        Advance(end - at_);
      } else if (std::isdigit(static_cast<unsigned char>(c))) {
        Number();
      } else if (c == '"' || c == '\'') {
        FS_TRY(String());
      } else {
        FS_TRY(Operator(&open));
      }
    }
  }

  void Number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() &&
             (std::isdigit(static_cast<unsigned char>(source_[end])) || source_[end] == '_')) {
        ++end;
      }
    };
    const auto digit_at = [&](size_t i) {
      return i < source_.size() && std::isdigit(static_cast<unsigned char>(source_[i]));
    };
    digits();
    TokenKind kind = TokenKind::kInteger;
    if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      kind = TokenKind::kFloat;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
      if (digit_at(end + 1 + sign)) {
        kind = TokenKind::kFloat;
        end += 1 + sign;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    Add(kind, std::move(text));
    Advance(end - at_);
  }

  Status String() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    std::string text;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] != '\\') {
        text += source_[end++];
        continue;
      }
      if (end + 1 >= source_.size()) break;
      FS_TRY(StringEscape(&end, &text));
    }
    if (end >= source_.size()) return Error("a string is not closed");
    Add(TokenKind::kString, std::move(text));
    Advance(end + 1 - at_);
    return {};
  }

  // source_[*end] is a backslash; moves *end behind the escape.
  Status StringEscape(size_t* end, std::string* text) const {
    constexpr std::string_view kLetters = "abfnrtv0\\'\"";
    constexpr std::string_view kMeanings("\a\b\f\n\r\t\v\0\\'\"", 11);
    const char c = source_[*end + 1];
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      const std::string hex = source_.substr(*end + 2, digits);
      const bool valid = hex.size() == digits && std::all_of(hex.begin(), hex.end(), [](char h) {
                           return std::isxdigit(static_cast<unsigned char>(h));
                         });
      if (!valid) return Error(fmt::format("a string holds a malformed escape \\{}", c));
      AppendUtf8(static_cast<char32_t>(std::stoul(hex, nullptr, 16)), text);
      *end += 2 + digits;
      return {};
    }
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      *text += kMeanings[i];
    } else if (c != '\n') {  // a backslash before a newline joins the lines; before anything else
                             // it stays
      *text += '\\';
      *text += c;
    }
    *end += 2;
    return {};
  }

  Status Operator(std::string* open) {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!At(two)) continue;
      Add(TokenKind::kOperator, std::string(two));
      Advance(2);
      return {};
    }
    const char c = source_[at_];
    if (std::string_view("+-/*%~[](){}><=.:|,").find(c) == std::string_view::npos) {
      return Error(fmt::format("unexpected character '{}'", c));
    }
    if (c == '(' || c == '[' || c == '{') *open += c;
    if (c == ')' || c == ']' || c == '}') {
      const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open->empty() || open->back() != wanted) return Error(fmt::format("unexpected '{}'", c));
      open->pop_back();
    }
    Add(TokenKind::kOperator, std::string(1, c));
    Advance(1);
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // the data that follows begins at the beginning of a line
  std::vector<Token> tokens_;
};

}  // namespace

Status TemplateError(int line, std::string_view message) {
  return InvalidArgument(fmt::format("chat template line {}: {}", line, message));
}

Result<std::vector<Token>> Tokenize(const std::string& source) { return Lexer(source).Run(); }

}  // namespace firesteel::jinja
