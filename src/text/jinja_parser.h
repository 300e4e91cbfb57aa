// Tokens to the tree. Internally two files: expressions and statements.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "firesteel/status.h"
#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace firesteel::jinja {

// kInvalidArgument "chat template line 3: …" for what does not parse, is outside the subset, or
// nests deeper than a fixed limit.
Result<Template> ParseTemplate(const std::string& source);

// Where the parsers stand. Never moves past kEnd.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token Next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  int line() const { return Peek().line; }

  bool IsOperator(std::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kOperator && Peek(ahead).text == text;
  }
  bool IsName(std::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == text;
  }
  bool SkipOperator(std::string_view text) {
    const bool found = IsOperator(text);
    if (found) Next();
    return found;
  }
  bool SkipName(std::string_view text) {
    const bool found = IsName(text);
    if (found) Next();
    return found;
  }
  Status ExpectOperator(std::string_view text);
  Status ExpectName(std::string_view text);
  Result<std::string> AnyName();
  Status Expect(TokenKind kind, std::string_view what);
  // "unexpected x, expected y"
  Status Unexpected(std::string_view expected) const;
  Status Error(std::string_view message) const { return TemplateError(line(), message); }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream* tokens) : tokens_(*tokens) {}

  Result<ExpressionPtr> Parse() { return Conditional(); }
  // Several expressions with commas between make a tuple. Without `with_conditional` an "if" ends
  // the expression.
  Result<ExpressionPtr> ParseTuple(bool with_conditional);
  bool saw_loop() const { return saw_loop_; }

 private:
  // Also bounds the length of chains, since evaluation descends a chain of filters or sums by
  // recursion.
  static constexpr int kMaxNesting = 1000;

  class DepthGuard;
  Result<ExpressionPtr> Conditional();
  Result<ExpressionPtr> Or();
  Result<ExpressionPtr> And();
  Result<ExpressionPtr> Not();
  Result<ExpressionPtr> Comparison();
  Result<ExpressionPtr> Sum();
  Result<ExpressionPtr> Concatenation();
  Result<ExpressionPtr> Product();
  Result<ExpressionPtr> Power();
  Result<ExpressionPtr> Unary(bool with_filter);
  Result<ExpressionPtr> Primary();
  Result<ExpressionPtr> Parenthesis();
  Result<ExpressionPtr> ListLiteral();
  Result<ExpressionPtr> DictLiteral();
  Result<ExpressionPtr> Postfix(ExpressionPtr operand);
  Result<ExpressionPtr> Filters(ExpressionPtr operand);
  Result<ExpressionPtr> Test(ExpressionPtr operand);
  Result<ExpressionPtr> Subscript(ExpressionPtr operand);
  Status Arguments(Expression* call);
  ExpressionPtr Make(ExpressionKind kind, std::string text = "") const;
  // Left-associative operators of one rank.
  Result<ExpressionPtr> LeftChain(std::initializer_list<std::string_view> operators,
                                  Result<ExpressionPtr> (ExpressionParser::*operand)());

  TokenStream& tokens_;
  int depth_ = 0;
  bool saw_loop_ = false;
};

class ExpressionParser::DepthGuard {
 public:
  explicit DepthGuard(ExpressionParser* parser) : parser_(*parser) { ++parser_.depth_; }
  ~DepthGuard() { parser_.depth_ -= 1 + links_; }
  DepthGuard(const DepthGuard&) = delete;
  // For one more link of a chain.
  Status Link() {
    ++links_;
    ++parser_.depth_;
    return Check();
  }
  Status Check() const {
    if (parser_.depth_ <= kMaxNesting) return {};
    return parser_.tokens_.Error("expressions nest too deep");
  }

 private:
  ExpressionParser& parser_;
  int links_ = 0;
};

}  // namespace firesteel::jinja
