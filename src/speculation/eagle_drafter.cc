#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/paged_attention.h"
#include "model/forward.h"
#include "speculation/eagle_internal.h"

namespace firesteel {
namespace {

// Logits of more rows than this are made in turns: a tree's would fill the caches and more.
constexpr int64_t kLogitRows = 64;

constexpr int32_t kKeys = 0, kValues = 1, kHidden = 2;  // planes of the group

// The last position of a tile, whose hidden vector the tile keeps.
bool EndsTile(int64_t position) { return position % kAttentionTile == kAttentionTile - 1; }

float* HiddenOfTile(const KvView& kv, SequenceSlot slot, int32_t group, int64_t position) {
  const PagedPlane plane = kv.Plane(group, 0, kHidden);
  return reinterpret_cast<float*>(plane.Tile(kv.Table(slot, group), position));
}

}  // namespace

EagleRows::EagleRows(Workspace& workspace, int64_t rows, const DecoderConfig& config,
                     int32_t mlp_width, int64_t logit_rows, int64_t draft_vocab)
    : a(workspace, rows, config, mlp_width),
      hidden(workspace.Floats(rows, config.hidden_size)),
      pair(workspace.Floats(rows, 2 * int64_t{config.hidden_size})),
      logits(workspace.Floats(logit_rows, draft_vocab)) {}

EagleRows EagleRows::First(int64_t rows) const {
  EagleRows first = *this;
  LayerActivations& b = first.a;
  for (Matrix<float>* m : {&b.x, &b.normed, &b.qkv, &b.q, &b.k, &b.v, &b.attended, &b.gate_up,
                           &b.mlp, &first.hidden, &first.pair}) {
    *m = m->RowRange(0, rows);
  }
  return first;
}

std::vector<CacheGroup> EagleDrafter::CacheGroups(DType kv_dtype) const {
  std::vector<RowFormat> planes = KeyValuePlanes(kv_dtype, config_.num_kv_heads, config_.head_dim);
  const int32_t part = (config_.hidden_size + kAttentionTile - 1) / kAttentionTile;
  planes.push_back({DType::kF32, 1, part, TileOrder::kByPosition});
  return {{info_.name, 1, planes}};
}

Status EagleDrafter::Start(const DrafterContext& context, const EagleOptions& options,
                           int64_t feature_width, EagleProbe* probe) {
  FS_TRY(CheckBallast(context.options.ballast_layers, context.options.ballast_width));
  w_.ballast = MakeBallast(context.exec, config_, context.options.ballast_layers,
                           context.options.ballast_width, w_.q.format());
  options_ = options;
  feature_width_ = feature_width;
  // A draft may begin at the last position that a sequence can have.
  rope_ = MakeRopeTable(config_, context.max_model_len + options.depth + 1);
  group_ = context.first_group;
  probe_ = probe;
  if (probe != nullptr) faults_ = probe->faults;
  last_hidden_ = Buffer<float>(int64_t{context.max_slots} * config_.hidden_size);
  zeros_ = Buffer<float>(faults_.lose_hidden ? config_.hidden_size : 0);
  last_position_.assign(static_cast<size_t>(context.max_slots), -1);
  info_.max_tokens = options.max_tokens;
  info_.max_depth = options.topk > 1 ? options.depth : 0;
  info_.weight_bytes = w_.BytesPerPass(options.depth);
  for (int32_t& layer : info_.feature_layers) {
    if (layer != kAfterFinalNorm) layer += faults_.layer_shift;
  }
  return {};
}

void EagleDrafter::AddFcBias(Exec& exec, Matrix<float> x) const {
  if (w_.fc_bias.size() == 0) return;
  exec.pool.ParallelFor(x.rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.Row(r);
      for (int64_t i = 0; i < x.cols; ++i) row[i] += w_.fc_bias.data()[i];
    }
  });
}

Status EagleDrafter::CheckRows(std::span<const CommittedRows> rows, ConstMatrix features) const {
  if (features.cols != feature_width_) {
    return Internal(fmt::format("{}: features are {} wide, expected {}", info_.name, features.cols,
                                feature_width_));
  }
  for (const CommittedRows& r : rows) {
    const int64_t end = r.first_position + r.count;
    if (r.feature_row < 0 || r.feature_row + r.count > features.rows || r.first_position < 0 ||
        end > rope_.max_positions() || end > static_cast<int64_t>(r.tokens.size())) {
      return Internal(fmt::format(
          "{}: rows {} + {} at position {} do not fit {} rows of features and {} tokens",
          info_.name, r.feature_row, r.count, r.first_position, features.rows, r.tokens.size()));
    }
  }
  return {};
}

