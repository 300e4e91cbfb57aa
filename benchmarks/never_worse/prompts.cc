#include "never_worse/prompts.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "base/json.h"

namespace firesteel {

Result<Prompts> Prompts::Load(const Tokenizer& tokenizer, const std::string& file) {
  Prompts prompts;
  prompts.vocab_size_ = tokenizer.vocab_size();
  std::ifstream in(file);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = fmt::format("{}:{}", file, number);
    FS_ASSIGN(const Json entry, ParseJson(line, where));
    FS_ASSIGN(const std::optional<std::string> text, GetString(entry, "prompt", where));
    if (!text) return DataCorrupt(fmt::format("{}: has no prompt", where));
    std::vector<int32_t> tokens = tokenizer.Encode(*text, false);
    if (tokens.size() >= kTokens) prompts.texts_.push_back(std::move(tokens));
  }
  if (prompts.texts_.empty()) {
    return DataCorrupt(fmt::format("{}: no prompt has {} tokens or more", file, int32_t{kTokens}));
  }
  return prompts;
}

std::vector<int32_t> Prompts::Make(std::string_view kind, int64_t index) const {
  std::vector<int32_t> prompt;
  if (kind == "random") {
    std::mt19937 random(static_cast<uint32_t>(index));
    std::uniform_int_distribution<int32_t> id(0, vocab_size_ - 1);
    while (prompt.size() < kTokens) prompt.push_back(id(random));
    return prompt;
  }
  const auto& text = texts_[static_cast<size_t>(index) % texts_.size()];
  const int times = kind == "repetitive" ? 3 : 1;
  const std::span<const int32_t> piece = std::span(text).first(kTokens / times);
  for (int i = 0; i < times; ++i) prompt.insert(prompt.end(), piece.begin(), piece.end());
  return prompt;
}

}  // namespace firesteel
