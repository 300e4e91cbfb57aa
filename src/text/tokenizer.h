// Text to token ids and back: byte-level BPE as Hugging Face's tokenizer.json describes it.
//
// Immutable after construction, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

struct EncodeOptions {
  // What the model's post-processor puts around the text (Llama 3: the begin-of-text token). Chat
  // templates write these tokens themselves, so rendered prompts pass false.
  bool add_special_tokens = true;
  // False: the text of a special token, "<|im_end|>" say, is encoded as ordinary characters.
  bool parse_special_tokens = true;
  // A text of more tokens is given up on: the result has more than `max_tokens` ids then, and not
  // all that the text would give. The work is bounded by this number and one pass over the text.
  size_t max_tokens = std::numeric_limits<size_t>::max();
};

class Tokenizer {
 public:
  // Reads tokenizer.json, and when they are there tokenizer_config.json and chat_template.jinja,
  // from `model_dir`. kNotFound without tokenizer.json; kUnsupported for a kind of tokenizer that
  // is not byte-level BPE; kDataCorrupt when a file is not valid or contradicts itself. The message
  // names file and field.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::string& model_dir);
  ~Tokenizer();

  // Invalid UTF-8 in `text` is read as U+FFFD. About linear in the length of the text, whatever it
  // holds.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options) const;
  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const {
    return Encode(text, EncodeOptions{.add_special_tokens = add_special_tokens});
  }

  // The bytes of all tokens in a row, with U+FFFD for what is not UTF-8. Ids that stand for nothing
  // give nothing.
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // The bytes that a token stands for, not always whole characters; of added tokens the text; ""
  // for an unknown id.
  const std::string& TokenBytes(int32_t id) const;
  bool IsSpecial(int32_t id) const;

  // The largest id plus one. The model's embedding may have more rows.
  int32_t vocab_size() const;

  // The id of an added token by its text, or of an ordinary token as tokenizer.json spells it
  // ("Ġthe").
  std::optional<int32_t> TokenId(std::string_view token) const;

  // From tokenizer_config.json; nullopt and "" when it names none.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  const std::string& bos_token() const;
  const std::string& eos_token() const;

  // The Jinja source of the model's chat template, "" when there is none.
  const std::string& chat_template() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace firesteel
