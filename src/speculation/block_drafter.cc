// One pass over a block whose keys and values are joined by the target's features, then the block's
// tokens, left to right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/paged_attention.h"
#include "kernels/row_ops.h"
#include "model/decoder_layer.h"
#include "speculation/block_drafter_internal.h"
#include "speculation/draft_token_internal.h"
#include "speculation/draft_vocabulary_internal.h"

namespace firesteel {
namespace {

// Rows [begin, end) of a block.
struct BlockRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const BlockRange&) const = default;
};

// Those of its own block that row i sees.
BlockRange VisibleRows(const BlockMask& mask, int64_t block, int64_t i) {
  const int64_t window = mask.window > 0 ? mask.window : block;
  return {std::max<int64_t>(0, i - window + 1), mask.causal ? i + 1 : std::min(block, i + window)};
}

class BlockDrafter : public Drafter {
 public:
  static Result<std::unique_ptr<Drafter>> Load(const DrafterContext& context,
                                               std::string_view method, BlockDrafterProbe* probe);

  const DrafterInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType kv_dtype) const override {
    return {{info_.name, config_.decoder.num_layers,
             KeyValuePlanes(kv_dtype, config_.decoder.num_kv_heads, config_.decoder.head_dim)}};
  }
  Status Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                 const KvView& kv, Workspace& workspace) override;
  Status Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                 Workspace& workspace, std::vector<Draft>* drafts) override;

 private:
  void ApplyFaults(const BlockDrafterFaults& faults);
  // The hidden states that decide the drafts: [queries * steps, h], after the final norm.
  Matrix<float> BlockPass(Exec& exec, std::span<const DraftQuery> queries, int32_t steps,
                          const KvView& kv, Workspace& workspace) const;
  void BlockAttention(Exec& exec, int32_t l, std::span<const DraftQuery> queries, const KvView& kv,
                      std::span<const int32_t> positions, Workspace& workspace,
                      LayerActivations& a) const;
  void Chain(Exec& exec, std::span<const DraftQuery> queries, int32_t steps, ConstMatrix hidden,
             Matrix<float> logits, Workspace& workspace, std::vector<Draft>* drafts) const;
  void Record(int32_t steps, ConstMatrix hidden, ConstMatrix logits) const;

  BlockDrafterConfig config_;
  BlockDrafterWeights w_;
  DrafterInfo info_;
  RopeTable rope_;
  int32_t group_ = 0;
  bool always_greedy_ = false;
  BlockDrafterFaults faults_;
  BlockDrafterProbe* probe_ = nullptr;
};

// c = RMSNorm(fc F) is shared by all layers; each layer caches its own k and v of it. Nothing of a
// block is ever cached, so the cache holds exactly the committed positions.
Status BlockDrafter::Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                             const KvView& kv, Workspace& workspace) {
  const DecoderConfig& c = config_.decoder;
  int64_t total = 0;
  for (const CommittedRows& r : rows) total += r.count;
  if (total == 0) return {};
  if (features.cols != w_.fc.cols()) {
    return Internal(fmt::format("{}: features are {} wide, expected {}", info_.name, features.cols,
                                w_.fc.cols()));
  }
  for (const CommittedRows& r : rows) {
    if (r.feature_row < 0 || r.feature_row + r.count > features.rows || r.first_position < 0 ||
        r.first_position + r.count + faults_.context_shift > rope_.max_positions()) {
      return Internal(fmt::format("{}: rows {} + {} at position {} do not fit {} rows of features",
                                  info_.name, r.feature_row, r.count, r.first_position,
                                  features.rows));
    }
  }
  const std::span<int32_t> from = workspace.Ints(total), positions = workspace.Ints(total);
  const auto append = workspace.Array<AppendRows>(static_cast<int64_t>(rows.size()));
  int64_t row = 0;
  for (size_t s = 0; s < rows.size(); ++s) {
    const CommittedRows& r = rows[s];
    append[s] = {row, r.count, r.first_position, kv.Table(r.slot, group_)};
    for (int32_t i = 0; i < r.count; ++i, ++row) {
      from[static_cast<size_t>(row)] = static_cast<int32_t>(r.feature_row + i);
      positions[static_cast<size_t>(row)] =
          static_cast<int32_t>(r.first_position + i + faults_.context_shift);
    }
  }
  const Matrix<float> gathered = workspace.Floats(total, features.cols);
  const Matrix<float> context = workspace.Floats(total, c.hidden_size);
  const Matrix<float> projected = workspace.Floats(total, w_.context_kv.rows());
  GatherRows(exec, features, from, gathered);
  MatMul(exec, gathered, w_.fc, context);
  RmsNorm(exec, context, w_.hidden_norm.span(), c.norm_eps, context);
  MatMul(exec, context, w_.context_kv, projected);
  const int64_t kv_width = int64_t{c.num_kv_heads} * c.head_dim;
  for (int32_t l = 0; l < c.num_layers; ++l) {
    const Matrix<float> k = projected.ColRange(2 * l * kv_width, kv_width);
    const Matrix<float> v = projected.ColRange((2 * l + 1) * kv_width, kv_width);
    const HeadRows heads{k, w_.layers[static_cast<size_t>(l)].k_norm.span()};
    NormAndRotate(exec, {&heads, 1}, c, positions, rope_);
    AppendPaged(exec, k, append, kv.Plane(group_, l, 0));
    AppendPaged(exec, v, append, kv.Plane(group_, l, 1));
  }
  return {};
}