const float* EagleDrafter::HiddenOf(SequenceSlot slot, int64_t position, const KvView& kv) const {
  if (last_position_[static_cast<size_t>(slot)] == position) {
    return last_hidden_.data() + int64_t{slot} * config_.hidden_size;
  }
  // Behind a prefix hit, which is whole blocks and needs no Observe before the first draft.
  if (!EndsTile(position)) return nullptr;
  if (faults_.lose_hidden) return zeros_.data();
  return HiddenOfTile(kv, slot, group_, position);
}

void EagleDrafter::Keep(const CommittedRows& rows, ConstMatrix hidden, const KvView& kv) {
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t position = rows.first_position + i;
    if (!EndsTile(position)) continue;
    std::copy_n(hidden.Row(i), config_.hidden_size, HiddenOfTile(kv, rows.slot, group_, position));
  }
  std::copy_n(hidden.Row(rows.count - 1), config_.hidden_size,
              last_hidden_.data() + int64_t{rows.slot} * config_.hidden_size);
  last_position_[static_cast<size_t>(rows.slot)] = rows.first_position + rows.count - 1;
}

// One layer: keys and values of the context come from hidden vectors and tokens alone, so no row of
// it attends to anything. The row that attends is the one behind the last committed position, and
// that is made in Propose, when its token is known.
Status EagleDrafter::Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                             const KvView& kv, Workspace& workspace) {
  int64_t total = 0;
  for (const CommittedRows& r : rows) total += r.count;
  if (total == 0) return {};
  FS_TRY(CheckRows(rows, features));
  const int64_t h = config_.hidden_size;
  const std::span<int32_t> from = workspace.Ints(total), tokens = workspace.Ints(total),
                           positions = workspace.Ints(total);
  const auto append = workspace.Array<AppendRows>(static_cast<int64_t>(rows.size()));
  size_t row = 0;
  for (size_t s = 0; s < rows.size(); ++s) {
    const CommittedRows& r = rows[s];
    append[s] = {static_cast<int64_t>(row), r.count, r.first_position, kv.Table(r.slot, group_)};
    for (int32_t i = 0; i < r.count; ++i, ++row) {
      const int64_t position = r.first_position + i;
      from[row] = static_cast<int32_t>(r.feature_row + i);
      // Nobody looks at the row of position 0.
      tokens[row] =
          r.tokens[static_cast<size_t>(std::max<int64_t>(0, position - faults_.pairing_shift))];
      positions[row] =
          static_cast<int32_t>(std::max<int64_t>(0, position - 1 + faults_.context_shift));
    }
  }
  const Matrix<float> gathered = workspace.Floats(total, features.cols);
  const Matrix<float> hidden = workspace.Floats(total, h), shifted = workspace.Floats(total, h);
  GatherRows(exec, features, from, gathered);
  Fuse(exec, gathered, workspace, hidden);
  for (size_t s = 0; s < rows.size(); ++s) {
    const int64_t begin = append[s].row_begin, count = append[s].row_count;
    if (count == 0) continue;
    if (rows[s].first_position == 0) {
      std::fill_n(shifted.Row(begin), h, 0.0f);
    } else {
      const float* before = HiddenOf(rows[s].slot, rows[s].first_position - 1, kv);
      if (before == nullptr) return Unknown(rows[s].slot, rows[s].first_position - 1);
      std::copy_n(before, h, shifted.Row(begin));
    }
    CopyRows(exec, hidden.RowRange(begin, count - 1), shifted.RowRange(begin + 1, count - 1));
  }
  const Matrix<float> pair = workspace.Floats(total, 2 * h), x = workspace.Floats(total, h);
  const Matrix<float> projected = workspace.Floats(total, w_.kv.rows());
  MatMul(exec, Mix(exec, tokens, shifted, pair, x), w_.kv, projected);
  const int64_t kv_width = projected.cols / 2;
  const Matrix<float> k = projected.ColRange(0, kv_width);
  const HeadRows heads{k, w_.layer.k_norm.span()};
  NormAndRotate(exec, {&heads, 1}, config_, positions, rope_);
  AppendPaged(exec, k, append, kv.Plane(group_, 0, kKeys));
  AppendPaged(exec, projected.ColRange(kv_width, kv_width), append, kv.Plane(group_, 0, kValues));
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows[s].count == 0) continue;
    Keep(rows[s], hidden.RowRange(append[s].row_begin, append[s].row_count), kv);
  }
  return {};
}

