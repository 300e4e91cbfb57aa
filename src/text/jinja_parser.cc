#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace firesteel::jinja {
namespace {

constexpr int kMaxBlockNesting = 60;

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token.text);
  }
}

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(&tokens_) {}

  Result<Template> Run() {
    Template out;
    FS_TRY(ParseBody({}, &out.body));
    if (tokens_.Peek().kind != TokenKind::kEnd)
      return tokens_.Unexpected("the end of the template");
    out.uses_loop = expressions_.saw_loop();
    return out;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Up to a block that begins with one of `ends`, whose name is the next token then; at the top
  // level up to the end.
  Status ParseBody(Names ends, Body* body) {
    if (++nesting_ > kMaxBlockNesting) {
      return tokens_.Error(fmt::format("blocks nest deeper than {}", kMaxBlockNesting));
    }
    while (true) {
      const Token token = tokens_.Peek();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) break;
        return tokens_.Unexpected(fmt::format("'{}'", *(ends.end() - 1)));
      }
      tokens_.Next();
      auto node = std::make_unique<Statement>();
      node->line = token.line;
      if (token.kind == TokenKind::kData) {
        node->kind = StatementKind::kData;
        node->text = token.text;
      } else if (token.kind == TokenKind::kVariableBegin) {
        node->kind = StatementKind::kPrint;
        FS_ASSIGN(node->expression, expressions_.ParseTuple(true));
        FS_TRY(tokens_.Expect(TokenKind::kVariableEnd, "'}}'"));
      } else {
        const std::string name = tokens_.Peek().text;
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) break;
        FS_TRY(ParseBlock(node.get()));
      }
      body->push_back(std::move(node));
    }
    --nesting_;
    return {};
  }

  Status EndBlock() { return tokens_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  Status ParseBlock(Statement* node) {
    FS_ASSIGN(const std::string name, tokens_.AnyName());
    if (name == "if") return ParseIf(node);
    if (name == "for") return ParseFor(node);
    if (name == "set") return ParseSet(node);
    if (name == "macro") return ParseMacro(node);
    if (name == "generation") {  // marks what the assistant wrote, for training
      node->kind = StatementKind::kBody;
      FS_TRY(EndBlock());
      return ParseInner({"endgeneration"}, &node->body);
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return tokens_.Error(fmt::format("'{}' outside of a loop", name));
      node->kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
      return EndBlock();
    }
    return tokens_.Error(fmt::format("the block '{}' is not supported here", name));
  }

  // A body and its closing block.
  Status ParseInner(Names ends, Body* body) {
    FS_TRY(ParseBody(ends, body));
    tokens_.Next();
    return EndBlock();
  }

  Status ParseIf(Statement* node) {
    node->kind = StatementKind::kIf;
    while (true) {
      Branch branch;
      FS_ASSIGN(branch.condition, expressions_.ParseTuple(true));
      FS_TRY(EndBlock());
      FS_TRY(ParseBody({"elif", "else", "endif"}, &branch.body));
      node->branches.push_back(std::move(branch));
      const std::string name = tokens_.Next().text;
      if (name == "elif") continue;
      FS_TRY(EndBlock());
      return name == "else" ? ParseInner({"endif"}, &node->otherwise) : Status();
    }
  }

  Status ParseTargets(std::vector<std::string>* targets) {
    const bool parenthesis = tokens_.SkipOperator("(");
    do {
      if (!targets->empty() && tokens_.IsName("in")) break;
      FS_ASSIGN(std::string name, tokens_.AnyName());
      targets->push_back(std::move(name));
    } while (tokens_.SkipOperator(","));
    return parenthesis ? tokens_.ExpectOperator(")") : Status();
  }

  Status ParseFor(Statement* node) {
    node->kind = StatementKind::kFor;
    FS_TRY(ParseTargets(&node->targets));
    FS_TRY(tokens_.ExpectName("in"));
    FS_ASSIGN(node->expression, expressions_.ParseTuple(false));
    if (tokens_.SkipName("if")) {
      FS_ASSIGN(node->condition, expressions_.Parse());
    }
    if (tokens_.IsName("recursive")) return tokens_.Error("recursive loops are not supported");
    FS_TRY(EndBlock());
    ++loops_;
    FS_TRY(ParseBody({"else", "endfor"}, &node->body));
    --loops_;
    const std::string name = tokens_.Next().text;
    FS_TRY(EndBlock());
    return name == "else" ? ParseInner({"endfor"}, &node->otherwise) : Status();
  }

  Status ParseSet(Statement* node) {
    node->kind = StatementKind::kSet;
    if (tokens_.IsOperator(".", 1)) {
      FS_ASSIGN(node->text, tokens_.AnyName());
      tokens_.Next();
      FS_ASSIGN(node->attribute, tokens_.AnyName());
    } else {
      FS_TRY(ParseTargets(&node->targets));
    }
    if (tokens_.SkipOperator("=")) {
      FS_ASSIGN(node->expression, expressions_.ParseTuple(true));
      return EndBlock();
    }
    if (tokens_.IsOperator("|")) return tokens_.Error("filters on a block 'set' are not supported");
    node->kind = StatementKind::kSetBlock;
    if (node->targets.size() > 1) return tokens_.Unexpected("'='");
    FS_TRY(EndBlock());
    return ParseInner({"endset"}, &node->body);
  }

  Status ParseMacro(Statement* node) {
    // A macro sees the template's own variables only; inside a loop it would outlive those of the
    // loop.
    if (loops_ > 0 || in_macro_)
      return tokens_.Error("a macro inside a loop or macro is not supported");
    node->kind = StatementKind::kMacro;
    node->macro = std::make_unique<MacroStatement>();
    MacroStatement& macro = *node->macro;
    FS_ASSIGN(macro.name, tokens_.AnyName());
    FS_TRY(tokens_.ExpectOperator("("));
    while (!tokens_.IsOperator(")")) {
      FS_ASSIGN(std::string parameter, tokens_.AnyName());
      macro.parameters.push_back(std::move(parameter));
      if (tokens_.SkipOperator("=")) {
        FS_ASSIGN(ExpressionPtr value, expressions_.Parse());
        macro.defaults.push_back(std::move(value));
      } else if (!macro.defaults.empty()) {
        return tokens_.Error("a parameter without default follows one with a default");
      }
      if (!tokens_.SkipOperator(",")) break;
    }
    FS_TRY(tokens_.ExpectOperator(")"));
    FS_TRY(EndBlock());
    in_macro_ = true;
    FS_TRY(ParseBody({"endmacro"}, &macro.body));
    in_macro_ = false;
    tokens_.Next();
    if (tokens_.IsName(macro.name)) tokens_.Next();
    return EndBlock();
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;
  bool in_macro_ = false;
};

}  // namespace

Status TokenStream::Unexpected(std::string_view expected) const {
  return Error(fmt::format("unexpected {}, expected {}", Describe(Peek()), expected));
}

Status TokenStream::ExpectOperator(std::string_view text) {
  return SkipOperator(text) ? Status() : Unexpected(fmt::format("'{}'", text));
}

Status TokenStream::ExpectName(std::string_view text) {
  return SkipName(text) ? Status() : Unexpected(fmt::format("'{}'", text));
}

Result<std::string> TokenStream::AnyName() {
  if (Peek().kind != TokenKind::kName) return Unexpected("a name");
  return Next().text;
}

Status TokenStream::Expect(TokenKind kind, std::string_view what) {
  if (Peek().kind != kind) return Unexpected(what);
  Next();
  return {};
}

Result<Template> ParseTemplate(const std::string& source) {
  FS_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return StatementParser(std::move(tokens)).Run();
}

}  // namespace firesteel::jinja
