// Medusa (arXiv 2401.10774): heads over the target's last hidden state, each speaking of one later
// token, independently of the tokens between. No cache, no pass over layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "kernels/row_ops.h"
#include "model/config.h"
#include "model/decoder_layer.h"
#include "speculation/draft_token_internal.h"
#include "speculation/drafter_checkpoint_internal.h"
#include "speculation/make_internal.h"
#include "speculation/max_probability_internal.h"
#include "speculation/medusa_internal.h"

namespace firesteel {
namespace {

class Medusa : public Drafter {
 public:
  static Result<std::unique_ptr<Drafter>> Load(const DrafterContext& context);

  const DrafterInfo& info() const override { return info_; }
  Status Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                 const KvView& kv, Workspace& workspace) override;
  Status Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                 Workspace& workspace, std::vector<Draft>* drafts) override;
  void Forget(SequenceSlot slot) override { position_[static_cast<size_t>(slot)] = -1; }

 private:
  // out [rows, V] = the logits of head i over `states`.
  void Head(Exec& exec, size_t i, ConstMatrix states, Matrix<float> x, Matrix<float> y,
            Matrix<float> out) const;
  Draft TreeDraft(const DraftQuery& query, int64_t row,
                  std::span<const Matrix<float>> logits) const;

  std::vector<MedusaHead> heads_;
  MedusaTree tree_;
  DrafterInfo info_;
  bool always_greedy_ = false;
  // By slot: the state of the last committed row, and its position; -1: none. A sequence that
  // begins with its whole prompt in the prefix cache has none until its first row is computed.
  Buffer<float> states_;  // [slots, h]
  int64_t width_ = 0;     // h
  std::vector<int64_t> position_;
};

Status Medusa::Observe(Exec&, std::span<const CommittedRows> rows, ConstMatrix features,
                       const KvView&, Workspace&) {
  for (const CommittedRows& r : rows) {
    if (r.count == 0) continue;
    const int64_t last = r.feature_row + r.count - 1;
    if (features.cols != width_ || r.feature_row < 0 || last >= features.rows) {
      return Internal(fmt::format("medusa: rows {} + {} do not fit features [{}, {}]",
                                  r.feature_row, r.count, features.rows, features.cols));
    }
    std::copy_n(features.Row(last), width_, states_.data() + r.slot * width_);
    position_[static_cast<size_t>(r.slot)] = r.first_position + r.count - 1;
  }
  return {};
}

void Medusa::Head(Exec& exec, size_t i, ConstMatrix states, Matrix<float> x, Matrix<float> y,
                  Matrix<float> out) const {
  const MedusaHead& head = heads_[i];
  CopyRows(exec, states, x);
  for (const MedusaBlock& block : head.blocks) {
    MatMul(exec, x, block.weight, y);
    AddBiasedSilu(exec, y, block.bias.span(), x);
  }
  MatMul(exec, x, head.output, out);
}

Status Medusa::Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView&,
                       Workspace& workspace, std::vector<Draft>* drafts) {
  drafts->assign(queries.size(), {});
  const bool is_tree = !tree_.nodes.empty();
  std::vector<size_t> ready;
  int32_t levels = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    const DraftQuery& query = queries[q];
    // The state must be that of the row before the anchor.
    if (position_[static_cast<size_t>(query.slot)] !=
        static_cast<int64_t>(query.tokens.size()) - 2) {
      continue;
    }
    ready.push_back(q);
    const int32_t wanted = is_tree && query.max_depth > 0
                               ? std::min(query.max_depth, query.max_tokens)
                               : query.max_tokens;
    levels = std::max(levels, std::min(wanted, is_tree ? tree_.depth : info_.max_tokens));
  }
  if (ready.empty()) return {};
  const auto rows = static_cast<int64_t>(ready.size());
  const Matrix<float> states = workspace.Floats(rows, width_), x = workspace.Floats(rows, width_),
                      y = workspace.Floats(rows, width_);
  for (int64_t r = 0; r < rows; ++r) {
    const SequenceSlot slot = queries[ready[static_cast<size_t>(r)]].slot;
    std::copy_n(states_.data() + slot * width_, width_, states.Row(r));
  }
  const auto logits = workspace.Array<Matrix<float>>(levels);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = workspace.Floats(rows, heads_[i].output.rows());
    Head(exec, i, states, x, y, logits[i]);
  }
  exec.pool.ParallelFor(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const size_t q = ready[static_cast<size_t>(r)];
      Draft& draft = (*drafts)[q];
      if (is_tree) {
        draft = TreeDraft(queries[q], r, logits);
        continue;
      }
      const auto length = std::min(static_cast<size_t>(queries[q].max_tokens), logits.size());
      for (size_t i = 0; i < length; ++i) {
        DrawDraftToken(queries[q], logits[i].RowSpan(r), always_greedy_, &draft);
        AddMaxProbability(logits[i].RowSpan(r), &draft);
      }
    }
  });
  return {};
}

