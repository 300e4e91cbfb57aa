// Literals, and what follows an operand: attributes, subscripts, calls, filters, tests.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "text/jinja_library.h"
#include "text/jinja_parser.h"

namespace firesteel::jinja {
namespace {

bool OpensArgument(const Token& token) {
  switch (token.kind) {
    case TokenKind::kName:
      return token.text != "else" && token.text != "or" && token.text != "and" &&
             token.text != "if" && token.text != "in" && token.text != "not" && token.text != "is";
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    default:
      return token.kind == TokenKind::kOperator && (token.text == "[" || token.text == "{");
  }
}

}  // namespace

Result<ExpressionPtr> ExpressionParser::Primary() {
  const Token token = tokens_.Peek();
  ExpressionPtr node = Make(ExpressionKind::kConstant);
  switch (token.kind) {
    case TokenKind::kName:
      tokens_.Next();
      if (token.text == "true" || token.text == "True") {
        node->constant = Value(true);
      } else if (token.text == "false" || token.text == "False") {
        node->constant = Value(false);
      } else if (token.text == "none" || token.text == "None") {
        node->constant = Value(None{});
      } else {
        node->kind = ExpressionKind::kName;
        node->text = token.text;
        saw_loop_ = saw_loop_ || token.text == "loop";
      }
      return node;
    case TokenKind::kString: {
      std::string text;  // adjacent strings are one
      while (tokens_.Peek().kind == TokenKind::kString) text += tokens_.Next().text;
      node->constant = Value(std::move(text));
      return node;
    }
    case TokenKind::kInteger: {
      int64_t value = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
        return tokens_.Error(fmt::format("the integer {} is too large", token.text));
      }
      tokens_.Next();
      node->constant = Value(value);
      return node;
    }
    case TokenKind::kFloat: {
      double value = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      tokens_.Next();
      node->constant = Value(value);
      return node;
    }
    default:
      break;
  }
  if (tokens_.IsOperator("(")) return Parenthesis();
  if (tokens_.IsOperator("[")) return ListLiteral();
  if (tokens_.IsOperator("{")) return DictLiteral();
  return tokens_.Unexpected("an expression");
}

