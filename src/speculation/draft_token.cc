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
                       Draft* draft, std::span<const int32_t> target_ids) {
  const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
  const auto k = static_cast<int32_t>(draft->tokens.size());
  int32_t token = 0;
  if (always_greedy || IsGreedy(*query.sampling)) {
    token = ArgMax(logits);
    if (!target_ids.empty()) token = target_ids[static_cast<size_t>(token)];
  } else {
    // Coupled drafts need the noise that the target will use there.
    const int64_t position =
        query.purpose == NoisePurpose::kDraftGumbel ? RoundPosition(anchor, k) : anchor + 1 + k;
    Distribution& q = draft->probs.emplace_back(MakeDistribution(logits, *query.sampling));
    if (!target_ids.empty()) {
      for (int32_t& id : q.ids) id = target_ids[static_cast<size_t>(id)];
    }
    token = SampleWithNoise(q, query.noise, position, query.purpose);
  }
  draft->tokens.push_back(token);
  return token;
}

}  // namespace firesteel
