#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_library.h"

namespace firesteel::jinja {
namespace {

constexpr std::string_view kDictMethods[] = {"items", "get", "keys", "values"};

Status TypeError(std::string_view op, const Value& left, const Value& right) {
  if (left.IsUndefined()) return UndefinedError(left);
  if (right.IsUndefined()) return UndefinedError(right);
  return InvalidArgument(
      fmt::format("'{}' does not work on '{}' and '{}'", op, left.TypeName(), right.TypeName()));
}

Result<Value> IntegerOperator(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "**") {
    if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
    if (a == -1 || a == 0 || a == 1)
      b = std::min(b, 2 + b % 2);  // only whether it is odd, or zero, matters
    result = 1;
    while (b-- > 0 && !overflow) overflow = __builtin_mul_overflow(result, a, &result);
  } else {
    if (b == 0) return InvalidArgument("division by zero");
    if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
    if (a == INT64_MIN && b == -1) return InvalidArgument("an integer is too large");
    // Python rounds down, C++ towards zero.
    const int64_t remainder = a % b;
    const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
    result = op == "//" ? a / b - (adjust ? 1 : 0) : remainder + (adjust ? b : 0);
  }
  if (overflow) return InvalidArgument("an integer is too large");
  return Value(result);
}

Result<Value> FloatOperator(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) return InvalidArgument("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  const double remainder = std::fmod(a, b);
  return Value(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

Result<Value> Repeat(const Value& sequence, int64_t count, Budget* budget) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (const std::string* text = sequence.AsString()) {
    if (!text->empty() && times > kMaxText / text->size()) {
      return InvalidArgument(fmt::format("a text would be longer than {} bytes", kMaxText));
    }
    std::string out;
    for (size_t i = 0; i < times && !text->empty(); ++i) out += *text;
    return MakeText(std::move(out), budget);
  }
  const List& list = *sequence.AsList();
  std::vector<Value> out;
  for (size_t i = 0; i < times && !list.items.empty(); ++i) {
    FS_TRY(budget->Spend(4 * list.items.size()));
    out.insert(out.end(), list.items.begin(), list.items.end());
  }
  return Value::MakeList(std::move(out), list.is_tuple);
}

Value NoAttribute(const Value& object, const std::string& name) {
  return Value::MakeUndefined(
      fmt::format("'{} object' has no attribute '{}'", object.TypeName(), name));
}

}  // namespace

Status Budget::Spend(size_t steps) {
  spent_ += std::min(steps, kMaxSteps + 1);
  if (spent_ <= kMaxSteps) return {};
  return InvalidArgument(fmt::format("rendering takes more than {} steps", kMaxSteps));
}

Result<Value> MakeText(std::string text, Budget* budget) {
  if (text.size() > kMaxText) {
    return InvalidArgument(fmt::format("a text would be longer than {} bytes", kMaxText));
  }
  FS_TRY(budget->Spend(text.size() / 16));
  return Value(std::move(text));
}

Result<std::string> Print(const Value& value, Budget* budget) {
  if (value.weight() > static_cast<int64_t>(kMaxText)) {
    return InvalidArgument(fmt::format("a text would be longer than {} bytes", kMaxText));
  }
  FS_TRY(budget->Spend(static_cast<size_t>(value.weight()) / 16));
  return ToText(value);
}

Status UndefinedError(const Value& value) {
  const auto& name = value.As<Undefined>()->name;
  return InvalidArgument(name ? *name : "a value is undefined");
}

Result<bool> EqualsWithin(const Value& a, const Value& b, Budget* budget) {
  FS_TRY(budget->Spend(static_cast<size_t>(std::min(a.weight(), b.weight())) / 16));
  return Equals(a, b);
}

Result<Value> UnaryOperator(std::string_view op, const Value& operand) {
  if (op == "not") return Value(!operand.Truth());
  if (const double* d = operand.As<double>()) return Value(op == "-" ? -*d : *d);
  if (const auto i = operand.AsInteger()) return IntegerOperator(op, 0, *i);
  return TypeError(op, Value(int64_t{0}), operand);
}

Result<Value> BinaryOperator(std::string_view op, const Value& left, const Value& right,
                             Budget* budget) {
  if (left.IsNumber() && right.IsNumber()) {
    const auto a = left.AsInteger(), b = right.AsInteger();
    return a && b ? IntegerOperator(op, *a, *b)
                  : FloatOperator(op, left.ToDouble(), right.ToDouble());
  }
  if (op == "+" && left.AsString() && right.AsString()) {
    return MakeText(*left.AsString() + *right.AsString(), budget);
  }
  const List *a = left.AsList(), *b = right.AsList();
  if (op == "+" && a && b && a->is_tuple == b->is_tuple) {
    FS_TRY(budget->Spend(4 * (a->items.size() + b->items.size())));
    std::vector<Value> items = a->items;
    items.insert(items.end(), b->items.begin(), b->items.end());
    return Value::MakeList(std::move(items), a->is_tuple);
  }
  if (op == "*") {
    if ((left.AsString() || a) && right.AsInteger())
      return Repeat(left, *right.AsInteger(), budget);
    if ((right.AsString() || b) && left.AsInteger())
      return Repeat(right, *left.AsInteger(), budget);
  }
  return TypeError(op, left, right);
}

Result<bool> CompareOperator(std::string_view op, const Value& left, const Value& right,
                             Budget* budget) {
  if (op == "in" || op == "not in") {
    FS_ASSIGN(const bool found, Contains(right, left, budget));
    return found == (op == "in");
  }
  FS_ASSIGN(const bool equal, EqualsWithin(left, right, budget));
  if (op == "==" || op == "!=") return equal == (op == "==");
  if (left.IsUndefined()) return UndefinedError(left);
  if (right.IsUndefined()) return UndefinedError(right);
  FS_ASSIGN(const int order, Compare(left, right));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

Result<bool> Contains(const Value& container, const Value& item, Budget* budget) {
  if (const std::string* text = container.AsString()) {
    const std::string* part = item.AsString();
    if (part == nullptr) return TypeError("in", item, container);
    FS_TRY(budget->Spend(text->size() / 16));
    return text->find(*part) != std::string::npos;
  }
  if (const List* list = container.AsList()) {
    for (const Value& member : list->items) {
      FS_TRY(budget->Spend(1));
      FS_ASSIGN(const bool equal, EqualsWithin(member, item, budget));
      if (equal) return true;
    }
    return false;
  }
  if (const Dict* dict = container.AsDict()) {
    return item.AsString() != nullptr && dict->Find(*item.AsString()) != nullptr;
  }
  if (container.IsUndefined()) return false;
  return InvalidArgument(fmt::format("'in' does not work on '{}'", container.TypeName()));
}

Result<std::vector<Value>> Iterate(const Value& value, Budget* budget) {
  std::vector<Value> out;
  if (const List* list = value.AsList()) {
    FS_TRY(budget->Spend(list->items.size()));
    out = list->items;
  } else if (const Dict* dict = value.AsDict()) {
    FS_TRY(budget->Spend(4 * dict->items().size()));
    for (const auto& [key, item] : dict->items()) out.emplace_back(key);
  } else if (const std::string* text = value.AsString()) {
    FS_TRY(budget->Spend(4 * text->size()));
    for (const char32_t c : Decode(*text)) out.emplace_back(Encode({&c, 1}));
  } else if (!value.IsUndefined()) {
    return InvalidArgument(fmt::format("'{}' object is not iterable", value.TypeName()));
  }
  return out;
}

Result<Value> GetAttribute(const Value& object, const std::string& name) {
  if (object.IsUndefined()) return UndefinedError(object);
  if (const Namespace* space = object.AsNamespace()) {
    const auto it = space->find(name);
    return it == space->end() ? NoAttribute(object, name) : it->second;
  }
  const Dict* dict = object.AsDict();
  const bool is_method =
      dict ? std::count(std::begin(kDictMethods), std::end(kDictMethods), name) > 0
           : object.AsString() != nullptr && HasStringMethod(name);
  if (is_method) return Value(std::make_shared<const Method>(Method{object, name}));
  if (dict != nullptr) {
    if (const Value* value = dict->Find(name)) return *value;
  }
  return NoAttribute(object, name);
}

Result<Value> GetItem(const Value& object, const Value& key, Budget* budget) {
  if (object.IsUndefined()) return UndefinedError(object);
  if (const std::string* name = key.AsString()) {
    if (const Dict* dict = object.AsDict()) {
      if (const Value* value = dict->Find(*name)) return *value;
    }
    return GetAttribute(object, *name);
  }
  const auto index = key.AsInteger();
  if (index && (object.AsList() || object.AsString())) {
    const auto pick = [&](int64_t size) { return *index < 0 ? *index + size : *index; };
    if (const List* list = object.AsList()) {
      const auto size = static_cast<int64_t>(list->items.size());
      const int64_t at = pick(size);
      if (at >= 0 && at < size) return list->items[at];
    } else {
      FS_TRY(budget->Spend(object.AsString()->size() / 4));
      const std::u32string text = Decode(*object.AsString());
      const int64_t at = pick(static_cast<int64_t>(text.size()));
      if (at >= 0 && at < static_cast<int64_t>(text.size())) return Value(Encode({&text[at], 1}));
    }
  }
  return Value::MakeUndefined(fmt::format("'{} object' has no element {}", object.TypeName(),
                                          key.IsNumber() ? Repr(key) : key.TypeName()));
}

Result<Value> GetSlice(const Value& object, const Value& start, const Value& stop,
                       const Value& step_value, Budget* budget) {
  if (object.IsUndefined()) return UndefinedError(object);
  for (const Value* bound : {&start, &stop, &step_value}) {
    if (!bound->IsNone() && !bound->AsInteger()) {
      return InvalidArgument(
          fmt::format("a slice bound is '{}', expected an integer", bound->TypeName()));
    }
  }
  const List* list = object.AsList();
  const std::string* string = object.AsString();
  if (list == nullptr && string == nullptr) {
    return InvalidArgument(fmt::format("'{}' object cannot be sliced", object.TypeName()));
  }
  FS_TRY(budget->Spend(list ? list->items.size() : string->size() / 4));
  const std::u32string text = string ? Decode(*string) : std::u32string();
  const auto size = static_cast<int64_t>(list ? list->items.size() : text.size());
  int64_t step = step_value.AsInteger().value_or(1);
  if (step == 0) return InvalidArgument("a slice step is zero");
  step = std::clamp(step, -size - 1, size + 1);  // a longer one takes the same elements
  const auto clip = [&](const Value& bound, int64_t otherwise) {
    if (bound.IsNone()) return otherwise;
    const int64_t i = std::clamp(*bound.AsInteger(), -size - 1, size + 1);
    return std::clamp(i < 0 ? i + size : i, step < 0 ? int64_t{-1} : 0, step < 0 ? size - 1 : size);
  };
  const int64_t first = clip(start, step < 0 ? size - 1 : 0);
  const int64_t last = clip(stop, step < 0 ? -1 : size);
  std::vector<Value> items;
  std::u32string cut;
  for (int64_t i = first; step < 0 ? i > last : i < last; i += step) {
    if (list) {
      items.push_back(list->items[i]);
    } else {
      cut += text[i];
    }
  }
  if (list) return Value::MakeList(std::move(items), list->is_tuple);
  return MakeText(Encode(cut), budget);
}

}  // namespace firesteel::jinja
