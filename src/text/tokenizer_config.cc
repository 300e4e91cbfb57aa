#include "text/tokenizer_config.h"

#include <fmt/format.h>

#include <optional>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/utf8.h"

namespace firesteel {
namespace {

Status Corrupt(const std::string& path, std::string_view field, std::string_view complaint) {
  return DataCorrupt(fmt::format("{}: {} {}", path, field, complaint));
}

// nullopt when there is no such file.
Result<std::optional<std::string>> ReadOptionalFile(const std::string& path) {
  Result<std::string> text = ReadFile(path);
  if (text.ok()) return std::optional<std::string>(*std::move(text));
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

// A token is its text, or an object that holds it as "content".
Result<std::string> ReadToken(const Json& config, const char* key, const std::string& path) {
  const auto member = config.find(key);
  if (member == config.end() || member->is_null()) return std::string();
  if (member->is_string()) return member->get<std::string>();
  if (member->is_object()) {
    const auto content = member->find("content");
    if (content != member->end() && content->is_string()) return content->get<std::string>();
    return Corrupt(path, key, "is an object without a string \"content\"");
  }
  return Corrupt(
      path, key,
      fmt::format("is a value of type {}, expected a string or an object", member->type_name()));
}

Result<std::string> ReadTemplate(const Json& config, const std::string& path) {
  const auto member = config.find("chat_template");
  if (member == config.end() || member->is_null()) return std::string();
  if (member->is_string()) return member->get<std::string>();
  if (!member->is_array()) {
    return Corrupt(
        path, "chat_template",
        fmt::format("is a value of type {}, expected a string or a list of named templates",
                    member->type_name()));
  }
  std::string names;
  for (size_t i = 0; i < member->size(); ++i) {
    const Json& entry = (*member)[i];
    const std::string field = fmt::format("chat_template[{}]", i);
    if (!entry.is_object()) return Corrupt(path, field, "is not an object with name and template");
    for (const char* key : {"name", "template"}) {
      const auto text = entry.find(key);
      if (text == entry.end() || !text->is_string()) {
        return Corrupt(path, field, fmt::format("has no string \"{}\"", key));
      }
    }
    if (entry["name"] == "default") return entry["template"].get<std::string>();
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", entry["name"].get<std::string>());
  }
  if (names.empty()) return std::string();
  return Unsupported(
      fmt::format("{}: chat_template names {}, expected one called \"default\"", path, names));
}

}  // namespace

Result<TokenizerConfig> ReadTokenizerConfig(const std::string& model_dir) {
  TokenizerConfig out;
  out.path = model_dir + "/tokenizer_config.json";
  FS_ASSIGN(const std::optional<std::string> text, ReadOptionalFile(out.path));
  if (text) {
    FS_ASSIGN(const Json config, ParseJson(*text, out.path));
    if (!config.is_object()) return DataCorrupt(out.path + ": not a JSON object");
    FS_ASSIGN(out.bos_token, ReadToken(config, "bos_token", out.path));
    FS_ASSIGN(out.eos_token, ReadToken(config, "eos_token", out.path));
    FS_ASSIGN(out.chat_template, ReadTemplate(config, out.path));
  }
  const std::string jinja_path = model_dir + "/chat_template.jinja";
  FS_ASSIGN(std::optional<std::string> jinja, ReadOptionalFile(jinja_path));
  if (jinja) {
    if (!IsValidUtf8(*jinja)) return DataCorrupt(jinja_path + ": not valid UTF-8");
    out.chat_template = *std::move(jinja);
  }
  return out;
}

}  // namespace firesteel
