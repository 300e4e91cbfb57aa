// Operators, by rank.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_library.h"
#include "text/jinja_parser.h"

namespace firesteel::jinja {
ExpressionPtr ExpressionParser::Make(ExpressionKind kind, std::string text) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = tokens_.line();
  node->text = std::move(text);
  return node;
}

Result<ExpressionPtr> ExpressionParser::ParseTuple(bool with_conditional) {
  ExpressionPtr tuple = Make(ExpressionKind::kTuple);
  bool comma = false;
  while (true) {
    FS_ASSIGN(ExpressionPtr item, with_conditional ? Conditional() : Or());
    tuple->args.push_back(std::move(item));
    if (!tokens_.SkipOperator(",")) break;
    comma = true;
    const TokenKind next = tokens_.Peek().kind;
    if (next == TokenKind::kBlockEnd || next == TokenKind::kVariableEnd || tokens_.IsOperator(")"))
      break;
  }
  if (!comma) return std::move(tuple->args[0]);
  return tuple;
}

Result<ExpressionPtr> ExpressionParser::Conditional() {
  DepthGuard guard(this);
  FS_TRY(guard.Check());
  FS_ASSIGN(ExpressionPtr value, Or());
  while (tokens_.SkipName("if")) {
    FS_TRY(guard.Link());
    ExpressionPtr node = Make(ExpressionKind::kConditional);
    FS_ASSIGN(ExpressionPtr condition, Or());
    ExpressionPtr otherwise;
    if (tokens_.SkipName("else")) {
      FS_ASSIGN(otherwise, Conditional());
    }
    node->args.push_back(std::move(value));
    node->args.push_back(std::move(condition));
    node->args.push_back(std::move(otherwise));
    value = std::move(node);
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::Or() {
  DepthGuard guard(this);
  FS_ASSIGN(ExpressionPtr left, And());
  while (tokens_.SkipName("or")) {
    FS_TRY(guard.Link());
    ExpressionPtr node = Make(ExpressionKind::kOr);
    FS_ASSIGN(ExpressionPtr right, And());
    node->args.push_back(std::move(left));
    node->args.push_back(std::move(right));
    left = std::move(node);
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::And() {
  DepthGuard guard(this);
  FS_ASSIGN(ExpressionPtr left, Not());
  while (tokens_.SkipName("and")) {
    FS_TRY(guard.Link());
    ExpressionPtr node = Make(ExpressionKind::kAnd);
    FS_ASSIGN(ExpressionPtr right, Not());
    node->args.push_back(std::move(left));
    node->args.push_back(std::move(right));
    left = std::move(node);
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::Not() {
  DepthGuard guard(this);
  FS_TRY(guard.Check());
  if (!tokens_.IsName("not")) return Comparison();
  ExpressionPtr node = Make(ExpressionKind::kUnary, "not");
  tokens_.Next();
  FS_ASSIGN(ExpressionPtr operand, Not());
  node->args.push_back(std::move(operand));
  return node;
}

Result<ExpressionPtr> ExpressionParser::Comparison() {
  FS_ASSIGN(ExpressionPtr first, Sum());
  ExpressionPtr node = Make(ExpressionKind::kCompare);
  while (true) {
    std::string op;
    for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
      if (tokens_.IsOperator(known)) op = known;
    }
    if (tokens_.IsName("in")) op = "in";
    if (tokens_.IsName("not") && tokens_.IsName("in", 1)) {
      op = "not in";
      tokens_.Next();
    }
    if (op.empty()) break;
    tokens_.Next();
    if (node->args.empty()) node->args.push_back(std::move(first));
    FS_ASSIGN(ExpressionPtr right, Sum());
    node->operators.push_back(std::move(op));
    node->args.push_back(std::move(right));
  }
  if (node->args.empty()) return first;
  return node;
}

Result<ExpressionPtr> ExpressionParser::LeftChain(
    std::initializer_list<std::string_view> operators,
    Result<ExpressionPtr> (ExpressionParser::*operand)()) {
  DepthGuard guard(this);
  FS_ASSIGN(ExpressionPtr left, (this->*operand)());
  while (true) {
    const auto op = std::find_if(operators.begin(), operators.end(),
                                 [&](std::string_view text) { return tokens_.IsOperator(text); });
    if (op == operators.end()) return left;
    FS_TRY(guard.Link());
    ExpressionPtr node = Make(ExpressionKind::kBinary, std::string(*op));
    tokens_.Next();
    FS_ASSIGN(ExpressionPtr right, (this->*operand)());
    node->args.push_back(std::move(left));
    node->args.push_back(std::move(right));
    left = std::move(node);
  }
}

Result<ExpressionPtr> ExpressionParser::Sum() {
  return LeftChain({"+", "-"}, &ExpressionParser::Concatenation);
}

Result<ExpressionPtr> ExpressionParser::Concatenation() {
  FS_ASSIGN(ExpressionPtr first, Product());
  if (!tokens_.IsOperator("~")) return first;
  ExpressionPtr node = Make(ExpressionKind::kConcat);
  node->args.push_back(std::move(first));
  while (tokens_.SkipOperator("~")) {
    FS_ASSIGN(ExpressionPtr next, Product());
    node->args.push_back(std::move(next));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::Product() {
  return LeftChain({"*", "/", "//", "%"}, &ExpressionParser::Power);
}

Result<ExpressionPtr> ExpressionParser::Power() {
  DepthGuard guard(this);
  FS_ASSIGN(ExpressionPtr left, Unary(true));
  while (tokens_.SkipOperator("**")) {
    FS_TRY(guard.Link());
    ExpressionPtr node = Make(ExpressionKind::kBinary, "**");
    FS_ASSIGN(ExpressionPtr right, Unary(true));
    node->args.push_back(std::move(left));
    node->args.push_back(std::move(right));
    left = std::move(node);
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::Unary(bool with_filter) {
  DepthGuard guard(this);
  FS_TRY(guard.Check());
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    node = Make(ExpressionKind::kUnary, tokens_.Peek().text);
    tokens_.Next();
    FS_ASSIGN(ExpressionPtr operand, Unary(false));
    node->args.push_back(std::move(operand));
  } else {
    FS_ASSIGN(node, Primary());
  }
  FS_ASSIGN(node, Postfix(std::move(node)));
  return with_filter ? Filters(std::move(node)) : Result<ExpressionPtr>(std::move(node));
}

}  // namespace firesteel::jinja
