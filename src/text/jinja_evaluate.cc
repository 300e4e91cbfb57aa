// Expressions.
#include <fmt/format.h>

#include "text/jinja_interpreter.h"

namespace firesteel::jinja {
namespace {

// Of expressions inside expressions and macros inside macros; each may take some kilobytes of
// stack.
constexpr int kMaxRecursion = 600;

}  // namespace

class Interpreter::Nesting {
 public:
  explicit Nesting(int* depth) : depth_(*depth) { ++depth_; }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Status Check() const {
    if (depth_ <= kMaxRecursion) return {};
    return InvalidArgument(
        fmt::format("expressions and macros nest deeper than {}", kMaxRecursion));
  }

 private:
  int& depth_;
};

Result<Value> Interpreter::Evaluate(const Expression& node) {
  const Nesting nesting(&depth_);
  FS_TRY(nesting.Check());
  FS_TRY(CheckStack());
  FS_TRY(budget_.Spend(1));
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return LookUp(node.text);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return EvaluateSequence(node);
    case ExpressionKind::kDict:
      return EvaluateDict(node);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kConditional:
      return EvaluateLogic(node);
    case ExpressionKind::kCompare:
      return EvaluateCompare(node);
    case ExpressionKind::kConcat:
      return EvaluateConcat(node);
    case ExpressionKind::kCall:
      return EvaluateCall(node);
    default:
      break;
  }
  FS_ASSIGN(const Value first, Evaluate(*node.args[0]));
  switch (node.kind) {
    case ExpressionKind::kUnary:
      return UnaryOperator(node.text, first);
    case ExpressionKind::kBinary: {
      FS_ASSIGN(const Value second, Evaluate(*node.args[1]));
      return BinaryOperator(node.text, first, second, &budget_);
    }
    case ExpressionKind::kAttribute:
      return GetAttribute(first, node.text);
    case ExpressionKind::kItem: {
      FS_ASSIGN(const Value key, Evaluate(*node.args[1]));
      return GetItem(first, key, &budget_);
    }
    case ExpressionKind::kSlice: {
      FS_ASSIGN(const Value start, EvaluateOptional(node.args[1]));
      FS_ASSIGN(const Value stop, EvaluateOptional(node.args[2]));
      FS_ASSIGN(const Value step, EvaluateOptional(node.args[3]));
      return GetSlice(first, start, stop, step, &budget_);
    }
    case ExpressionKind::kFilter: {
      FS_ASSIGN(const Arguments arguments, EvaluateArguments(node));
      return ApplyFilter(node.text, first, arguments, &budget_);
    }
    case ExpressionKind::kTest: {
      FS_ASSIGN(const Arguments arguments, EvaluateArguments(node));
      FS_ASSIGN(const bool holds, ApplyTest(node.text, first, arguments, &budget_));
      return Value(holds);
    }
    default:
      return Internal("an expression of unknown kind");
  }
}

Result<Value> Interpreter::EvaluateOptional(const ExpressionPtr& node) {
  return node ? Evaluate(*node) : Result<Value>(Value(None{}));
}

Value Interpreter::LookUp(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return it->second;
  }
  if (IsFunction(name)) return Value(Function{std::make_shared<const std::string>(name)});
  return Value::MakeUndefined(fmt::format("'{}' is undefined", name));
}

Result<Value> Interpreter::EvaluateSequence(const Expression& node) {
  std::vector<Value> items;
  for (const ExpressionPtr& arg : node.args) {
    FS_ASSIGN(Value item, Evaluate(*arg));
    items.push_back(std::move(item));
  }
  FS_TRY(budget_.Spend(4 * items.size()));
  return Value::MakeList(std::move(items), node.kind == ExpressionKind::kTuple);
}

Result<Value> Interpreter::EvaluateDict(const Expression& node) {
  Dict dict;
  FS_TRY(budget_.Spend(8 * node.args.size()));
  for (size_t i = 0; i < node.args.size(); i += 2) {
    FS_ASSIGN(const Value key, Evaluate(*node.args[i]));
    FS_ASSIGN(Value value, Evaluate(*node.args[i + 1]));
    if (!key.AsString()) {
      return InvalidArgument(fmt::format("a dict key is '{}', expected 'str'", key.TypeName()));
    }
    dict.Set(*key.AsString(), std::move(value));
  }
  return Value::MakeDict(std::move(dict));
}

Result<Value> Interpreter::EvaluateLogic(const Expression& node) {
  if (node.kind == ExpressionKind::kConditional) {
    FS_ASSIGN(const Value condition, Evaluate(*node.args[1]));
    if (condition.Truth()) return Evaluate(*node.args[0]);
    if (node.args[2]) return Evaluate(*node.args[2]);
    return Value::MakeUndefined("an inline 'if' without 'else' did not hold");
  }
  FS_ASSIGN(Value left, Evaluate(*node.args[0]));
  const bool decided = left.Truth() == (node.kind == ExpressionKind::kOr);
  return decided ? Result<Value>(std::move(left)) : Evaluate(*node.args[1]);
}

Result<Value> Interpreter::EvaluateCompare(const Expression& node) {
  FS_ASSIGN(Value left, Evaluate(*node.args[0]));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    FS_ASSIGN(Value right, Evaluate(*node.args[i + 1]));
    FS_ASSIGN(const bool holds, CompareOperator(node.operators[i], left, right, &budget_));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::EvaluateConcat(const Expression& node) {
  std::string text;
  for (const ExpressionPtr& arg : node.args) {
    FS_ASSIGN(const Value value, Evaluate(*arg));
    FS_ASSIGN(const std::string part, Print(value, &budget_));
    text += part;
    if (text.size() > kMaxText) break;
  }
  return MakeText(std::move(text), &budget_);
}

Result<Arguments> Interpreter::EvaluateArguments(const Expression& node) {
  Arguments arguments;
  for (size_t i = 1; i < node.args.size(); ++i) {
    FS_ASSIGN(Value value, Evaluate(*node.args[i]));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : node.kwargs) {
    FS_ASSIGN(Value value, Evaluate(*expression));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<Value> Interpreter::EvaluateCall(const Expression& node) {
  FS_ASSIGN(const Value callee, Evaluate(*node.args[0]));
  FS_ASSIGN(const Arguments arguments, EvaluateArguments(node));
  if (const Macro* macro = callee.As<Macro>()) return CallMacro(*macro->statement, arguments);
  if (const Method* method = callee.AsMethod()) return CallMethod(*method, arguments, &budget_);
  if (const Function* function = callee.As<Function>()) {
    if (*function->name != "raise_exception")
      return CallFunction(*function->name, arguments, &budget_);
    FS_ASSIGN(const Bound bound, Bind("raise_exception", arguments, {"message"}));
    FS_ASSIGN(const std::string message, Print(bound[0] ? *bound[0] : Value(), &budget_));
    located_ = true;
    return InvalidArgument(message);
  }
  if (callee.IsUndefined()) return UndefinedError(callee);
  return InvalidArgument(fmt::format("'{}' object cannot be called", callee.TypeName()));
}

}  // namespace firesteel::jinja
