#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/mapped_file.h"
#include "text/dom_node.h"
#include "text/tokenizer_pipeline.h"

namespace firesteel {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;

Status ReadVocab(const DomNode& model, TokenizerFile* file) {
  FS_ASSIGN(const DomNode vocab, model.Get("vocab"));
  FS_ASSIGN(const simdjson::dom::object object, vocab.Object());
  std::unordered_map<int32_t, std::string_view> token_of;
  std::unordered_map<std::string_view, int32_t> id_of;
  for (const simdjson::dom::key_value_pair entry : object) {
    // A node for each entry would cost more than parsing the file; it is made for the complaint
    // only.
    int64_t id = 0;
    if (entry.value.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxTokenId) {
      const DomNode node(entry.value, fmt::format("{}[\"{}\"]", vocab.where(), entry.key));
      FS_TRY(node.Int(0, kMaxTokenId).status());
    }
    const auto token_id = static_cast<int32_t>(id);
    if (!id_of.emplace(entry.key, token_id).second) {
      return vocab.Corrupt(fmt::format("names token \"{}\" twice", entry.key));
    }
    const auto [other, is_new] = token_of.emplace(token_id, entry.key);
    if (!is_new) {
      return vocab.Corrupt(
          fmt::format("gives id {} to both \"{}\" and \"{}\"", id, other->second, entry.key));
    }
    file->vocab.emplace_back(std::string(entry.key), token_id);
  }
  if (file->vocab.empty()) return vocab.Corrupt("is empty");
  return {};
}

Result<std::pair<std::string, std::string>> ReadMerge(const DomNode& merge) {
  if (merge.element().is_string()) {
    FS_ASSIGN(const std::string text, merge.String());
    const size_t space = text.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string::npos) {
      return merge.Corrupt(
          fmt::format("is \"{}\", expected two tokens with a space between", text));
    }
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  FS_ASSIGN(const std::vector<DomNode> pair, merge.Elements());
  if (pair.size() != 2) {
    return merge.Corrupt(fmt::format("has {} elements, expected two tokens", pair.size()));
  }
  FS_ASSIGN(std::string left, pair[0].String());
  FS_ASSIGN(std::string right, pair[1].String());
  return std::pair(std::move(left), std::move(right));
}

Status ReadModel(const DomNode& model, TokenizerFile* file) {
  FS_ASSIGN(const std::string type, model.GetString("type", "BPE"));
  if (type != "BPE") return model.Unknown(fmt::format("has type \"{}\", expected \"BPE\"", type));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    FS_ASSIGN(const std::string text, model.GetString(affix, ""));
    if (!text.empty()) {
      return model.Unknown(fmt::format("has {} \"{}\", expected none", affix, text));
    }
  }
  FS_ASSIGN(const std::optional<DomNode> dropout, model.Find("dropout"));
  if (dropout) {
    double rate = 0;
    if (dropout->element().get(rate) != simdjson::SUCCESS || rate != 0) {
      return dropout->Unknown("is set, expected none: it would make tokens random");
    }
  }
  FS_ASSIGN(file->ignore_merges, model.GetBool("ignore_merges", false));
  FS_TRY(ReadVocab(model, file));
  FS_ASSIGN(const DomNode merges, model.Get("merges"));
  FS_ASSIGN(const std::vector<DomNode> list, merges.Elements());
  for (const DomNode& merge : list) {
    std::string_view line;
    if (merge.element().get(line) == simdjson::SUCCESS && line.starts_with("#version")) continue;
    FS_ASSIGN(auto pair, ReadMerge(merge));
    file->merges.push_back(std::move(pair));
  }
  return {};
}

Result<AddedToken> ReadAddedToken(const DomNode& node) {
  AddedToken token;
  FS_ASSIGN(const DomNode id, node.Get("id"));
  FS_ASSIGN(const int64_t value, id.Int(0, kMaxTokenId));
  token.id = static_cast<int32_t>(value);
  FS_ASSIGN(const DomNode content, node.Get("content"));
  FS_ASSIGN(token.content, content.String());
  if (token.content.empty()) return content.Corrupt("is empty");
  FS_ASSIGN(token.special, node.GetBool("special", false));
  FS_ASSIGN(token.single_word, node.GetBool("single_word", false));
  FS_ASSIGN(token.lstrip, node.GetBool("lstrip", false));
  FS_ASSIGN(token.rstrip, node.GetBool("rstrip", false));
  FS_ASSIGN(token.normalized, node.GetBool("normalized", !token.special));
  return token;
}

Status ReadAddedTokens(const DomNode& top, TokenizerFile* file) {
  FS_ASSIGN(const std::optional<DomNode> added, top.Find("added_tokens"));
  if (!added) return {};
  std::unordered_map<std::string_view, int32_t> id_of;
  std::unordered_map<int32_t, std::string> token_of;
  for (const auto& [token, id] : file->vocab) {
    id_of.emplace(token, id);
    token_of.emplace(id, token);
  }
  std::unordered_map<std::string, int32_t> seen;
  FS_ASSIGN(const std::vector<DomNode> nodes, added->Elements());
  for (const DomNode& node : nodes) {
    FS_ASSIGN(AddedToken token, ReadAddedToken(node));
    if (!seen.emplace(token.content, token.id).second) {
      return node.Corrupt(fmt::format("repeats content \"{}\"", token.content));
    }
    const auto in_vocab = id_of.find(token.content);
    if (in_vocab != id_of.end() && in_vocab->second != token.id) {
      return node.Corrupt(fmt::format("gives \"{}\" id {}, model.vocab gives it {}", token.content,
                                      token.id, in_vocab->second));
    }
    const auto [other, is_new] = token_of.emplace(token.id, token.content);
    if (!is_new && other->second != token.content) {
      return node.Corrupt(fmt::format("gives \"{}\" id {}, which is \"{}\" already", token.content,
                                      token.id, other->second));
    }
    file->added_tokens.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<TokenizerFile> ReadTokenizerFile(const std::string& path) {
  FS_ASSIGN(const std::string text, ReadFile(path, kMaxFileBytes));
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(text).get(root); error != simdjson::SUCCESS) {
    return DataCorrupt(fmt::format("{}: not valid JSON ({} bytes): {}", path, text.size(),
                                   simdjson::error_message(error)));
  }
  if (!root.is_object()) return DataCorrupt(fmt::format("{}: not a JSON object", path));
  const DomNode top(root, path + ": ");
  TokenizerFile file;
  FS_ASSIGN(const DomNode model, top.Get("model"));
  FS_TRY(ReadModel(model, &file));
  FS_TRY(ReadAddedTokens(top, &file));
  FS_TRY(ReadPipeline(top, &file));
  return file;
}

}  // namespace firesteel
