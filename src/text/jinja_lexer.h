// Template source to tokens, with trim_blocks and lstrip_blocks on, as Hugging Face renders chat
// templates.
#pragma once

#include <string>
#include <vector>

#include "firesteel/status.h"

namespace firesteel::jinja {

enum class TokenKind {
  kData,           // text to print as it is; never empty
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kInteger,
  kFloat,
  kString,    // escapes already resolved
  kOperator,  // one of + - / // * % ** ~ [ ] ( ) { } == != > >= < <= = . : | ,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// The last token is kEnd. kInvalidArgument "template line 3: …".
Result<std::vector<Token>> Tokenize(const std::string& source);

Status TemplateError(int line, std::string_view message);

}  // namespace firesteel::jinja
