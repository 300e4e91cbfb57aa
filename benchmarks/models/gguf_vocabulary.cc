#include "models/gguf_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"

namespace firesteel {
namespace {

// As llama.cpp numbers them.
enum TokenType : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

struct Vocabulary {
  explicit Vocabulary(int32_t size) : types(static_cast<size_t>(size), kUnused) {
    for (int32_t id = 0; id < size; ++id) tokens.push_back(fmt::format("[unused {}]", id));
  }
  Status Set(const Json& id, const std::string& token, TokenType type, const std::string& where) {
    const int64_t i = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (i < 0 || i >= static_cast<int64_t>(tokens.size())) {
      return DataCorrupt(fmt::format("{}: token {:?} has id {}, expected 0 to {}", where, token,
                                     DumpJson(id), tokens.size() - 1));
    }
    tokens[static_cast<size_t>(i)] = token;
    types[static_cast<size_t>(i)] = type;
    return {};
  }

  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
};

// A merge is "a b" or, in newer files, ["a", "b"].
Result<std::string> MergeText(const Json& merge, const std::string& where) {
  if (merge.is_string()) return merge.get<std::string>();
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  return DataCorrupt(fmt::format("{}: merge {} is not a pair of strings", where, DumpJson(merge)));
}

Status ReadTokenizer(const Json& file, const std::string& where, Vocabulary* vocabulary) {
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object() ||
      !file["model"].contains("vocab") || !file["model"].contains("merges")) {
    return DataCorrupt(fmt::format("{}: model.vocab or model.merges is missing", where));
  }
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    FS_TRY(vocabulary->Set(id, token, kNormal, where));
  }
  for (const Json& merge : file["model"]["merges"]) {
    FS_ASSIGN(std::string text, MergeText(merge, where));
    vocabulary->merges.push_back(std::move(text));
  }
  if (!file.contains("added_tokens")) return {};
  for (const Json& added : file["added_tokens"]) {
    if (!added.is_object() || !added.contains("id")) continue;
    FS_ASSIGN(const std::optional<std::string> content, GetString(added, "content", where));
    FS_ASSIGN(const std::optional<bool> special, GetBool(added, "special", where));
    FS_TRY(vocabulary->Set(added["id"], content.value_or(""),
                           special.value_or(false) ? kControl : kUserDefined, where));
  }
  return {};
}

}  // namespace

Status AddVocabulary(const std::string& checkpoint, int32_t vocab_size, int32_t eos_id,
                     GgufWriter* writer) {
  Vocabulary vocabulary(vocab_size);
  const std::string path = checkpoint + "/tokenizer.json";
  if (std::filesystem::exists(path)) {
    FS_ASSIGN(const std::string text, ReadFile(path));
    FS_ASSIGN(const Json file, ParseJson(text, path));
    FS_TRY(ReadTokenizer(file, path, &vocabulary));
  } else {
    vocabulary.merges.push_back("a b");  // a reader refuses a vocabulary of no merges
  }
  writer->Add("tokenizer.ggml.model", "gpt2");
  writer->Add("tokenizer.ggml.pre", "qwen2");
  writer->Add("tokenizer.ggml.tokens", vocabulary.tokens);
  writer->Add("tokenizer.ggml.token_type", vocabulary.types);
  writer->Add("tokenizer.ggml.merges", vocabulary.merges);
  writer->Add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(eos_id));
  writer->Add("tokenizer.ggml.add_bos_token", false);
  return {};
}

}  // namespace firesteel
