#include "engine/draft_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace firesteel {
namespace {

constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostTokens = 1024;

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool MayDraft(const PlannedSequence& planned) { return planned.max_draft > 0; }

}  // namespace

Result<std::vector<DraftRules::Range>> DraftRules::ParseTable(std::string_view table) {
  std::vector<Range> ranges;
  const std::string_view whole = table;
  const auto error = [&](std::string_view entry) {
    return InvalidArgument(
        fmt::format("spec_k_by_load: {:?} in {:?}, expected ascending ranges of running sequences "
                    "and their draft tokens such as 1-16:5,17-48:4,49-:3",
                    entry, whole));
  };
  while (!table.empty()) {
    const std::string_view entry = table.substr(0, table.find(','));
    if (entry.size() + 1 == table.size()) return error("");  // a comma at the end
    table.remove_prefix(std::min(table.size(), entry.size() + 1));
    const size_t dash = entry.find('-'), colon = entry.find(':');
    if (colon == std::string_view::npos || (dash != std::string_view::npos && dash > colon)) {
      return error(entry);
    }
    const bool single = dash == std::string_view::npos;
    const auto first = Number(entry.substr(0, single ? colon : dash));
    const std::string_view last_text = single ? "" : entry.substr(dash + 1, colon - dash - 1);
    const auto last = single ? first : last_text.empty() ? kNoEnd : Number(last_text);
    const auto tokens = Number(entry.substr(colon + 1));
    const int64_t after = ranges.empty() ? 0 : ranges.back().last;
    if (!first || !last || !tokens || *first <= after || *last < *first || *tokens < 0 ||
        *tokens > kMostTokens) {
      return error(entry);
    }
    ranges.push_back({*first, *last, static_cast<int32_t>(*tokens)});
  }
  return ranges;
}

Result<DraftRules> DraftRules::Make(const SpeculationOptions& options) {
  DraftRules rules;
  FS_ASSIGN(rules.ranges_, ParseTable(options.k_by_load));
  if (options.min_batch < 1 || options.min_output_tokens < 0) {
    return InvalidArgument(
        fmt::format("spec_min_batch: {}, expected at least 1; spec_min_output_tokens: {}, expected "
                    "at least 0",
                    options.min_batch, options.min_output_tokens));
  }
  rules.min_batch_ = options.min_batch;
  rules.min_output_tokens_ = options.min_output_tokens;
  return rules;
}

int32_t DraftRules::MostAt(int64_t decoding) const {
  for (const Range& range : ranges_) {
    if (range.first <= decoding && decoding <= range.last) return range.tokens;
  }
  return std::numeric_limits<int32_t>::max();
}

std::optional<DraftlessReason> DraftRules::Apply(StepPlan* plan) const {
  auto& sequences = plan->sequences;
  if (std::ranges::none_of(sequences, MayDraft)) return std::nullopt;
  const int64_t decoding =
      std::ranges::count_if(sequences, [](const PlannedSequence& p) { return p.decides; });
  const auto lower = [&](const auto& most) {
    for (PlannedSequence& planned : sequences) {
      planned.max_draft = std::min(planned.max_draft, most(planned));
    }
    return std::ranges::none_of(sequences, MayDraft);
  };
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  if (decoding < min_batch_ && lower([](const auto&) { return 0; })) {
    return DraftlessReason::kMinBatch;
  }
  const int32_t by_load = MostAt(decoding);
  if (lower([&](const auto&) { return by_load; })) return DraftlessReason::kLoad;
  if (lower([&](const PlannedSequence& p) {
        return p.sequence->sampling.max_tokens < min_output_tokens_ ? 0 : kAny;
      })) {
    return DraftlessReason::kShortOutput;
  }
  return std::nullopt;
}

}  // namespace firesteel
