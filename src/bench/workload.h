// Prompts, and files of them: one JSON object a line, {"prompt": "…"} with optional "id", "kind"
// and "output_tokens" (or "output_len"), "timestamp_ms" and "body"; "messages" or "input_ids" stand
// in for "prompt"; with both, chats get the messages and completions the prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel {

struct Prompt {
  std::string id = {};    // the row's "id", else its line number; unique within a file
  std::string kind = {};  // what sort of text, "" when the row does not say
  std::string text = {};
  int32_t output_tokens = 0;                  // wanted by the row; 0: the run's setting
  std::vector<int32_t> token_ids = {};        // sent instead of the text when not empty
  Json messages = nullptr;                    // of a chat, instead of the text
  std::optional<int32_t> prompt_tokens = {};  // by the data set's tokenizer
  std::optional<double> timestamp_ms = {};    // of a trace
  Json body = Json::object();                 // further keys of this request
};

// Rows in the order of the file. `where` names it in messages. kInvalidArgument names the line.
// Also taken: {"conversations": [{"content" or "value": "…"}, …]}, whose first entry is the prompt,
// and rows of an OpenAI body, whose "max_tokens" is the output length.
Result<std::vector<Prompt>> ParsePrompts(std::string_view jsonl, std::string_view where);
Result<std::vector<Prompt>> ReadPrompts(const std::string& path);

// `count` prompts: in the file's order, or shuffled by `shuffle_seed`; from the start again, with
// "#2", "#3" … behind their ids, when there are fewer. REQUIRES: prompts not empty.
std::vector<Prompt> SelectPrompts(const std::vector<Prompt>& prompts, int32_t count,
                                  std::optional<uint64_t> shuffle_seed);

}  // namespace firesteel
