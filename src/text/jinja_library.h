// What expressions do: operators, attributes, methods, filters, tests and global functions, as
// Jinja2 defines them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "firesteel/status.h"
#include "text/jinja_value.h"

namespace firesteel::jinja {

// What one rendering may still cost. A step is about one node of the tree, one list element or 16
// bytes of text.
class Budget {
 public:
  // kInvalidArgument once it is used up.
  Status Spend(size_t steps);

 private:
  static constexpr size_t kMaxSteps = 10'000'000;
  size_t spent_ = 0;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// [parameters] of a call; nullptr where none was given. Views the Arguments.
using Bound = std::vector<const Value*>;
// kInvalidArgument "<what>: …" for too many or unknown arguments.
Result<Bound> Bind(std::string_view what, const Arguments& arguments,
                   const std::vector<std::string_view>& parameters);

// All give kInvalidArgument with a message that does not name the place; the interpreter adds the
// line.
Result<Value> MakeText(std::string text, Budget* budget);
Result<std::string> Print(const Value& value, Budget* budget);  // str()
Status UndefinedError(const Value& value);                      // REQUIRES: IsUndefined()
Result<bool> EqualsWithin(const Value& a, const Value& b, Budget* budget);

Result<Value> UnaryOperator(std::string_view op, const Value& operand);
Result<Value> BinaryOperator(std::string_view op, const Value& left, const Value& right,
                             Budget* budget);
Result<bool> CompareOperator(std::string_view op, const Value& left, const Value& right,
                             Budget* budget);
Result<bool> Contains(const Value& container, const Value& item, Budget* budget);
Result<std::vector<Value>> Iterate(const Value& value, Budget* budget);
Result<Value> GetAttribute(const Value& object, const std::string& name);
Result<Value> GetItem(const Value& object, const Value& key, Budget* budget);
// Bounds may be None.
Result<Value> GetSlice(const Value& object, const Value& start, const Value& stop,
                       const Value& step, Budget* budget);

bool HasStringMethod(std::string_view name);
Result<Value> CallMethod(const Method& method, const Arguments& arguments, Budget* budget);

bool IsFunction(std::string_view name);
// Not raise_exception, which the interpreter handles itself.
Result<Value> CallFunction(std::string_view name, const Arguments& arguments, Budget* budget);

bool IsFilter(std::string_view name);
Result<Value> ApplyFilter(std::string_view name, const Value& operand, const Arguments& arguments,
                          Budget* budget);
bool IsTest(std::string_view name);
Result<bool> ApplyTest(std::string_view name, const Value& operand, const Arguments& arguments,
                       Budget* budget);

// The text of a string argument; `value` may be null.
Result<const std::string*> TextArgument(std::string_view what, const Value* value);

bool IsPythonSpace(char32_t c);  // str.isspace
// Of whole strings, by Unicode's full mappings.
std::string ToUpper(const std::string& text);
std::string ToLower(const std::string& text);
std::string Capitalize(const std::string& text);
// `chars` null: white space.
std::string Strip(const std::string& text, const std::string* chars, bool left, bool right);
std::string ReplaceAll(const std::string& text, const std::string& from, const std::string& to,
                       int64_t count);

}  // namespace firesteel::jinja