Status BlockDrafter::Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                             Workspace& workspace, std::vector<Draft>* drafts) {
  drafts->assign(queries.size(), {});
  int32_t steps = 0;
  for (const DraftQuery& query : queries) {
    if (query.tokens.empty() ||
        static_cast<int64_t>(query.tokens.size()) > rope_.max_positions() - config_.block_size) {
      return Internal(fmt::format("{}: a query has {} tokens, expected 1 to {}", info_.name,
                                  query.tokens.size(), rope_.max_positions() - config_.block_size));
    }
    steps = std::max(steps, std::min(query.max_tokens, config_.max_tokens()));
  }
  if (steps == 0) return {};
  const Matrix<float> hidden = BlockPass(exec, queries, steps, kv, workspace);
  const Matrix<float> logits = workspace.Floats(hidden.rows, config_.draft_vocab_size);
  MatMul(exec, hidden, w_.tables.head(), logits);
  Chain(exec, queries, steps, hidden, logits, workspace, drafts);
  if (probe_ != nullptr) Record(steps, hidden, logits);
  return {};
}

// Always the whole block that was trained, however few tokens are wanted: its rows attend to one
// another, so a shorter block would be another distribution. Only the rows that are wanted go on to
// the head.
Matrix<float> BlockDrafter::BlockPass(Exec& exec, std::span<const DraftQuery> queries,
                                      int32_t steps, const KvView& kv, Workspace& workspace) const {
  const DecoderConfig& c = config_.decoder;
  const int64_t block = config_.block_size, count = static_cast<int64_t>(queries.size());
  const std::span<int32_t> tokens = workspace.Ints(count * block),
                           positions = workspace.Ints(count * block);
  const std::span<int32_t> wanted = workspace.Ints(count * steps);
  for (int64_t q = 0; q < count; ++q) {
    const DraftQuery& query = queries[static_cast<size_t>(q)];
    for (int64_t i = 0; i < block; ++i) {
      tokens[static_cast<size_t>(q * block + i)] =
          i == 0 ? query.tokens.back() : config_.mask_token;
      positions[static_cast<size_t>(q * block + i)] =
          static_cast<int32_t>(static_cast<int64_t>(query.tokens.size()) - 1 + i);
    }
    for (int64_t i = 0; i < steps; ++i) {
      wanted[static_cast<size_t>(q * steps + i)] =
          static_cast<int32_t>(q * block + config_.first_row + i);
    }
  }
  const int32_t ballast_width =
      w_.ballast.empty() ? 0 : static_cast<int32_t>(w_.ballast[0].down.cols());
  LayerActivations a(workspace, count * block, c, std::max(c.intermediate_size, ballast_width));
  EmbedTokens(exec, tokens, w_.tables.embedding, a.x);
  for (int32_t l = 0; l < c.num_layers; ++l) {
    BlockAttention(exec, l, queries, kv, positions, workspace, a);
    Mlp(exec, w_.layers[static_cast<size_t>(l)], c, a);
  }
  for (const DecoderLayer& layer : w_.ballast) Ballast(exec, layer, c, rope_, positions, a);
  const Matrix<float> hidden = workspace.Floats(count * steps, c.hidden_size);
  GatherRows(exec, a.x, wanted, hidden);
  RmsNorm(exec, hidden, w_.norm.span(), c.norm_eps, hidden);
  return hidden;
}

