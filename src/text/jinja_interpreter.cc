// Statements.
#include "text/jinja_interpreter.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <utility>

#include "text/jinja_lexer.h"

namespace firesteel::jinja {
namespace {

// A quarter of what a thread has.
constexpr ptrdiff_t kMaxStackBytes = ptrdiff_t{2} << 20;

}  // namespace

Interpreter::Interpreter(const Template& tree, std::map<std::string, Value> variables)
    : tree_(tree), root_{{}, nullptr} {
  for (auto& [name, value] : variables) root_.variables.emplace(name, std::move(value));
}

Result<std::string> Interpreter::Run() {
  std::string out;
  FS_TRY(Execute(tree_.body, &out).status());
  return out;
}

Status Interpreter::CheckStack() const {
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  if (std::abs(stack_begin_ - here) <= kMaxStackBytes) return {};
  return InvalidArgument("blocks, expressions and macros nest too deep");
}

Status Interpreter::Located(const Status& status, int line) {
  if (status.ok() || located_) return status;
  located_ = true;
  return TemplateError(line, status.message());
}

Status Interpreter::Append(std::string_view text, std::string* out) {
  output_bytes_ += text.size();
  if (output_bytes_ > kMaxText) {
    return InvalidArgument(fmt::format("the output would be longer than {} bytes", kMaxText));
  }
  *out += text;
  return {};
}

Result<Interpreter::Flow> Interpreter::Execute(const Body& body, std::string* out) {
  for (const auto& statement : body) {
    Result<Flow> flow = ExecuteOne(*statement, out);
    if (!flow.ok()) return Located(flow.status(), statement->line);
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::ExecuteOne(const Statement& statement, std::string* out) {
  FS_TRY(CheckStack());
  FS_TRY(budget_.Spend(1));
  switch (statement.kind) {
    case StatementKind::kData:
      FS_TRY(Append(statement.text, out));
      return Flow::kNext;
    case StatementKind::kPrint: {
      FS_ASSIGN(const Value value, Evaluate(*statement.expression));
      if (const std::string* text = value.AsString()) {
        FS_TRY(Append(*text, out));
        return Flow::kNext;
      }
      FS_ASSIGN(const std::string text, Print(value, &budget_));
      FS_TRY(Append(text, out));
      return Flow::kNext;
    }
    case StatementKind::kFor:
      return ExecuteFor(statement, out);
    case StatementKind::kIf:
      return ExecuteIf(statement, out);
    case StatementKind::kSet:
    case StatementKind::kSetBlock:
      FS_TRY(ExecuteSet(statement));
      return Flow::kNext;
    case StatementKind::kMacro:
      scope_->variables.insert_or_assign(statement.macro->name,
                                         Value(Macro{statement.macro.get()}));
      return Flow::kNext;
    case StatementKind::kBody:
      return Execute(statement.body, out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::ExecuteIf(const Statement& statement, std::string* out) {
  for (const Branch& branch : statement.branches) {
    FS_ASSIGN(const Value condition, Evaluate(*branch.condition));
    if (condition.Truth()) return Execute(branch.body, out);
  }
  return Execute(statement.otherwise, out);
}

Status Interpreter::ExecuteSet(const Statement& statement) {
  if (statement.kind == StatementKind::kSet) {
    FS_ASSIGN(Value value, Evaluate(*statement.expression));
    return Assign(statement, std::move(value));
  }
  // A block has a scope of its own.
  Scope inner{{}, scope_};
  scope_ = &inner;
  std::string text;
  const Status done = Execute(statement.body, &text).status();
  scope_ = inner.parent;
  FS_TRY(done);
  FS_ASSIGN(Value value, MakeText(std::move(text), &budget_));
  return Assign(statement, std::move(value));
}

Status Interpreter::Assign(const Statement& statement, Value value) {
  if (statement.attribute.empty()) return Unpack(statement.targets, value);
  const Value target = LookUp(statement.text);
  Namespace* space = target.AsNamespace();
  if (space == nullptr) {
    return InvalidArgument(
        fmt::format("'{}' is not a namespace, its attributes cannot be set", statement.text));
  }
  if (value.AsNamespace()) return InvalidArgument("a namespace cannot hold a namespace");
  space->insert_or_assign(statement.attribute, std::move(value));
  return {};
}

Status Interpreter::Unpack(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    scope_->variables.insert_or_assign(targets[0], value);
    return {};
  }
  FS_ASSIGN(std::vector<Value> parts, Iterate(value, &budget_));
  if (parts.size() != targets.size()) {
    return InvalidArgument(
        fmt::format("{} values to unpack, expected {}", parts.size(), targets.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    scope_->variables.insert_or_assign(targets[i], std::move(parts[i]));
  }
  return {};
}

Result<Value> Interpreter::LoopObject(const std::vector<Value>& items, size_t index) {
  Dict loop;
  const auto i = static_cast<int64_t>(index);
  const auto n = static_cast<int64_t>(items.size());
  loop.Set("index", Value(i + 1));
  loop.Set("index0", Value(i));
  loop.Set("revindex", Value(n - i));
  loop.Set("revindex0", Value(n - i - 1));
  loop.Set("first", Value(i == 0));
  loop.Set("last", Value(i + 1 == n));
  loop.Set("length", Value(n));
  // Counts the levels of recursive loops, which are not in the subset.
  loop.Set("depth", Value(int64_t{1}));
  loop.Set("depth0", Value(int64_t{0}));
  if (index > 0) loop.Set("previtem", items[index - 1]);
  if (index + 1 < items.size()) loop.Set("nextitem", items[index + 1]);
  return Value::MakeDict(std::move(loop));
}

Result<Interpreter::Flow> Interpreter::ExecuteFor(const Statement& statement, std::string* out) {
  FS_ASSIGN(const Value sequence, Evaluate(*statement.expression));
  FS_ASSIGN(std::vector<Value> items, Iterate(sequence, &budget_));
  Scope* const outer = scope_;
  // Every pass has fresh variables: what one sets, neither the next nor what follows the loop sees.
  const auto pass = [&](auto&& run) -> Status {
    Scope inner{{}, outer};
    scope_ = &inner;
    Status status = run();
    scope_ = outer;
    return status;
  };
  if (statement.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      FS_TRY(pass([&]() -> Status {
        FS_TRY(Unpack(statement.targets, item));
        FS_ASSIGN(const Value condition, Evaluate(*statement.condition));
        if (condition.Truth()) kept.push_back(item);
        return {};
      }));
    }
    items = std::move(kept);
  }
  if (items.empty()) return Execute(statement.otherwise, out);
  Flow flow = Flow::kNext;
  for (size_t i = 0; i < items.size() && flow != Flow::kBreak; ++i) {
    FS_TRY(pass([&]() -> Status {
      FS_TRY(budget_.Spend(1));
      if (tree_.uses_loop) {
        FS_TRY(budget_.Spend(10));
        FS_ASSIGN(Value loop, LoopObject(items, i));
        scope_->variables.emplace("loop", std::move(loop));
      }
      FS_TRY(Unpack(statement.targets, items[i]));
      FS_ASSIGN(flow, Execute(statement.body, out));
      return {};
    }));
  }
  return Flow::kNext;
}

Result<Value> Interpreter::CallMacro(const MacroStatement& macro, const Arguments& arguments) {
  const std::vector<std::string_view> parameters(macro.parameters.begin(), macro.parameters.end());
  FS_ASSIGN(const Bound bound, Bind(macro.name, arguments, parameters));
  Scope inner{{}, &root_};
  Scope* const caller = std::exchange(scope_, &inner);
  std::string text;
  const auto run = [&]() -> Status {
    const size_t first_default = parameters.size() - macro.defaults.size();
    for (size_t i = 0; i < bound.size(); ++i) {
      Value value =
          Value::MakeUndefined(fmt::format("parameter '{}' was not provided", parameters[i]));
      if (bound[i] != nullptr) {
        value = *bound[i];
      } else if (i >= first_default) {
        FS_ASSIGN(value, Evaluate(*macro.defaults[i - first_default]));
      }
      inner.variables.insert_or_assign(macro.parameters[i], std::move(value));
    }
    return Execute(macro.body, &text).status();
  };
  const Status done = run();
  scope_ = caller;
  FS_TRY(done);
  return MakeText(std::move(text), &budget_);
}

}  // namespace firesteel::jinja
