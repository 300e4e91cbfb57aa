// Filters on one value; those that walk lists are in jinja_list_filters.cc.
#include "text/jinja_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace firesteel::jinja {
namespace {

constexpr int64_t kMaxIndent = 64;

Result<int64_t> IntegerOr(std::string_view what, const Value* value, int64_t otherwise) {
  if (value == nullptr || value->IsNone()) return otherwise;
  const auto i = value->AsInteger();
  if (!i)
    return InvalidArgument(fmt::format("{}: '{}' given, expected 'int'", what, value->TypeName()));
  return *i;
}

Result<Value> Trim(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  const std::string* chars = nullptr;
  if (args[0] && !args[0]->IsNone()) {
    FS_ASSIGN(chars, TextArgument("trim", args[0]));
  }
  return MakeText(Strip(text, chars, true, true), budget);
}

Result<Value> ToJson(const Value& operand, const Bound& args, Budget* budget) {
  JsonStyle style;
  style.ensure_ascii = args[0] && args[0]->Truth();
  if (args[1] && !args[1]->IsNone()) {
    FS_ASSIGN(const int64_t indent, IntegerOr("tojson", args[1], 0));
    if (indent > kMaxIndent)
      return InvalidArgument(fmt::format("tojson: indent is {}, at most {}", indent, kMaxIndent));
    style.indent = static_cast<int>(std::max<int64_t>(indent, 0));
  }
  if (args[2] && !args[2]->IsNone()) return InvalidArgument("tojson: separators are not supported");
  style.sort_keys = args[3] && args[3]->Truth();
  FS_TRY(budget->Spend(static_cast<size_t>(operand.weight()) / 8));
  std::string out;
  FS_TRY(AppendJson(operand, style, &out));
  return MakeText(std::move(out), budget);
}

Result<Value> Upper(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  return MakeText(ToUpper(text), budget);
}

Result<Value> Lower(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  return MakeText(ToLower(text), budget);
}

Result<Value> CapitalizeFilter(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  return MakeText(Capitalize(text), budget);
}

// Unlike str.title, a word begins only behind white space and the characters -([{<.
Result<Value> Title(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  std::string out;
  std::u32string word;
  const auto flush = [&] {
    if (word.empty()) return;
    out += ToUpper(Encode({word.data(), 1}));
    out += ToLower(Encode({word.data() + 1, word.size() - 1}));
    word.clear();
  };
  for (const char32_t c : Decode(text)) {
    const bool separates =
        c == '-' || c == '(' || c == '[' || c == '{' || c == '<' || IsPythonSpace(c);
    if (separates) {
      flush();
      out += Encode({&c, 1});
    } else {
      word += c;
    }
  }
  flush();
  return MakeText(std::move(out), budget);
}

Result<Value> Default(const Value& operand, const Bound& args, Budget*) {
  const bool boolean = args[1] && args[1]->Truth();
  if (!operand.IsUndefined() && (!boolean || operand.Truth())) return operand;
  return args[0] ? *args[0] : Value(std::string());
}

Result<Value> StringFilter(const Value& operand, const Bound&, Budget* budget) {
  if (operand.AsString()) return operand;
  FS_ASSIGN(std::string text, Print(operand, budget));
  return Value(std::move(text));
}

Result<Value> Safe(const Value& operand, const Bound& args, Budget* budget) {
  return StringFilter(operand, args, budget);
}

// The number that all of `text` spells, apart from white space around it.
std::optional<double> ParseNumber(const std::string& text) {
  const std::string bare = Strip(text, nullptr, true, true);
  if (bare.empty() || bare.find_first_not_of("0123456789+-.eE_") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(bare.c_str(), &end);
  return *end == '\0' ? std::optional<double>(value) : std::nullopt;
}

Result<Value> Int(const Value& operand, const Bound& args, Budget*) {
  if (operand.IsUndefined()) return UndefinedError(operand);
  FS_ASSIGN(const int64_t base, IntegerOr("int", args[1], 10));
  const Value otherwise = args[0] ? *args[0] : Value(int64_t{0});
  if (const auto i = operand.AsInteger()) return Value(*i);
  std::optional<double> number;
  if (const double* d = operand.As<double>()) number = *d;
  if (const std::string* s = operand.AsString()) {
    const std::string bare = Strip(*s, nullptr, true, true);
    char* end = nullptr;
    errno = 0;
    const long long whole =
        std::strtoll(bare.c_str(), &end, base >= 2 && base <= 36 ? static_cast<int>(base) : 10);
    if (!bare.empty() && *end == '\0' && errno == 0) return Value(static_cast<int64_t>(whole));
    number = ParseNumber(bare);
  }
  if (!number || !std::isfinite(*number) || std::abs(*number) >= 9.2e18) return otherwise;
  return Value(static_cast<int64_t>(*number));
}

Result<Value> Float(const Value& operand, const Bound& args, Budget*) {
  if (operand.IsUndefined()) return UndefinedError(operand);
  if (operand.IsNumber()) return Value(operand.ToDouble());
  const std::optional<double> number =
      operand.AsString() ? ParseNumber(*operand.AsString()) : std::nullopt;
  if (number) return Value(*number);
  return args[0] ? *args[0] : Value(0.0);
}

Result<Value> Abs(const Value& operand, const Bound&, Budget*) {
  if (const double* d = operand.As<double>()) return Value(std::abs(*d));
  const auto i = operand.AsInteger();
  if (!i || *i == INT64_MIN)
    return InvalidArgument(fmt::format("abs: does not work on '{}'", operand.TypeName()));
  return Value(*i < 0 ? -*i : *i);
}

Result<Value> Replace(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  FS_ASSIGN(const std::string* from, TextArgument("replace", args[0]));
  FS_ASSIGN(const std::string* to, TextArgument("replace", args[1]));
  FS_ASSIGN(const int64_t count, IntegerOr("replace", args[2], -1));
  return MakeText(ReplaceAll(text, *from, *to, count), budget);
}

Result<Value> Indent(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::string text, Print(operand, budget));
  std::string prefix(4, ' ');
  if (args[0] && args[0]->AsString()) {
    prefix = *args[0]->AsString();
  } else {
    FS_ASSIGN(const int64_t width, IntegerOr("indent", args[0], 4));
    if (width > kMaxIndent)
      return InvalidArgument(fmt::format("indent: width is {}, at most {}", width, kMaxIndent));
    prefix.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool first = args[1] && args[1]->Truth();
  const bool blank = args[2] && args[2]->Truth();
  std::string out = first ? prefix : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool blank_next = i + 1 == text.size() || text[i + 1] == '\n';
    if (text[i] == '\n' && (blank || !blank_next)) out += prefix;
    if (out.size() > kMaxText) break;
  }
  return MakeText(std::move(out), budget);
}

constexpr FilterEntry kFilters[] = {
    {"trim", {"chars"}, &Trim},
    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, &ToJson},
    {"upper", {}, &Upper},
    {"lower", {}, &Lower},
    {"capitalize", {}, &CapitalizeFilter},
    {"title", {}, &Title},
    {"default", {"default_value", "boolean"}, &Default},
    {"d", {"default_value", "boolean"}, &Default},
    {"string", {}, &StringFilter},
    {"safe", {}, &Safe},
    {"int", {"default", "base"}, &Int},
    {"float", {"default"}, &Float},
    {"abs", {}, &Abs},
    {"replace", {"old", "new", "count"}, &Replace},
    {"indent", {"width", "first", "blank"}, &Indent},
};

const FilterEntry* FindFilter(std::string_view name) {
  for (const FilterEntry& entry : kFilters) {
    if (entry.name == name) return &entry;
  }
  for (const FilterEntry& entry : ListFilters()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

bool IsFilter(std::string_view name) {
  return IsVariadicFilter(name) || FindFilter(name) != nullptr;
}

Result<Value> ApplyFilter(std::string_view name, const Value& operand, const Arguments& arguments,
                          Budget* budget) {
  FS_TRY(budget->Spend(1));
  if (IsVariadicFilter(name)) return ApplyVariadicFilter(name, operand, arguments, budget);
  const FilterEntry* entry = FindFilter(name);
  if (entry == nullptr) return InvalidArgument(fmt::format("there is no filter '{}'", name));
  std::vector<std::string_view> parameters;
  for (const std::string_view parameter : entry->parameters) {
    if (!parameter.empty()) parameters.push_back(parameter);
  }
  FS_ASSIGN(const Bound args, Bind(name, arguments, parameters));
  return entry->apply(operand, args, budget);
}

}  // namespace firesteel::jinja