// The anchor at position n is in the block, not in the context [0, n). A window counts positions
// over both: row i, which stands at n + i, sees those less than `window` away.
void BlockDrafter::BlockAttention(Exec& exec, int32_t l, std::span<const DraftQuery> queries,
                                  const KvView& kv, std::span<const int32_t> positions,
                                  Workspace& workspace, LayerActivations& a) const {
  const DecoderConfig& c = config_.decoder;
  const DecoderLayer& layer = w_.layers[static_cast<size_t>(l)];
  const BlockMask& mask = config_.masks[static_cast<size_t>(l)];
  ProjectQkv(exec, layer, c, rope_, positions, a);
  const auto attend =
      workspace.Array<AttentionRows>(static_cast<int64_t>(queries.size()) * config_.block_size);
  size_t used = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    const int64_t begin = static_cast<int64_t>(q) * config_.block_size;
    // Rows that see the same part of the block go together: all of them, where nothing is masked.
    for (int64_t i = 0; i < config_.block_size;) {
      const BlockRange range = VisibleRows(mask, config_.block_size, i);
      int64_t end = i + 1;
      while (end < config_.block_size && VisibleRows(mask, config_.block_size, end) == range) ++end;
      AttentionRows& rows = attend[used++];
      rows.row_begin = begin + i;
      rows.row_count = end - i;
      rows.context = static_cast<int64_t>(queries[q].tokens.size()) - 1;
      rows.causal = false;
      rows.table = kv.Table(queries[q].slot, group_);
      rows.tail_keys = a.k.RowRange(begin + range.begin, range.end - range.begin);
      rows.tail_values = a.v.RowRange(begin + range.begin, range.end - range.begin);
      // Counted from `context`, behind which row i stands.
      rows.window = mask.window > 0 ? mask.window - i : 0;
      if (mask.window > 0 && rows.window <= 0) rows.context = rows.window = 0;
      i = end;
    }
  }
  PagedAttention(exec, a.q, attend.first(used), kv.Plane(group_, l, 0), kv.Plane(group_, l, 1),
                 1.0f / std::sqrt(static_cast<float>(c.head_dim)), a.attended);
  MatMul(exec, a.attended, layer.o, a.x, MatMulStore::kAdd);
}