Result<ExpressionPtr> ExpressionParser::Parenthesis() {
  ExpressionPtr empty = Make(ExpressionKind::kTuple);
  FS_TRY(tokens_.ExpectOperator("("));
  if (tokens_.SkipOperator(")")) return empty;
  FS_ASSIGN(ExpressionPtr inner, ParseTuple(true));
  FS_TRY(tokens_.ExpectOperator(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::ListLiteral() {
  ExpressionPtr node = Make(ExpressionKind::kList);
  FS_TRY(tokens_.ExpectOperator("["));
  while (!tokens_.IsOperator("]")) {
    FS_ASSIGN(ExpressionPtr item, Conditional());
    node->args.push_back(std::move(item));
    if (!tokens_.SkipOperator(",")) break;
  }
  FS_TRY(tokens_.ExpectOperator("]"));
  return node;
}

Result<ExpressionPtr> ExpressionParser::DictLiteral() {
  ExpressionPtr node = Make(ExpressionKind::kDict);
  FS_TRY(tokens_.ExpectOperator("{"));
  while (!tokens_.IsOperator("}")) {
    FS_ASSIGN(ExpressionPtr key, Conditional());
    FS_TRY(tokens_.ExpectOperator(":"));
    FS_ASSIGN(ExpressionPtr value, Conditional());
    node->args.push_back(std::move(key));
    node->args.push_back(std::move(value));
    if (!tokens_.SkipOperator(",")) break;
  }
  FS_TRY(tokens_.ExpectOperator("}"));
  return node;
}

Result<ExpressionPtr> ExpressionParser::Postfix(ExpressionPtr operand) {
  DepthGuard guard(this);
  while (true) {
    FS_TRY(guard.Link());
    if (tokens_.IsOperator("(")) {
      ExpressionPtr call = Make(ExpressionKind::kCall);
      call->args.push_back(std::move(operand));
      FS_TRY(Arguments(call.get()));
      operand = std::move(call);
    } else if (tokens_.IsOperator("[")) {
      FS_ASSIGN(operand, Subscript(std::move(operand)));
    } else if (tokens_.SkipOperator(".")) {
      ExpressionPtr node;
      const Token name = tokens_.Next();
      if (name.kind == TokenKind::kName) {
        node = Make(ExpressionKind::kAttribute, name.text);
        node->args.push_back(std::move(operand));
      } else if (name.kind == TokenKind::kInteger) {
        node = Make(ExpressionKind::kItem);
        node->args.push_back(std::move(operand));
        node->args.push_back(Make(ExpressionKind::kConstant));
        node->args[1]->constant = Value(static_cast<int64_t>(std::atoll(name.text.c_str())));
      } else {
        return TemplateError(name.line, "expected a name behind '.'");
      }
      operand = std::move(node);
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::Subscript(ExpressionPtr operand) {
  ExpressionPtr node = Make(ExpressionKind::kItem);
  FS_TRY(tokens_.ExpectOperator("["));
  node->args.push_back(std::move(operand));
  ExpressionPtr parts[3];
  size_t part = 0;
  while (!tokens_.IsOperator("]")) {
    if (tokens_.SkipOperator(":")) {
      node->kind = ExpressionKind::kSlice;
      if (++part > 2) return tokens_.Error("a slice has more than three parts");
      continue;
    }
    if (parts[part]) return tokens_.Unexpected("']'");
    FS_ASSIGN(parts[part], Conditional());
  }
  FS_TRY(tokens_.ExpectOperator("]"));
  if (node->kind == ExpressionKind::kItem && !parts[0])
    return tokens_.Error("a subscript is empty");
  const size_t count = node->kind == ExpressionKind::kItem ? 1 : 3;
  for (size_t i = 0; i < count; ++i) node->args.push_back(std::move(parts[i]));
  return node;
}

Result<ExpressionPtr> ExpressionParser::Filters(ExpressionPtr operand) {
  DepthGuard guard(this);
  while (true) {
    FS_TRY(guard.Link());
    if (tokens_.SkipOperator("|")) {
      FS_ASSIGN(std::string name, tokens_.AnyName());
      if (!IsFilter(name)) return tokens_.Error(fmt::format("there is no filter '{}'", name));
      ExpressionPtr node = Make(ExpressionKind::kFilter, std::move(name));
      node->args.push_back(std::move(operand));
      if (tokens_.IsOperator("(")) FS_TRY(Arguments(node.get()));
      operand = std::move(node);
    } else if (tokens_.SkipName("is")) {
      FS_ASSIGN(operand, Test(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      ExpressionPtr call = Make(ExpressionKind::kCall);
      call->args.push_back(std::move(operand));
      FS_TRY(Arguments(call.get()));
      operand = std::move(call);
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::Test(ExpressionPtr operand) {
  const bool negated = tokens_.SkipName("not");
  FS_ASSIGN(std::string name, tokens_.AnyName());
  if (!IsTest(name)) return tokens_.Error(fmt::format("there is no test '{}'", name));
  ExpressionPtr node = Make(ExpressionKind::kTest, std::move(name));
  node->args.push_back(std::move(operand));
  if (tokens_.IsOperator("(")) {
    FS_TRY(Arguments(node.get()));
  } else if (OpensArgument(tokens_.Peek())) {
    FS_ASSIGN(ExpressionPtr argument, Primary());
    FS_ASSIGN(argument, Postfix(std::move(argument)));
    node->args.push_back(std::move(argument));
  }
  if (!negated) return node;
  ExpressionPtr negation = Make(ExpressionKind::kUnary, "not");
  negation->args.push_back(std::move(node));
  return negation;
}

Status ExpressionParser::Arguments(Expression* call) {
  FS_TRY(tokens_.ExpectOperator("("));
  while (!tokens_.IsOperator(")")) {
    if (tokens_.IsOperator("*") || tokens_.IsOperator("**")) {
      return tokens_.Error("unpacked arguments are not supported");
    }
    if (tokens_.Peek().kind == TokenKind::kName && tokens_.IsOperator("=", 1)) {
      std::string name = tokens_.Next().text;
      tokens_.Next();
      FS_ASSIGN(ExpressionPtr value, Conditional());
      call->kwargs.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call->kwargs.empty()) return tokens_.Error("a positional argument follows a named one");
      FS_ASSIGN(ExpressionPtr value, Conditional());
      call->args.push_back(std::move(value));
    }
    if (!tokens_.SkipOperator(",")) break;
  }
  return tokens_.ExpectOperator(")");
}

}  // namespace firesteel::jinja
