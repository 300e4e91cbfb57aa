// Methods of strings and dicts.
#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "text/jinja_library.h"

namespace firesteel::jinja {
namespace {

Result<Value> Split(const std::string& text, const Value* separator, int64_t limit,
                    Budget* budget) {
  std::vector<Value> parts;
  if (separator == nullptr || separator->IsNone()) {
    const std::u32string all = Decode(text);
    size_t i = 0;
    while (true) {
      while (i < all.size() && IsPythonSpace(all[i])) ++i;
      if (i == all.size()) break;
      size_t end = i;
      if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
        end = all.size();  // the rest as it is, white space at its end included
      } else {
        while (end < all.size() && !IsPythonSpace(all[end])) ++end;
      }
      FS_TRY(budget->Spend(4));
      parts.emplace_back(Encode(std::u32string_view(all).substr(i, end - i)));
      i = end;
      if (limit >= 0 && static_cast<int64_t>(parts.size()) > limit) break;
    }
    return Value::MakeList(std::move(parts));
  }
  FS_ASSIGN(const std::string* by, TextArgument("split", separator));
  if (by->empty()) return InvalidArgument("split: the separator is empty");
  size_t at = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t next = text.find(*by, at);
    if (next == std::string::npos) break;
    FS_TRY(budget->Spend(4));
    parts.emplace_back(text.substr(at, next - at));
    at = next + by->size();
  }
  parts.emplace_back(text.substr(at));
  return Value::MakeList(std::move(parts));
}

Result<Value> HasAffix(const std::string& text, const Value* affix, bool at_start) {
  const auto matches = [&](const std::string& part) {
    return at_start ? text.starts_with(part) : text.ends_with(part);
  };
  const List* several = affix ? affix->AsList() : nullptr;
  if (several != nullptr && several->is_tuple) {
    for (const Value& one : several->items) {
      FS_ASSIGN(const std::string* part, TextArgument("startswith", &one));
      if (matches(*part)) return Value(true);
    }
    return Value(false);
  }
  FS_ASSIGN(const std::string* part, TextArgument(at_start ? "startswith" : "endswith", affix));
  return Value(matches(*part));
}

struct StringMethod {
  std::string_view name;
  std::vector<std::string_view> parameters;
};

const std::vector<StringMethod>& StringMethods() {
  static const std::vector<StringMethod> methods = {
      {"strip", {"chars"}},
      {"lstrip", {"chars"}},
      {"rstrip", {"chars"}},
      {"split", {"sep", "maxsplit"}},
      {"startswith", {"prefix"}},
      {"endswith", {"suffix"}},
      {"upper", {}},
      {"lower", {}},
      {"capitalize", {}},
      {"title", {}},
      {"replace", {"old", "new", "count"}},
      {"join", {"iterable"}},
      {"find", {"sub"}},
      {"count", {"sub"}},
  };
  return methods;
}

// str.title: every run of letters begins with a title-case letter.
std::string TitleWords(const std::string& text) {
  std::string out;
  std::u32string word;
  const auto flush = [&] {
    out += Capitalize(Encode(word));
    word.clear();
  };
  for (const char32_t c : Decode(text)) {
    if (u_isalpha(static_cast<UChar32>(c))) {
      word += c;
      continue;
    }
    flush();
    out += Encode({&c, 1});
  }
  flush();
  return out;
}

Result<Value> Join(const std::string& separator, const Value* iterable, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(iterable ? *iterable : Value(), budget));
  std::string out;
  for (const Value& item : items) {
    FS_ASSIGN(const std::string* text, TextArgument("join", &item));
    if (&item != &items.front()) out += separator;
    out += *text;
    if (out.size() > kMaxText) break;
  }
  return MakeText(std::move(out), budget);
}

Result<Value> CallStringMethod(const std::string& name, const std::string& text, const Bound& args,
                               Budget* budget) {
  FS_TRY(budget->Spend(1 + text.size() / 16));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const std::string* chars = nullptr;
    if (args[0] && !args[0]->IsNone()) {
      FS_ASSIGN(chars, TextArgument(name, args[0]));
    }
    return MakeText(Strip(text, chars, name != "rstrip", name != "lstrip"), budget);
  }
  if (name == "split") {
    const auto limit = args[1] ? args[1]->AsInteger() : std::optional<int64_t>(-1);
    if (!limit) return InvalidArgument("split: maxsplit is not an integer");
    return Split(text, args[0], *limit, budget);
  }
  if (name == "startswith" || name == "endswith")
    return HasAffix(text, args[0], name == "startswith");
  if (name == "upper") return MakeText(ToUpper(text), budget);
  if (name == "lower") return MakeText(ToLower(text), budget);
  if (name == "capitalize") return MakeText(Capitalize(text), budget);
  if (name == "title") return MakeText(TitleWords(text), budget);
  if (name == "join") return Join(text, args[0], budget);
  FS_ASSIGN(const std::string* first, TextArgument(name, args[0]));
  if (name == "replace") {
    FS_ASSIGN(const std::string* second, TextArgument(name, args[1]));
    const auto count = args[2] ? args[2]->AsInteger() : std::optional<int64_t>(-1);
    if (!count) return InvalidArgument("replace: count is not an integer");
    return MakeText(ReplaceAll(text, *first, *second, *count), budget);
  }
  if (name == "find") {
    const size_t at = text.find(*first);
    if (at == std::string::npos) return Value(int64_t{-1});
    return Value(static_cast<int64_t>(Decode(std::string_view(text).substr(0, at)).size()));
  }
  int64_t count = first->empty() ? static_cast<int64_t>(Decode(text).size()) + 1 : 0;
  for (size_t at = 0; !first->empty() && (at = text.find(*first, at)) != std::string::npos;
       at += first->size()) {
    ++count;
  }
  return Value(count);
}

Result<Value> CallDictMethod(const std::string& name, const Dict& dict, const Arguments& arguments,
                             Budget* budget) {
  if (name == "get") {
    FS_ASSIGN(const Bound args, Bind("get", arguments, {"key", "default"}));
    if (!args[0]) return InvalidArgument("get: no key given");
    const Value* found = args[0]->AsString() ? dict.Find(*args[0]->AsString()) : nullptr;
    if (found) return *found;
    return args[1] ? *args[1] : Value(None{});
  }
  FS_TRY(Bind(name, arguments, {}).status());
  FS_TRY(budget->Spend(8 * dict.items().size()));
  std::vector<Value> out;
  for (const auto& [key, value] : dict.items()) {
    if (name == "items") {
      FS_ASSIGN(Value pair, Value::MakeList({Value(key), value}, true));
      out.push_back(std::move(pair));
    } else {
      out.push_back(name == "keys" ? Value(key) : value);
    }
  }
  return Value::MakeList(std::move(out));
}

}  // namespace

bool HasStringMethod(std::string_view name) {
  const auto& methods = StringMethods();
  return std::any_of(methods.begin(), methods.end(), [&](const auto& m) { return m.name == name; });
}

Result<Value> CallMethod(const Method& method, const Arguments& arguments, Budget* budget) {
  if (const Dict* dict = method.receiver.AsDict())
    return CallDictMethod(method.name, *dict, arguments, budget);
  for (const StringMethod& known : StringMethods()) {
    if (known.name != method.name) continue;
    FS_ASSIGN(const Bound args, Bind(method.name, arguments, known.parameters));
    return CallStringMethod(method.name, *method.receiver.AsString(), args, budget);
  }
  return InvalidArgument(
      fmt::format("'{}' has no method '{}'", method.receiver.TypeName(), method.name));
}

}  // namespace firesteel::jinja