// Of the static tree the `max_tokens` nodes whose paths are the likeliest, as far as heads that do
// not know of one another can tell. A node is never likelier than its parent, so they are a tree
// again. One-hot: what is drafted is a function of the state alone.
Draft Medusa::TreeDraft(const DraftQuery& query, int64_t row,
                        std::span<const Matrix<float>> logits) const {
  const auto levels = static_cast<int32_t>(logits.size());
  const int32_t depth = std::min(levels, query.max_depth > 0 ? query.max_depth : query.max_tokens);
  std::vector<std::vector<std::pair<int32_t, float>>> top;
  for (int32_t i = 0; i < depth; ++i) {
    top.push_back(RawLogprob(logits[static_cast<size_t>(i)].RowSpan(row), 0, tree_.ranks).top);
  }
  std::vector<int32_t> order;
  std::vector<float> path(tree_.nodes.size());  // logarithm of its chance
  std::vector<char> present(tree_.nodes.size());
  for (size_t n = 0; n < tree_.nodes.size(); ++n) {
    const MedusaNode& node = tree_.nodes[n];
    if (node.depth >= depth) continue;
    const auto& level = top[static_cast<size_t>(node.depth)];
    if (static_cast<size_t>(node.rank) >= level.size()) continue;
    if (node.parent >= 0 && !present[static_cast<size_t>(node.parent)]) continue;
    present[n] = 1;
    path[n] = level[static_cast<size_t>(node.rank)].second +
              (node.parent < 0 ? 0.0f : path[static_cast<size_t>(node.parent)]);
    order.push_back(static_cast<int32_t>(n));
  }
  // Stable: a parent, which comes first in the list, stays before a child that is as likely.
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](int32_t n) { return path[static_cast<size_t>(n)]; });
  order.resize(std::min(order.size(), static_cast<size_t>(query.max_tokens)));
  Draft draft;
  std::vector<int32_t> index(tree_.nodes.size(), -1);
  for (const int32_t n : order) {
    const MedusaNode& node = tree_.nodes[static_cast<size_t>(n)];
    const auto& [token, logprob] =
        top[static_cast<size_t>(node.depth)][static_cast<size_t>(node.rank)];
    index[static_cast<size_t>(n)] = static_cast<int32_t>(draft.tokens.size());
    draft.tokens.push_back(token);
    draft.parents.push_back(node.parent < 0 ? -1 : index[static_cast<size_t>(node.parent)]);
    draft.confidence.push_back(std::exp(logprob));
  }
  return draft;
}

Result<std::unique_ptr<Drafter>> Medusa::Load(const DrafterContext& context) {
  const std::string& directory = context.options.model;
  FS_ASSIGN(const Json json, ReadDrafterConfig(context, "medusa"));
  auto drafter = std::make_unique<Medusa>();
  FS_ASSIGN(drafter->always_greedy_, ReadAlwaysGreedy(context.config));
  const ModelInfo& target = context.target.info();
  FS_ASSIGN(drafter->heads_, LoadMedusaHeads(context.exec, directory, json, target));
  const auto num_heads = static_cast<int32_t>(drafter->heads_.size());
  FS_ASSIGN(drafter->tree_, ReadMedusaTree(context.config, num_heads));
  const MedusaTree& tree = drafter->tree_;
  DrafterInfo& info = drafter->info_;
  info.name = "medusa";
  info.max_tokens = tree.nodes.empty() ? num_heads : static_cast<int32_t>(tree.nodes.size());
  info.max_depth = tree.depth;
  info.feature_layers = {kAfterFinalNorm};
  for (int32_t i = 0; i < (tree.nodes.empty() ? num_heads : tree.depth); ++i) {
    info.weight_bytes += drafter->heads_[static_cast<size_t>(i)].bytes();
  }
  drafter->width_ = target.hidden_size;
  drafter->states_ = Buffer<float>(int64_t{context.max_slots} * target.hidden_size);
  drafter->position_.assign(static_cast<size_t>(context.max_slots), -1);
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeMedusa(const DrafterContext& context) {
  return Medusa::Load(context);
}

}  // namespace firesteel
