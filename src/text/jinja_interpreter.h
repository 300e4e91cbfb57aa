// Runs a parsed template once. Not thread-safe; one for each rendering.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "firesteel/status.h"
#include "text/jinja_ast.h"
#include "text/jinja_library.h"

namespace firesteel::jinja {

class Interpreter {
 public:
  // `tree` and `variables` are the template and what it sees at its top level. `tree` must outlive
  // this object.
  Interpreter(const Template& tree, std::map<std::string, Value> variables);

  // kInvalidArgument: with the template's own words when it calls raise_exception, otherwise "chat
  // template line 3: …".
  Result<std::string> Run();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Nesting;

  struct Scope {
    std::map<std::string, Value, std::less<>> variables;
    Scope* parent;
  };

  Result<Flow> Execute(const Body& body, std::string* out);
  Result<Flow> ExecuteOne(const Statement& statement, std::string* out);
  Result<Flow> ExecuteIf(const Statement& statement, std::string* out);
  Result<Flow> ExecuteFor(const Statement& statement, std::string* out);
  Status ExecuteSet(const Statement& statement);
  Status Assign(const Statement& statement, Value value);
  Status Unpack(const std::vector<std::string>& targets, const Value& value);
  Status Append(std::string_view text, std::string* out);
  static Result<Value> LoopObject(const std::vector<Value>& items, size_t index);
  // Levels of expressions and of blocks take very different room, so it is the room that counts.
  Status CheckStack() const;
  // With the line in front, unless a message has one already or is the template's own.
  Status Located(const Status& status, int line);

  Result<Value> Evaluate(const Expression& node);
  Result<Value> EvaluateOptional(const ExpressionPtr& node);  // None for null
  Value LookUp(const std::string& name) const;
  Result<Value> EvaluateSequence(const Expression& node);
  Result<Value> EvaluateDict(const Expression& node);
  Result<Value> EvaluateLogic(const Expression& node);
  Result<Value> EvaluateCompare(const Expression& node);
  Result<Value> EvaluateConcat(const Expression& node);
  Result<Value> EvaluateCall(const Expression& node);
  Result<Value> CallMacro(const MacroStatement& macro, const Arguments& arguments);
  Result<Arguments> EvaluateArguments(const Expression& node);

  const Template& tree_;
  Scope root_;
  Scope* scope_ = &root_;
  Budget budget_;
  int depth_ = 0;
  const char* const stack_begin_ = static_cast<const char*>(__builtin_frame_address(0));
  size_t output_bytes_ = 0;  // of all texts that statements made, macros included
  bool located_ = false;
};

}  // namespace firesteel::jinja
