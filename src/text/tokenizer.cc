#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_file.h"

namespace firesteel {

struct Tokenizer::Impl {
  Bpe bpe;
  Bpe::Vocab vocab;
  bool ignore_merges;
  bool nfc;
  AddedTokens raw_added;         // looked for in the text as it came
  AddedTokens normalized_added;  // looked for behind the normalizer
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unordered_map<std::string, int32_t> added_ids;
  std::vector<std::string> bytes;  // [vocab_size]
  size_t longest_token;            // in bytes
  std::vector<bool> special;       // [vocab_size]
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
  TokenizerConfig config;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  const std::string no_bytes;

  std::optional<int32_t> Find(std::string_view token) const;
  void EncodeWord(std::string_view word, Bpe::Scratch* scratch, std::vector<int32_t>* ids) const;
};

std::optional<int32_t> Tokenizer::Impl::Find(std::string_view token) const {
  const std::string key(token);
  if (const auto it = added_ids.find(key); it != added_ids.end()) return it->second;
  if (const auto it = vocab.find(key); it != vocab.end()) return it->second;
  return std::nullopt;
}

void Tokenizer::Impl::EncodeWord(std::string_view word, Bpe::Scratch* scratch,
                                 std::vector<int32_t>* ids) const {
  if (ignore_merges) {
    std::string spelled;
    for (const char c : word) spelled += SpellByte(static_cast<uint8_t>(c));
    if (const auto whole = vocab.find(spelled); whole != vocab.end()) {
      ids->push_back(whole->second);
      return;
    }
  }
  bpe.Encode(word, scratch, ids);
}

namespace {

int32_t LargestId(const TokenizerFile& file) {
  int32_t largest = 0;
  for (const auto& [token, id] : file.vocab) largest = std::max(largest, id);
  for (const AddedToken& token : file.added_tokens) largest = std::max(largest, token.id);
  return largest;
}

Result<std::optional<int32_t>> IdOf(const std::optional<int32_t>& id, const std::string& token,
                                    const char* field, const TokenizerConfig& config) {
  if (token.empty()) return std::optional<int32_t>();
  if (id) return id;
  return DataCorrupt(fmt::format("{}: {} is \"{}\", which tokenizer.json does not know",
                                 config.path, field, token));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& model_dir) {
  const std::string path = model_dir + "/tokenizer.json";
  FS_ASSIGN(TokenizerFile file, ReadTokenizerFile(path));
  FS_ASSIGN(TokenizerConfig config, ReadTokenizerConfig(model_dir));
  FS_ASSIGN(std::unique_ptr<PreTokenizer> pre_tokenizer, PreTokenizer::Make(file.pre_tokenizer));

  const auto size = static_cast<size_t>(LargestId(file)) + 1;
  std::vector<std::string> bytes(size);
  std::vector<bool> special(size, false);
  Bpe::Vocab vocab;
  vocab.reserve(file.vocab.size());
  for (auto& [token, id] : file.vocab) {
    // A token with a character that spells no byte stands for its own text, as Hugging Face's
    // decoder has it.
    bytes[id] = BytesFromSpelling(token).value_or(token);
    vocab.emplace(std::move(token), id);
  }
  FS_ASSIGN(Bpe bpe, Bpe::Make(vocab, file.merges, path + ": "));

  std::unordered_map<std::string, int32_t> added_ids;
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& token : file.added_tokens) {
    added_ids.emplace(token.content, token.id);
    bytes[token.id] = token.content;
    special[token.id] = token.special;
    if (!token.normalized) {
      raw.push_back(token);
      continue;
    }
    normalized.push_back(token);
    if (file.nfc) normalized.back().content = NormalizeNfc(token.content);
  }
  size_t longest_token = 1;
  for (const std::string& token : bytes) longest_token = std::max(longest_token, token.size());
  std::unique_ptr<Impl> impl(new Impl{
      .bpe = std::move(bpe),
      .vocab = std::move(vocab),
      .ignore_merges = file.ignore_merges,
      .nfc = file.nfc,
      .raw_added = AddedTokens(std::move(raw)),
      .normalized_added = AddedTokens(std::move(normalized)),
      .pre_tokenizer = std::move(pre_tokenizer),
      .added_ids = std::move(added_ids),
      .bytes = std::move(bytes),
      .longest_token = longest_token,
      .special = std::move(special),
      .prefix_ids = std::move(file.prefix_ids),
      .suffix_ids = std::move(file.suffix_ids),
      .config = std::move(config),
      .bos_id = std::nullopt,
      .eos_id = std::nullopt,
      .no_bytes = "",
  });
  const TokenizerConfig& named = impl->config;
  FS_ASSIGN(impl->bos_id, IdOf(impl->Find(named.bos_token), named.bos_token, "bos_token", named));
  FS_ASSIGN(impl->eos_id, IdOf(impl->Find(named.eos_token), named.eos_token, "eos_token", named));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = impl_->prefix_ids;
  Bpe::Scratch scratch;
  const auto more = [&] { return ids.size() <= options.max_tokens; };
  const auto encode_word = [&](std::string_view word) {
    if (!more()) return false;
    // The beginning of a word that is far too long is too long as well.
    const size_t room = options.max_tokens - ids.size();
    if (word.size() / impl_->longest_token > room) {
      word = word.substr(0, (room + 1) * impl_->longest_token);
    }
    impl_->EncodeWord(word, &scratch, &ids);
    return more();
  };
  const auto encode_normalized = [&](std::string_view piece, std::optional<int32_t> id) {
    if (id) {
      ids.push_back(*id);
    } else {
      impl_->pre_tokenizer->Split(piece, encode_word);
    }
    return more();
  };
  const auto encode_raw = [&](std::string_view piece, std::optional<int32_t> id) {
    if (id) {
      ids.push_back(*id);
      return more();
    }
    const std::string normalized = impl_->nfc ? NormalizeNfc(piece) : std::string(piece);
    return impl_->normalized_added.Split(normalized, options.parse_special_tokens,
                                         encode_normalized);
  };
  impl_->raw_added.Split(text, options.parse_special_tokens, encode_raw);
  if (options.add_special_tokens) {
    ids.insert(ids.end(), impl_->suffix_ids.begin(), impl_->suffix_ids.end());
  }
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    bytes += TokenBytes(id);
  }
  return ReplaceInvalidUtf8(bytes);
}

const std::string& Tokenizer::TokenBytes(int32_t id) const {
  return id >= 0 && id < vocab_size() ? impl_->bytes[id] : impl_->no_bytes;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->special[id];
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->bytes.size()); }

std::optional<int32_t> Tokenizer::TokenId(std::string_view token) const {
  return impl_->Find(token);
}

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos_id; }
const std::string& Tokenizer::bos_token() const { return impl_->config.bos_token; }
const std::string& Tokenizer::eos_token() const { return impl_->config.eos_token; }
const std::string& Tokenizer::chat_template() const { return impl_->config.chat_template; }

}  // namespace firesteel
