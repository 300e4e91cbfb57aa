// What tokenizer_config.json, and chat_template.jinja beside it, say about a tokenizer.
#pragma once

#include <string>

#include "firesteel/status.h"

namespace firesteel {

struct TokenizerConfig {
  std::string path;       // of tokenizer_config.json, for messages
  std::string bos_token;  // "" when there is none
  std::string eos_token;
  std::string chat_template;  // Jinja source, "" when there is none
};

// A missing file leaves its part empty. Of several named templates the one called "default" counts;
// chat_template.jinja wins over them. kDataCorrupt or kUnsupported, naming the field.
Result<TokenizerConfig> ReadTokenizerConfig(const std::string& model_dir);

}  // namespace firesteel
