#include <fmt/format.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "bench/dataset_internal.h"
#include "bench/numpy_random.h"

namespace firesteel {
namespace {

constexpr size_t kMaxFileBytes = size_t{2} << 30;

// An entry's text: {"from": …, "value": "…"}.
const std::string* ValueOf(const Json& entry) {
  if (!entry.is_object()) return nullptr;
  const auto value = entry.find("value");
  if (value == entry.end() || !value->is_string()) return nullptr;
  return &value->get_ref<const std::string&>();
}

struct Lengths {
  int32_t prompt = 0;
  int32_t output = 0;
};

// Whether a tool keeps a pair.
bool Keeps(const DatasetOptions& options, const Lengths& n) {
  if (options.dialect == Dialect::kSglang) {
    if (n.prompt < 2 || n.output < 2) return false;
    return options.sharegpt_context_len == 0 || n.prompt + n.output <= options.sharegpt_context_len;
  }
  if (n.prompt < 4 || n.prompt > 1024 || n.prompt + n.output > 2048) return false;
  if (options.sharegpt_context_len > 0 && n.prompt + n.output > options.sharegpt_context_len) {
    return false;
  }
  return options.sharegpt_output_len.has_value() || n.output >= 4;
}

}  // namespace

Result<std::vector<Conversation>> ReadConversations(const std::string& path, bool alternative_key) {
  if (path.empty()) {
    return InvalidArgument("--dataset-path is missing, expected a file of conversations");
  }
  FS_ASSIGN(const std::string text, ReadFile(path, kMaxFileBytes));
  FS_ASSIGN(const Json json, ParseJson(text, path));
  if (!json.is_array()) {
    return InvalidArgument(
        fmt::format("{}: is not a list of conversations, as ShareGPT's files are", path));
  }
  std::vector<Conversation> pairs;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_object()) {
      return InvalidArgument(fmt::format("{}: entry {} is not an object", path, i));
    }
    auto list = json[i].find("conversations");
    if (list == json[i].end() && alternative_key) list = json[i].find("conversation");
    if (list == json[i].end() || !list->is_array() || list->size() < 2) continue;
    const std::string* prompt = ValueOf((*list)[0]);
    const std::string* reply = ValueOf((*list)[1]);
    if (prompt == nullptr || reply == nullptr) {
      return InvalidArgument(
          fmt::format("{}: entry {}: its first two entries have no value that is text", path, i));
    }
    pairs.push_back({*prompt, *reply});
  }
  if (pairs.empty()) {
    return InvalidArgument(fmt::format("{}: holds no conversation of two entries", path));
  }
  return pairs;
}

Result<Dataset> MakeShareGpt(const DatasetOptions& options, const Tokenizer& tokenizer) {
  const bool sglang = options.dialect == Dialect::kSglang;
  FS_ASSIGN(std::vector<Conversation> pairs, ReadConversations(options.path, sglang));
  Dataset dataset;
  dataset.seed = options.seed.value_or(sglang ? 42 : 0);
  MersenneTwister::FromNumber(dataset.seed).Shuffle(&pairs);
  const auto wanted = options.num_prompts > 0 ? static_cast<size_t>(options.num_prompts)
                                              : size_t{kGeneratedPrompts};
  // As many again for warming up, where the file has them.
  for (size_t i = 0; i < pairs.size() && dataset.warmups.size() < 16; ++i) {
    Prompt prompt;
    SetPrompt(options, tokenizer, pairs[i].prompt, &prompt);
    const auto reply =
        static_cast<int32_t>(tokenizer.Encode(pairs[i].reply, /*add_special_tokens=*/true).size());
    const Lengths n = {.prompt = *prompt.prompt_tokens,
                       .output = options.sharegpt_output_len.value_or(reply)};
    if (!Keeps(options, n)) continue;
    prompt.output_tokens = n.output;
    prompt.id = fmt::format("{}", dataset.prompts.size() + dataset.warmups.size());
    (dataset.prompts.size() < wanted ? dataset.prompts : dataset.warmups)
        .push_back(std::move(prompt));
  }
  if (dataset.prompts.empty()) {
    return InvalidArgument(
        fmt::format("{}: no conversation passes the length filter", options.path));
  }
  const size_t found = dataset.prompts.size();
  if (found < wanted && options.num_prompts > 0) {
    if (!options.oversample) {
      return InvalidArgument(
          fmt::format("{}: {} conversations pass the length filter, expected {}; --oversample "
                      "repeats them",
                      options.path, found, wanted));
    }
    dataset.prompts = SelectPrompts(dataset.prompts, static_cast<int32_t>(wanted), std::nullopt);
  }
  dataset.rule = fmt::format(
      "conversations shuffled by seed {}, {}, output {}{}", dataset.seed,
      sglang ? "at least 2 tokens each (SGLang's filter)"
             : "prompt 4 to 1024 and in all up to 2048 tokens (vLLM's filter)",
      options.sharegpt_output_len ? fmt::format("{} tokens", *options.sharegpt_output_len)
                                  : "as long as the reply",
      found < dataset.prompts.size() ? fmt::format(", {} rows repeated", found) : "");
  return dataset;
}

}  // namespace firesteel
