#include "engine/same_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace firesteel {
namespace {

constexpr int32_t kFirstCompared = 5;

std::string Shown(const std::string& text) { return DumpJson(text).substr(0, 60); }

}  // namespace

Status CheckSameTokens(const Tokenizer& target, const std::string& directory) {
  FS_ASSIGN(const auto draft, Tokenizer::Load(directory));
  const int32_t common = std::min(draft->vocab_size(), target.vocab_size());
  for (int32_t id = kFirstCompared; id < common; ++id) {
    const std::string &found = draft->TokenBytes(id), &expected = target.TokenBytes(id);
    if (found == expected || found.empty() || expected.empty()) continue;
    return InvalidArgument(
        fmt::format("{}: token {} is {}, in the target it is {}: a draft model must share the "
                    "target's tokens",
                    directory, id, Shown(found), Shown(expected)));
  }
  return {};
}

}  // namespace firesteel
