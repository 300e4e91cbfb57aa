// The parsed template. Immutable after parsing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace firesteel::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<std::unique_ptr<Statement>>;

enum class ExpressionKind {
  kConstant,     // constant
  kName,         // text
  kList,         // args
  kTuple,        // args
  kDict,         // args: key, value, key, value …
  kUnary,        // text: "-" "+" "not"; args: operand
  kBinary,       // text: "+" "-" "*" "/" "//" "%" "**"; args: left, right
  kConcat,       // args, joined as text
  kCompare,      // args: first, and the right side of each of operators ("==" … "in" "not in")
  kAnd,          // args: left, right
  kOr,           // args: left, right
  kConditional,  // args: then, condition, else (may be null)
  kAttribute,    // args: object; text: name
  kItem,         // args: object, key
  kSlice,        // args: object, start, stop, step, each but the object may be null
  kCall,         // args: callee, arguments …; kwargs
  kFilter,       // text: name; args: operand, arguments …; kwargs
  kTest,         // text: name; args: operand, arguments …
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  std::string text;
  Value constant;
  std::vector<std::string> operators;
  std::vector<ExpressionPtr> args;
  std::vector<std::pair<std::string, ExpressionPtr>> kwargs;
};

enum class StatementKind {
  kData,   // text
  kPrint,  // expression
  kFor,  // targets; expression: what to walk; condition (may be null): which items; body; otherwise
  kIf,   // branches: condition and body in turn; otherwise
  kSet,  // targets, or text "ns" and attribute; expression
  kSetBlock,  // targets[0], or text "ns" and attribute; body
  kMacro,     // macro
  kBody,      // body: a block that only marks a part ("generation")
  kBreak,
  kContinue,
};

struct MacroStatement {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
};

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text;
  std::string attribute;
  std::vector<std::string> targets;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Body body;
  Body otherwise;
  std::vector<Branch> branches;
  std::unique_ptr<MacroStatement> macro;
};

struct Template {
  Body body;
  bool uses_loop = false;  // the name "loop" occurs: only then is that object made
};

}  // namespace firesteel::jinja
