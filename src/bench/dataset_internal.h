// Shared by the data sets' files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "bench/dataset.h"

namespace firesteel {

inline constexpr int32_t kGeneratedPrompts = 1000;

// Random numbers of one row for one purpose: row i has the same whatever the number of rows.
class RowRandom {
 public:
  RowRandom(uint64_t seed, uint32_t purpose, uint64_t row)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        purpose_(purpose),
        row_(row) {}

  uint32_t Next() {
    if (at_ == block_.size()) {
      block_ = Philox4x32(
          {counter_++, purpose_, static_cast<uint32_t>(row_), static_cast<uint32_t>(row_ >> 32)},
          key_);
      at_ = 0;
    }
    return block_[at_++];
  }
  // Uniform in [0, n). REQUIRES: n > 0
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>((uint64_t{Next()} * n) >> 32); }

 private:
  const std::array<uint32_t, 2> key_;
  const uint32_t purpose_;
  const uint64_t row_;
  std::array<uint32_t, 4> block_{};
  size_t at_ = 4;
  uint32_t counter_ = 0;
};

enum RowPurpose : uint32_t { kTextTokens = 1, kPrefixTokens = 2, kOrder = 3, kTraceBlock = 4 };

struct Conversation {
  std::string prompt;
  std::string reply;
};

// A ShareGPT file: the first two entries of every conversation that has two. `alternative_key`:
// "conversation" counts too.
Result<std::vector<Conversation>> ReadConversations(const std::string& path, bool alternative_key);

// Ids that a text may hold: all but special ones, those that stand for nothing and those that are
// no whole characters.
std::vector<int32_t> OrdinaryIds(const Tokenizer& tokenizer);

// A text of exactly `length` tokens without those put around it, beginning with `ids` as far as
// the tokenizer lets it: decoded, encoded again, cut or filled with `more` until the length stays.
// What it came to after ten tries, where that does not happen.
std::string TextOfLength(const Tokenizer& tokenizer, std::vector<int32_t> ids, size_t length,
                         const std::vector<int32_t>& ordinary, RowRandom* more);

// Text or ids, as the options say, with the number of tokens that the server will count.
void SetPrompt(const DatasetOptions& options, const Tokenizer& tokenizer, std::string text,
               Prompt* prompt);

Result<Dataset> MakeShareGpt(const DatasetOptions& options, const Tokenizer& tokenizer);
Result<Dataset> MakeRandom(const DatasetOptions& options, const Tokenizer& tokenizer);
Result<Dataset> MakeSharedPrefix(const DatasetOptions& options, const Tokenizer& tokenizer);
Result<Dataset> MakeTrace(const DatasetOptions& options, const Tokenizer* tokenizer);

}  // namespace firesteel
