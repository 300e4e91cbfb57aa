#include "bench/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/rng.h"

namespace firesteel {
namespace {

constexpr size_t kMaxPromptFileBytes = size_t{1} << 30;

constexpr const char* kOwnKeys[] = {
    "id",   "kind",          "prompt",        "messages",   "input_ids",  "group",
    "body", "conversations", "output_tokens", "output_len", "max_tokens", "timestamp_ms"};

// The first entry of a conversation: {"content": …}, ShareGPT's {"value": …}, or the text itself.
Result<std::string> FirstOfConversation(const Json& list, const std::string& where) {
  if (list.is_array() && !list.empty()) {
    const Json& first = list.front();
    if (first.is_string()) return first.get<std::string>();
    for (const char* key : {"content", "value"}) {
      if (first.is_object() && first.contains(key) && first[key].is_string()) {
        return first[key].get<std::string>();
      }
    }
  }
  return InvalidArgument(
      fmt::format("{}: conversations is not a list of objects with content or value", where));
}

Status ReadText(const Json& row, const std::string& where, Prompt* prompt) {
  if (const auto messages = row.find("messages"); messages != row.end()) {
    if (!messages->is_array() || messages->empty()) {
      return InvalidArgument(fmt::format("{}: messages is not a list of messages", where));
    }
    prompt->messages = *messages;
    // A row may hold both, for either API.
    if (!row.contains("prompt")) return {};
  }
  if (row.contains("input_ids")) {
    FS_ASSIGN(const auto ids, GetIntList(row, "input_ids", where));
    if (!ids || ids->empty()) return InvalidArgument(fmt::format("{}: input_ids is empty", where));
    for (const int64_t id : *ids) {
      if (id < 0 || id > INT32_MAX) {
        return InvalidArgument(fmt::format("{}: input_ids holds {}", where, id));
      }
      prompt->token_ids.push_back(static_cast<int32_t>(id));
    }
    prompt->prompt_tokens = static_cast<int32_t>(ids->size());
    return {};
  }
  if (!row.contains("prompt") && row.contains("conversations")) {
    FS_ASSIGN(prompt->text, FirstOfConversation(row["conversations"], where));
  } else {
    FS_ASSIGN(std::optional<std::string> text, GetString(row, "prompt", where));
    if (!text) return InvalidArgument(fmt::format("{}: prompt is missing", where));
    prompt->text = *std::move(text);
  }
  if (prompt->text.empty()) return InvalidArgument(fmt::format("{}: prompt is empty", where));
  return {};
}

Result<Prompt> ParseRow(std::string_view line, const std::string& where, size_t line_number) {
  FS_ASSIGN(const Json row, ParseJson(line, where));
  if (!row.is_object()) {
    return InvalidArgument(fmt::format("{}: is not an object, expected {{\"prompt\": …}}", where));
  }
  Prompt prompt;
  FS_TRY(ReadText(row, where, &prompt));
  FS_ASSIGN(const std::optional<std::string> kind, GetString(row, "kind", where));
  prompt.kind = kind.value_or("");
  for (const char* key : {"max_tokens", "output_len", "output_tokens"}) {
    FS_ASSIGN(const std::optional<int64_t> output_tokens, GetInt(row, key, where));
    if (!output_tokens) continue;
    if (*output_tokens < 1 || *output_tokens > INT32_MAX) {
      return InvalidArgument(
          fmt::format("{}: {} is {}, expected at least 1", where, key, *output_tokens));
    }
    prompt.output_tokens = static_cast<int32_t>(*output_tokens);
  }
  FS_ASSIGN(prompt.timestamp_ms, GetDouble(row, "timestamp_ms", where));
  if (row.contains("body")) {
    if (!row["body"].is_object()) {
      return InvalidArgument(fmt::format("{}: body is not an object", where));
    }
    prompt.body = row["body"];
  }
  if (!prompt.messages.is_null() && prompt.text.empty()) {
    // A row that is a chat body: what it holds besides goes into its request.
    for (const auto& [key, value] : row.items()) {
      if (std::find(std::begin(kOwnKeys), std::end(kOwnKeys), key) == std::end(kOwnKeys)) {
        prompt.body[key] = value;
      }
    }
  }
  prompt.id = std::to_string(line_number);
  if (const auto id = row.find("id"); id != row.end() && !id->is_null()) {
    prompt.id = id->is_string() ? id->get<std::string>() : DumpJson(*id);
  }
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> ParsePrompts(std::string_view jsonl, std::string_view where) {
  std::vector<Prompt> prompts;
  std::set<std::string> ids;
  size_t line_number = 0;
  while (!jsonl.empty()) {
    ++line_number;
    const size_t end = jsonl.find('\n');
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(end == std::string_view::npos ? jsonl.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}: line {}", where, line_number);
    FS_ASSIGN(Prompt prompt, ParseRow(line, place, line_number));
    if (!ids.insert(prompt.id).second) {
      return InvalidArgument(
          fmt::format("{}: id {} was used before, expected unique ids", place, prompt.id));
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return InvalidArgument(fmt::format("{}: holds no prompt", where));
  return prompts;
}

Result<std::vector<Prompt>> ReadPrompts(const std::string& path) {
  FS_ASSIGN(const std::string text, ReadFile(path, kMaxPromptFileBytes));
  return ParsePrompts(text, path);
}

std::vector<Prompt> SelectPrompts(const std::vector<Prompt>& prompts, int32_t count,
                                  std::optional<uint64_t> shuffle_seed) {
  FS_CHECK(!prompts.empty());
  std::vector<size_t> order(prompts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (shuffle_seed) {
    // Fisher-Yates over a counter-based generator: the same order on every machine, which
    // std::shuffle does not promise.
    const std::array<uint32_t, 2> key = {static_cast<uint32_t>(*shuffle_seed),
                                         static_cast<uint32_t>(*shuffle_seed >> 32)};
    for (size_t i = order.size() - 1; i > 0; --i) {
      const uint64_t bits = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, key)[0];
      std::swap(order[i], order[static_cast<size_t>(bits * (i + 1) >> 32)]);
    }
  }
  std::vector<Prompt> selected;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    selected.push_back(prompts[order[i % order.size()]]);
    if (i >= order.size()) selected.back().id += fmt::format("#{}", i / order.size() + 1);
  }
  return selected;
}

}  // namespace firesteel
