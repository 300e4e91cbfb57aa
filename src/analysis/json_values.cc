#include "analysis/json_values.h"

#include <fmt/format.h>

#include <algorithm>

namespace firesteel {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};

class Scanner {
 public:
  Scanner(std::string_view text, std::string_view where) : text_(text), where_(where) {
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  Result<std::vector<JsonAt>> Run() {
    std::vector<JsonAt> values;
    bool in_array = false;
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\n') ++line_;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
      if (c == '[' && !in_array) {
        in_array = true;
      } else if (c == ']' && in_array) {
        in_array = false;
      } else if (c == '{') {
        FS_ASSIGN(JsonAt value, Object(&i));
        values.push_back(std::move(value));
      } else if (!(c == ',' && in_array)) {
        return InvalidArgument(fmt::format("{}:{}: found {}, expected a JSON object", where_, line_,
                                           DumpJson(Json(std::string(1, c)))));
      }
    }
    if (in_array) {
      return InvalidArgument(
          fmt::format("{}:{}: the list is not closed, expected ]: the file was "
                      "cut short",
                      where_, line_));
    }
    return values;
  }

 private:
  // From text_[*i] == '{'; leaves *i at the closing brace.
  Result<JsonAt> Object(size_t* i) {
    JsonAt at{.value = {}, .line = line_};
    std::string object;
    int64_t depth = 0;
    size_t copied = *i;
    for (size_t j = *i; j < text_.size(); ++j) {
      const char c = text_[j];
      if (c == '"') {
        j = StringEnd(j);
      } else if (c == '\n') {
        ++line_;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (--depth > 0) continue;
        object += text_.substr(copied, j + 1 - copied);
        *i = j;
        FS_ASSIGN(at.value, ParseJson(object, fmt::format("{}:{}", where_, at.line)));
        return at;
      } else if (const std::string_view word = WordAt(j); !word.empty()) {
        object += text_.substr(copied, j - copied);
        object += fmt::format("\"{}\"", word);
        j += word.size() - 1;
        copied = j + 1;
      }
    }
    return InvalidArgument(fmt::format(
        "{}:{}: the object that begins here is not closed, expected }}: the file was cut short",
        where_, at.line));
  }

  // The closing quote of the string that opens at text_[i], or the last byte.
  size_t StringEnd(size_t i) {
    for (++i; i < text_.size() && text_[i] != '"'; ++i) {
      if (text_[i] == '\n') ++line_;
      if (text_[i] == '\\') ++i;
    }
    return std::min(i, text_.size() - 1);
  }

  std::string_view WordAt(size_t i) const {
    for (const std::string_view word : kWords) {
      if (text_.substr(i, word.size()) == word) return word;
    }
    return {};
  }

  std::string_view text_;
  std::string_view where_;
  int32_t line_ = 1;
};

}  // namespace

Result<std::vector<JsonAt>> ParseJsonValues(std::string_view text, std::string_view where) {
  return Scanner(text, where).Run();
}

std::string DumpToolJson(const Json& value, bool strict) {
  std::string text = DumpJson(value);
  if (strict) return text;
  for (const std::string_view word : kWords) {
    const std::string quoted = fmt::format(": \"{}\"", word);
    const std::string compact = fmt::format(":\"{}\"", word);
    for (const std::string& from : {quoted, compact}) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
        text.replace(at, from.size(), fmt::format(":{}", word));
    }
  }
  return text;
}

}  // namespace firesteel
