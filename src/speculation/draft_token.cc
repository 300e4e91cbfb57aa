#include <fmt/format.h>

#include <string>

#include "sampling/params.h"
#include "speculation/draft_token_internal.h"

namespace firesteel {

Result<bool> ReadAlwaysGreedy(const Json& config) {
  FS_ASSIGN(const auto method, GetString(config, "draft_sample_method", "speculative config"));
  const std::string found = method.value_or("auto");
  if (found == "auto" || found == "probabilistic") return false;
  if (found == "greedy") return true;
  return InvalidArgument(fmt::format(
      "speculative config: draft_sample_method is {}, expected auto, probabilistic or greedy",
      DumpJson(found)));
}

int32_t DrawDraftToken(const DraftQuery& query, std::span<const float> logits, bool always_greedy,
                       Draft* draft) {
  const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
  const auto k = static_cast<int32_t>(draft->tokens.size());
  int32_t token = 0;
  if (always_greedy || IsGreedy(*query.sampling)) {
    token = ArgMax(logits);
  } else {
    // Coupled drafts need the noise that the target will use there.
    const int64_t position =
        query.purpose == NoisePurpose::kDraftGumbel ? RoundPosition(anchor, k) : anchor + 1 + k;
    draft->probs.push_back(MakeDistribution(logits, *query.sampling));
    token = SampleWithNoise(draft->probs.back(), query.noise, position, query.purpose);
  }
  draft->tokens.push_back(token);
  return token;
}

}  // namespace firesteel
