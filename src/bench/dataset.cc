#include "bench/dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "bench/dataset_internal.h"

namespace firesteel {
namespace {

constexpr int kLengthTries = 10;

// FNV-1a, 64 bits.
class Hash {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      value_ ^= static_cast<unsigned char>(c);
      value_ *= 1099511628211ULL;
    }
    Add(0xff);  // so that "ab", "c" and "a", "bc" differ
  }
  void Add(uint8_t byte) {
    value_ ^= byte;
    value_ *= 1099511628211ULL;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037ULL;
};

Result<Dataset> MakeFromRows(const DatasetOptions& options) {
  if (options.path.empty()) {
    return InvalidArgument("--dataset-path is missing, expected a file of prompts");
  }
  Dataset dataset;
  FS_ASSIGN(const std::vector<Prompt> rows, ReadPrompts(options.path));
  const auto count =
      options.num_prompts > 0 ? options.num_prompts : static_cast<int32_t>(rows.size());
  dataset.prompts = SelectPrompts(rows, count, options.seed);
  dataset.seed = options.seed.value_or(0);
  dataset.rule = fmt::format("{} of {} rows{}{}", count, rows.size(),
                             options.seed ? ", shuffled" : ", in their order",
                             static_cast<size_t>(count) > rows.size() ? ", repeated" : "");
  return dataset;
}

bool IsOneOf(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> DatasetNames() {
  return {"jsonl",
          "custom",
          "openai",
          "sharegpt",
          "random",
          "random-ids",
          "mooncake",
          "timed_trace",
          "generated-shared-prefix",
          "prefix_repetition"};
}

std::vector<int32_t> OrdinaryIds(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string& bytes = tokenizer.TokenBytes(id);
    // Halves of characters would come back as replacement characters.
    if (!tokenizer.IsSpecial(id) && !bytes.empty() && IsValidUtf8(bytes)) ids.push_back(id);
  }
  return ids;
}

std::string TextOfLength(const Tokenizer& tokenizer, std::vector<int32_t> ids, size_t length,
                         const std::vector<int32_t>& ordinary, RowRandom* more) {
  std::string text;
  for (int i = 0; i < kLengthTries; ++i) {
    ids.resize(std::min(ids.size(), length));
    while (ids.size() < length) {
      ids.push_back(ordinary[more->Below(static_cast<uint32_t>(ordinary.size()))]);
    }
    text = tokenizer.Decode(ids, /*skip_special_tokens=*/false);
    ids = tokenizer.Encode(text, /*add_special_tokens=*/false);
    if (ids.size() == length) return text;
  }
  return text;
}

void SetPrompt(const DatasetOptions& options, const Tokenizer& tokenizer, std::string text,
               Prompt* prompt) {
  std::vector<int32_t> ids = tokenizer.Encode(text, /*add_special_tokens=*/true);
  prompt->prompt_tokens = static_cast<int32_t>(ids.size());
  if (options.send_ids) {
    prompt->token_ids = std::move(ids);
  } else {
    prompt->text = std::move(text);
  }
}

Result<Dataset> MakeDataset(const DatasetOptions& options, const Tokenizer* tokenizer) {
  const bool conversations = options.name == "sharegpt";
  const bool random = IsOneOf(options.name, {"random", "random-ids"});
  const bool prefixes = IsOneOf(options.name, {"generated-shared-prefix", "prefix_repetition"});
  if (IsOneOf(options.name, {"mooncake", "timed_trace"})) return MakeTrace(options, tokenizer);
  if (!conversations && !random && !prefixes) return MakeFromRows(options);
  if (tokenizer == nullptr) {
    return InvalidArgument(fmt::format(
        "--dataset-name {} counts tokens, expected --tokenizer DIR (or a --model that is one)",
        options.name));
  }
  if (conversations) return MakeShareGpt(options, *tokenizer);
  return random ? MakeRandom(options, *tokenizer) : MakeSharedPrefix(options, *tokenizer);
}

std::string WorkloadFingerprint(const std::vector<Prompt>& prompts, const BodySettings& settings) {
  Hash hash;
  for (const Prompt& prompt : prompts) hash.Add(RequestBody(settings, {}, prompt));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace firesteel
