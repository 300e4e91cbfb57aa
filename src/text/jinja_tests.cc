// What `is` asks.
#include <fmt/format.h>

#include "text/jinja_library.h"

namespace firesteel::jinja {
namespace {

struct Predicate {
  std::string_view name;
  bool (*holds)(const Value& value);
};

constexpr Predicate kPredicates[] = {
    {"defined", [](const Value& v) { return !v.IsUndefined(); }},
    {"undefined", [](const Value& v) { return v.IsUndefined(); }},
    {"none", [](const Value& v) { return v.IsNone(); }},
    {"string", [](const Value& v) { return v.AsString() != nullptr; }},
    {"mapping", [](const Value& v) { return v.AsDict() != nullptr; }},
    // Undefined is both, being an empty sequence in Python.
    {"iterable",
     [](const Value& v) { return v.AsString() || v.AsList() || v.AsDict() || v.IsUndefined(); }},
    {"sequence",
     [](const Value& v) { return v.AsString() || v.AsList() || v.AsDict() || v.IsUndefined(); }},
    {"number", [](const Value& v) { return v.IsNumber(); }},
    {"integer", [](const Value& v) { return v.As<int64_t>() != nullptr; }},
    {"float", [](const Value& v) { return v.As<double>() != nullptr; }},
    {"boolean", [](const Value& v) { return v.As<bool>() != nullptr; }},
    {"true", [](const Value& v) { return v.As<bool>() && *v.As<bool>(); }},
    {"false", [](const Value& v) { return v.As<bool>() && !*v.As<bool>(); }},
    {"callable", [](const Value& v) { return v.IsCallable(); }},
    {"lower",
     [](const Value& v) {
       const std::string s = ToText(v);
       return s == ToLower(s) && s != ToUpper(s);
     }},
    {"upper",
     [](const Value& v) {
       const std::string s = ToText(v);
       return s == ToUpper(s) && s != ToLower(s);
     }},
};

struct Relation {
  std::string_view name;
  std::string_view op;
};

constexpr Relation kRelations[] = {
    {"equalto", "=="}, {"eq", "=="}, {"==", "=="}, {"ne", "!="}, {"!=", "!="}, {"lt", "<"},
    {"lessthan", "<"}, {"<", "<"},   {"le", "<="}, {"<=", "<="}, {"gt", ">"},  {"greaterthan", ">"},
    {">", ">"},        {"ge", ">="}, {">=", ">="}, {"in", "in"},
};

Result<bool> Divides(std::string_view name, const Value& operand, const Value* by, Budget* budget) {
  const Value two(int64_t{2});
  FS_ASSIGN(const Value rest, BinaryOperator("%", operand, by ? *by : two, budget));
  if (name == "odd") return EqualsWithin(rest, Value(int64_t{1}), budget);
  return EqualsWithin(rest, Value(int64_t{0}), budget);
}

}  // namespace

bool IsTest(std::string_view name) {
  for (const Predicate& known : kPredicates) {
    if (known.name == name) return true;
  }
  for (const Relation& known : kRelations) {
    if (known.name == name) return true;
  }
  return name == "divisibleby" || name == "odd" || name == "even";
}

Result<bool> ApplyTest(std::string_view name, const Value& operand, const Arguments& arguments,
                       Budget* budget) {
  FS_TRY(budget->Spend(1));
  for (const Predicate& known : kPredicates) {
    if (known.name != name) continue;
    FS_TRY(Bind(name, arguments, {}).status());
    if (name == "lower" || name == "upper") FS_TRY(Print(operand, budget).status());
    return known.holds(operand);
  }
  if (name == "odd" || name == "even") {
    FS_TRY(Bind(name, arguments, {}).status());
    return Divides(name, operand, nullptr, budget);
  }
  FS_ASSIGN(const Bound args, Bind(name, arguments, {"other"}));
  if (!args[0]) return InvalidArgument(fmt::format("the test '{}' needs an argument", name));
  if (name == "divisibleby") return Divides(name, operand, args[0], budget);
  for (const Relation& known : kRelations) {
    if (known.name == name) return CompareOperator(known.op, operand, *args[0], budget);
  }
  return InvalidArgument(fmt::format("there is no test '{}'", name));
}

}  // namespace firesteel::jinja
