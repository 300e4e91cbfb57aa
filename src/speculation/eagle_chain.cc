// Chains of the EAGLE drafters: a row at a time, each fed with the token drawn from the one before.
#include <algorithm>
#include <numeric>

#include "speculation/draft_token_internal.h"
#include "speculation/eagle_internal.h"
#include "speculation/max_probability_internal.h"

namespace firesteel {
namespace {

struct Chain {
  const DraftQuery* query = nullptr;
  Draft* draft = nullptr;
  int32_t length = 0;
};

}  // namespace

// All queries in step: the row behind the last committed position, whose token is the anchor, and
// then a row for each token that was drawn. Rows of a chain are kept beside the cache, for what
// becomes of them is known only after verification.
void EagleDrafter::DraftChains(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                               Workspace& workspace, std::vector<Draft>* drafts) const {
  const auto memory = workspace.Array<Chain>(static_cast<int64_t>(queries.size()));
  size_t count = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    const int32_t length = std::min(queries[q].max_tokens, options_.depth);
    if (queries[q].tokens.size() < 2 || length < 1) continue;
    memory[count++] = {&queries[q], &(*drafts)[q], length};
  }
  if (count == 0) return;
  // Long chains first, so that those still growing are always the first rows.
  const std::span<Chain> chains = memory.first(count);
  std::ranges::sort(chains, [](const Chain& a, const Chain& b) {
    return a.length != b.length ? a.length > b.length : a.query < b.query;
  });
  const int64_t steps = chains[0].length;
  const auto rows = static_cast<int64_t>(count);
  const EagleRows all = MakeRows(workspace, rows);
  const Matrix<float> keys = workspace.Floats(rows * steps, all.a.k.cols),
                      values = workspace.Floats(rows * steps, all.a.v.cols);
  const std::span<int32_t> tokens = workspace.Ints(rows), positions = workspace.Ints(rows);
  const auto attend = workspace.Array<AttentionRows>(rows);
  for (size_t r = 0; r < count; ++r) {
    const DraftQuery& query = *chains[r].query;
    const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
    tokens[r] = query.tokens[static_cast<size_t>(anchor - faults_.pairing_shift)];
    std::copy_n(HiddenOf(query.slot, anchor - 1, kv), config_.hidden_size,
                all.hidden.Row(static_cast<int64_t>(r)));
  }
  if (probe_ != nullptr) *probe_ = {.faults = faults_, .hidden = {}, .logits = {}};
  size_t active = count;
  for (int64_t step = 0; step < steps; ++step) {
    while (chains[active - 1].length <= step) --active;
    const auto n = static_cast<int64_t>(active);
    const EagleRows now = all.First(n);
    for (size_t r = 0; r < active; ++r) {
      positions[r] =
          static_cast<int32_t>(static_cast<int64_t>(chains[r].query->tokens.size()) - 2 + step);
    }
    Project(exec, tokens.first(active), positions.first(active), now);
    // Row `step` of every chain: rows step, step + steps, … of the tails.
    CopyRows(exec, now.a.k, {keys.Row(step), n, keys.cols, keys.stride * steps});
    CopyRows(exec, now.a.v, {values.Row(step), n, values.cols, values.stride * steps});
    for (size_t r = 0; r < active; ++r) {
      const auto row = static_cast<int64_t>(r);
      attend[r] = Attend(*chains[r].query, row, kv, keys.RowRange(row * steps, step + 1),
                         values.RowRange(row * steps, step + 1));
    }
    Run(exec, attend.first(active), positions.first(active), kv, now,
        [&](int64_t row, std::span<float> logits) {
          const Chain& chain = chains[static_cast<size_t>(row)];
          if (row == 0) Probe(now, logits);
          tokens[static_cast<size_t>(row)] = DrawDraftToken(
              *chain.query, logits, options_.always_greedy, chain.draft, w_.target_ids);
          // At temperature 1, whatever the request samples at: known before the token is drawn.
          chain.draft->confidence.push_back(MaxProbability(logits, 0));
        });
  }
}

void EagleDrafter::Probe(const EagleRows& rows, std::span<const float> logits) const {
  if (probe_ == nullptr) return;
  const std::span<const float> hidden = rows.hidden.RowSpan(0);
  probe_->hidden.insert(probe_->hidden.end(), hidden.begin(), hidden.end());
  probe_->logits.insert(probe_->logits.end(), logits.begin(), logits.end());
}

}  // namespace firesteel