Status EagleDrafter::Unknown(SequenceSlot slot, int64_t position) const {
  return Internal(fmt::format("{}: slot {} goes on behind position {}, observed last was {}",
                              info_.name, slot, position,
                              last_position_[static_cast<size_t>(slot)]));
}

Status EagleDrafter::CheckQueries(std::span<const DraftQuery> queries, const KvView& kv) const {
  for (const DraftQuery& query : queries) {
    const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
    if (anchor < 0 || anchor + options_.depth >= rope_.max_positions()) {
      return Internal(fmt::format("{}: a query has {} tokens, expected 1 to {}", info_.name,
                                  query.tokens.size(), rope_.max_positions() - options_.depth));
    }
    if (anchor > 0 && HiddenOf(query.slot, anchor - 1, kv) == nullptr) {
      return Unknown(query.slot, anchor - 1);
    }
  }
  return {};
}

Status EagleDrafter::Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                             Workspace& workspace, std::vector<Draft>* drafts) {
  drafts->assign(queries.size(), {});
  FS_TRY(CheckQueries(queries, kv));
  if (options_.topk > 1) {
    DraftTrees(exec, queries, kv, workspace, drafts);
  } else {
    DraftChains(exec, queries, kv, workspace, drafts);
  }
  return {};
}

EagleRows EagleDrafter::MakeRows(Workspace& workspace, int64_t rows) const {
  const int32_t ballast = w_.ballast.empty() ? 0 : static_cast<int32_t>(w_.ballast[0].down.cols());
  return EagleRows(workspace, rows, config_, std::max(config_.intermediate_size, ballast),
                   std::min(rows, kLogitRows), w_.tables.head().rows());
}

void EagleDrafter::Project(Exec& exec, std::span<const int32_t> tokens,
                           std::span<const int32_t> positions, const EagleRows& rows) const {
  const LayerActivations& a = rows.a;
  const ConstMatrix input = Mix(exec, tokens, rows.hidden, rows.pair, a.x);
  MatMul(exec, input, w_.q, a.q);
  MatMul(exec, input, w_.kv, a.qkv.ColRange(a.q.cols, 2 * a.k.cols));
  const HeadRows heads[] = {{a.q, w_.layer.q_norm.span()}, {a.k, w_.layer.k_norm.span()}};
  NormAndRotate(exec, heads, config_, positions, rope_);
}

void EagleDrafter::Run(Exec& exec, std::span<const AttentionRows> attend,
                       std::span<const int32_t> positions, const KvView& kv, const EagleRows& rows,
                       FunctionRef<void(int64_t, std::span<float>)> visit) const {
  LayerActivations a = rows.a;
  PagedAttention(exec, a.q, attend, kv.Plane(group_, 0, kKeys), kv.Plane(group_, 0, kValues),
                 1.0f / std::sqrt(static_cast<float>(config_.head_dim)), a.attended);
  MatMul(exec, a.attended, w_.layer.o, a.x, MatMulStore::kAdd);
  Mlp(exec, w_.layer, config_, a);
  for (const DecoderLayer& layer : w_.ballast) Ballast(exec, layer, config_, rope_, positions, a);
  const ConstMatrix for_head = Finish(exec, a.x, a.normed, rows.hidden);
  for (int64_t begin = 0; begin < for_head.rows; begin += rows.logits.rows) {
    const int64_t count = std::min(rows.logits.rows, for_head.rows - begin);
    const Matrix<float> logits = rows.logits.RowRange(0, count);
    MatMul(exec, for_head.RowRange(begin, count), w_.tables.head(), logits);
    exec.pool.ParallelFor(count, 1, [&](int64_t first, int64_t end, int) {
      for (int64_t r = first; r < end; ++r) visit(begin + r, logits.RowSpan(r));
    });
  }
}

AttentionRows EagleDrafter::Attend(const DraftQuery& query, int64_t row, const KvView& kv,
                                   ConstMatrix keys, ConstMatrix values) const {
  AttentionRows rows;
  rows.row_begin = row;
  rows.row_count = 1;
  rows.context = static_cast<int64_t>(query.tokens.size()) - 1;
  rows.causal = false;
  rows.window = rows.context;  // all but position 0, which has no row
  rows.table = kv.Table(query.slot, group_);
  rows.tail_keys = keys;
  rows.tail_values = values;
  return rows;
}

}  // namespace firesteel