// Left to right, all queries at once: each token is drawn from logits that know the one before it,
// so q is exactly what was sampled. Sequential, because the bias of a token can lift any other of
// the vocabulary.
void BlockDrafter::Chain(Exec& exec, std::span<const DraftQuery> queries, int32_t steps,
                         ConstMatrix hidden, Matrix<float> logits, Workspace& workspace,
                         std::vector<Draft>* drafts) const {
  const int64_t count = static_cast<int64_t>(queries.size());
  const std::span<int32_t> previous = workspace.Ints(count);
  for (size_t q = 0; q < queries.size(); ++q) previous[q] = queries[q].tokens.back();
  MarkovChain chain(w_.head, count, hidden.cols, workspace);
  // A reduced vocabulary within the target's: what it lacks is never drawn.
  const bool reduced = !w_.draft_vocab.empty();
  const Matrix<float> whole = workspace.Floats(reduced ? count : 0, config_.decoder.vocab_size);
  for (int64_t q = 0; q < whole.rows; ++q) {
    std::ranges::fill(whole.RowSpan(q), -std::numeric_limits<float>::infinity());
  }
  for (int32_t i = 0; i < steps; ++i) {
    // Row i of every block: rows i, i + steps, … of the whole.
    const Matrix<float> rows(logits.Row(i), count, logits.cols, logits.stride * steps);
    const ConstMatrix states(hidden.Row(i), count, hidden.cols, hidden.stride * steps);
    if (faults_.reset_state) chain.ResetState();
    chain.AddBias(exec, previous, states, rows);
    exec.pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t q = begin; q < end; ++q) {
        const auto at = static_cast<size_t>(q);
        if (i >= queries[at].max_tokens) continue;
        Draft& draft = (*drafts)[at];
        // Before the draw: it must not know the token that it speaks of.
        if (config_.head.confidence) {
          draft.confidence.push_back(chain.Confidence(q, states.RowSpan(q)));
        }
        if (reduced) ScatterLogits(rows.RowSpan(q), w_.draft_vocab, whole.RowSpan(q));
        previous[at] = DrawDraftToken(queries[at], (reduced ? whole : rows).RowSpan(q),
                                      always_greedy_, &draft);
      }
    });
  }
}

void BlockDrafter::Record(int32_t steps, ConstMatrix hidden, ConstMatrix logits) const {
  probe_->steps = steps;
  probe_->hidden.clear();
  probe_->logits.clear();
  for (int64_t r = 0; r < hidden.rows; ++r) {
    probe_->hidden.insert(probe_->hidden.end(), hidden.Row(r), hidden.Row(r) + hidden.cols);
    probe_->logits.insert(probe_->logits.end(), logits.Row(r), logits.Row(r) + logits.cols);
  }
}

void BlockDrafter::ApplyFaults(const BlockDrafterFaults& faults) {
  faults_ = faults;
  for (int32_t& layer : info_.feature_layers) layer += faults.layer_shift;
  if (faults.swap_anchor) config_.first_row = 1 - config_.first_row;
  for (BlockMask& mask : config_.masks) {
    mask.causal = mask.causal || faults.causal_block;
    if (mask.window > 0) mask.window += faults.window_shift;
  }
}

Result<std::unique_ptr<Drafter>> BlockDrafter::Load(const DrafterContext& context,
                                                    std::string_view method,
                                                    BlockDrafterProbe* probe) {
  const std::string& directory = context.options.model;
  FS_ASSIGN(const Json json, ReadDrafterConfig(context, method));
  FS_TRY(CheckBallast(context.options.ballast_layers, context.options.ballast_width));
  auto drafter = std::make_unique<BlockDrafter>();
  FS_ASSIGN(drafter->config_, ParseBlockDrafterConfig(json, method, context.target.info(),
                                                      context.config, directory + "/config.json"));
  BlockDrafterConfig& config = drafter->config_;
  FS_ASSIGN(drafter->always_greedy_, ReadAlwaysGreedy(context.config));
  FS_ASSIGN(drafter->w_, LoadBlockDrafterWeights(context.exec, directory, config, context.target));
  drafter->w_.ballast =
      MakeBallast(context.exec, config.decoder, context.options.ballast_layers,
                  context.options.ballast_width, drafter->w_.layers[0].qkv.format());
  // The last block may start at the last position that a sequence can have.
  drafter->rope_ = MakeRopeTable(config.decoder, context.max_model_len + config.block_size + 1);
  drafter->group_ = context.first_group;
  drafter->probe_ = probe;
  drafter->info_ = {.name = std::string(method),
                    .max_tokens = config.max_tokens(),
                    .feature_layers = config.target_layers,
                    .weight_bytes = drafter->w_.BytesPerPass(config.max_tokens())};
  if (probe != nullptr) drafter->ApplyFaults(probe->faults);
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeBlockDrafter(const DrafterContext& context,
                                                  std::string_view method,
                                                  BlockDrafterProbe* probe) {
  return BlockDrafter::Load(context, method, probe);
}

}  // namespace firesteel
