// Global functions, and how calls bind their arguments.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "text/jinja_library.h"

namespace firesteel::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;

Result<Value> Range(const Arguments& arguments, Budget* budget) {
  FS_ASSIGN(const Bound args, Bind("range", arguments, {"start", "stop", "step"}));
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    if (!args[i]) continue;
    if (!args[i]->AsInteger())
      return InvalidArgument(fmt::format("range: '{}' given, expected 'int'", args[i]->TypeName()));
    numbers[i] = *args[i]->AsInteger();
  }
  if (!args[0]) return InvalidArgument("range: no arguments given");
  if (!args[1]) std::swap(numbers[0], numbers[1]);
  const auto [start, stop, step] = numbers;
  if (step == 0) return InvalidArgument("range: the step is zero");
  std::vector<Value> out;
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (out.size() == static_cast<size_t>(kMaxRange)) {
      return InvalidArgument(fmt::format("range: more than {} numbers", kMaxRange));
    }
    out.emplace_back(static_cast<int64_t>(i));
  }
  FS_TRY(budget->Spend(4 * out.size()));
  return Value::MakeList(std::move(out));
}

Result<Value> FormatNow(const Arguments& arguments) {
  FS_ASSIGN(const Bound args, Bind("strftime_now", arguments, {"format"}));
  FS_ASSIGN(const std::string* format, TextArgument("strftime_now", args[0]));
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[1024];
  const size_t size = std::strftime(buffer, sizeof buffer, format->c_str(), &local);
  if (size == 0 && !format->empty())
    return InvalidArgument("strftime_now: the format gives nothing or too long a text");
  return Value(std::string(buffer, size));
}

Result<Value> MakeNamespace(const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  for (const Value& base : arguments.positional) {
    const Dict* dict = base.AsDict();
    if (dict == nullptr)
      return InvalidArgument(
          fmt::format("namespace: '{}' given, expected 'dict'", base.TypeName()));
    for (const auto& [key, value] : dict->items()) (*space)[key] = value;
  }
  for (const auto& [key, value] : arguments.named) {
    if (value.AsNamespace())
      return InvalidArgument("namespace: a namespace cannot hold a namespace");
    (*space)[key] = value;
  }
  return Value(std::move(space));
}

}  // namespace

Result<const std::string*> TextArgument(std::string_view what, const Value* value) {
  const std::string* text = value ? value->AsString() : nullptr;
  if (text == nullptr) {
    return InvalidArgument(
        fmt::format("{}: '{}' given, expected 'str'", what, value ? value->TypeName() : "nothing"));
  }
  return text;
}

Result<Bound> Bind(std::string_view what, const Arguments& arguments,
                   const std::vector<std::string_view>& parameters) {
  Bound bound(parameters.size(), nullptr);
  if (arguments.positional.size() > parameters.size()) {
    return InvalidArgument(fmt::format("{}: {} arguments given, expected at most {}", what,
                                       arguments.positional.size(), parameters.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(parameters.begin(), parameters.end(), name);
    if (it == parameters.end())
      return InvalidArgument(fmt::format("{}: unknown argument '{}'", what, name));
    const Value*& slot = bound[it - parameters.begin()];
    if (slot != nullptr)
      return InvalidArgument(fmt::format("{}: argument '{}' given twice", what, name));
    slot = &value;
  }
  return bound;
}

bool IsFunction(std::string_view name) {
  return name == "raise_exception" || name == "strftime_now" || name == "range" ||
         name == "namespace" || name == "dict";
}

Result<Value> CallFunction(std::string_view name, const Arguments& arguments, Budget* budget) {
  FS_TRY(budget->Spend(4 * (1 + arguments.named.size())));
  if (name == "range") return Range(arguments, budget);
  if (name == "namespace") return MakeNamespace(arguments);
  if (name == "strftime_now") return FormatNow(arguments);
  Dict dict;
  for (const Value& base : arguments.positional) {
    if (!base.AsDict())
      return InvalidArgument(fmt::format("dict: '{}' given, expected 'dict'", base.TypeName()));
    for (const auto& [key, value] : base.AsDict()->items()) dict.Set(key, value);
  }
  for (const auto& [key, value] : arguments.named) dict.Set(key, value);
  return Value::MakeDict(std::move(dict));
}

}  // namespace firesteel::jinja
