// EAGLE-2's dynamic tree (Li et al. 2024): each level expands the nodes that are likeliest from the
// anchor on, and the likeliest of all levels are proposed.
//
// Nodes are the likeliest tokens, never drawn ones, so the tree is a function of the context and
// anything may decide what of it is verified.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/paged_attention.h"
#include "kernels/vocab_ops.h"
#include "speculation/eagle_internal.h"

namespace firesteel {
namespace {

struct Node {
  int32_t token = 0;
  int32_t parent = -1;  // among the nodes; -1: this is the anchor
  float log_prob = 0;   // of the token behind its parent, <= 0
  float score = 0;      // sum of these from the anchor on: never above the parent's
  int32_t stored = 0;   // once expanded: where its keys and values lie
  int32_t row = 0;      // and its row of the pass that expanded it
};

struct Child {
  int32_t token = 0;
  float log_prob = 1;  // 1: none
};

struct Tree {
  const DraftQuery* query = nullptr;
  Draft* draft = nullptr;
  int32_t levels = 0;             // below the anchor
  std::vector<Node> nodes;        // level by level, the anchor first
  std::vector<int32_t> frontier;  // nodes to expand
  std::vector<Child> children;    // [frontier, topk]
};

// The likeliest `count` tokens with their log-probabilities, the best first, ties to the lower id.
// Overwrites the logits.
void Likeliest(std::span<float> logits, size_t count, std::span<const int32_t> target_ids,
               std::span<Child> out) {
  std::fill(out.begin(), out.end(), Child());
  const float max = logits[static_cast<size_t>(ArgMax(logits))];
  if (!std::isfinite(max)) return;
  std::vector<float> scratch(logits.size() / 64 + 1);
  const float threshold = ThresholdOfTop(logits, static_cast<int64_t>(count), scratch);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= threshold) ids.push_back(static_cast<int32_t>(i));
  }
  count = std::min(count, ids.size());
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
      [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  for (size_t i = 0; i < count; ++i) out[i] = {ids[i], logit(ids[i]) - max};
  ExpWeights(logits, max, 1, logits);
  const auto log_sum = static_cast<float>(std::log(SumAtLeast(logits, 0)));
  for (size_t i = 0; i < count; ++i) {
    out[i].log_prob = std::min(0.0f, out[i].log_prob - log_sum);
    if (!target_ids.empty()) out[i].token = target_ids[static_cast<size_t>(out[i].token)];
  }
}

// The best `count` of `nodes`, in their order. A node's score is at most its parent's, and it comes
// later, so whoever is chosen has its ancestors chosen too.
void KeepBest(std::span<const Node> nodes, size_t count, std::vector<int32_t>* chosen) {
  if (chosen->size() <= count) return;
  std::ranges::sort(*chosen, [&](int32_t a, int32_t b) {
    const float x = nodes[static_cast<size_t>(a)].score, y = nodes[static_cast<size_t>(b)].score;
    return x != y ? x > y : a < b;
  });
  chosen->resize(count);
  std::ranges::sort(*chosen);
}

// The children of the frontier become nodes, and the best of them the next frontier.
void Grow(size_t topk, bool expand, Tree* tree) {
  const size_t first = tree->nodes.size();
  for (size_t f = 0; f < tree->frontier.size(); ++f) {
    const int32_t parent = tree->frontier[f];
    const float score = tree->nodes[static_cast<size_t>(parent)].score;
    for (size_t i = 0; i < topk; ++i) {
      const Child& child = tree->children[f * topk + i];
      if (child.log_prob > 0) break;
      tree->nodes.push_back({child.token, parent, child.log_prob, score + child.log_prob});
    }
  }
  tree->frontier.clear();
  if (!expand) return;
  tree->frontier.resize(tree->nodes.size() - first);
  std::iota(tree->frontier.begin(), tree->frontier.end(), static_cast<int32_t>(first));
  KeepBest(tree->nodes, topk, &tree->frontier);
}

void Prune(size_t max_tokens, const Tree& tree) {
  std::vector<int32_t> chosen(tree.nodes.size() - 1);
  std::iota(chosen.begin(), chosen.end(), 1);
  KeepBest(tree.nodes, max_tokens, &chosen);
  std::vector<int32_t> place(tree.nodes.size(), -1);  // the anchor's stays -1
  for (const int32_t node : chosen) {
    const Node& n = tree.nodes[static_cast<size_t>(node)];
    place[static_cast<size_t>(node)] = static_cast<int32_t>(tree.draft->tokens.size());
    tree.draft->tokens.push_back(n.token);
    tree.draft->parents.push_back(place[static_cast<size_t>(n.parent)]);
    tree.draft->confidence.push_back(std::exp(n.log_prob));
  }
}

// The rows of one pass: the frontiers of all trees, one behind the other.
struct PassRows {
  struct Owner {
    const DraftQuery* query = nullptr;
    Child* children = nullptr;  // [topk]
  };

  PassRows(Workspace& workspace, int64_t rows, int64_t levels)
      : tokens(workspace.Ints(rows)),
        positions(workspace.Ints(rows)),
        parents(workspace.Ints(rows)),
        paths(workspace.Ints(rows * levels)),
        owners(workspace.Array<Owner>(rows)) {}

  void Add(size_t tree_index, Tree* tree, size_t topk, int32_t level) {
    tree->children.resize(tree->frontier.size() * topk);
    for (size_t f = 0; f < tree->frontier.size(); ++f) {
      Node& node = tree->nodes[static_cast<size_t>(tree->frontier[f])];
      node.row = static_cast<int32_t>(count);
      node.stored = num_stored++;
      tokens[count] = node.token;
      positions[count] =
          static_cast<int32_t>(static_cast<int64_t>(tree->query->tokens.size()) - 2 + level);
      parents[count] = node.parent < 0 ? static_cast<int32_t>(tree_index)
                                       : tree->nodes[static_cast<size_t>(node.parent)].row;
      owners[count] = {tree->query, &tree->children[f * topk]};
      const size_t length = static_cast<size_t>(level) + 1;
      const Node* step = &node;
      for (size_t i = length; i-- > 0; step = &tree->nodes[static_cast<size_t>(step->parent)]) {
        paths[count * length + i] = step->stored;
        if (step->parent < 0) break;
      }
      ++count;
    }
  }

  size_t count = 0;
  int32_t num_stored = 0;        // of all passes
  std::span<int32_t> tokens;     // [rows]
  std::span<int32_t> positions;  // [rows]
  std::span<int32_t> parents;    // [rows] the parent's row of the pass before
  std::span<int32_t> paths;      // [rows, level + 1] from the anchor to the row itself, stored
  std::span<Owner> owners;       // [rows]
};

}  // namespace

void EagleDrafter::DraftTrees(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                              Workspace& workspace, std::vector<Draft>* drafts) const {
  const auto topk = static_cast<size_t>(options_.topk);
  std::vector<Tree> trees;
  int32_t levels = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    const DraftQuery& query = queries[q];
    if (query.tokens.size() < 2 || query.max_tokens < 1) continue;
    // A tree of so many nodes cannot be deeper.
    int32_t depth = std::min(query.max_tokens, options_.depth);
    if (query.max_depth > 0) depth = std::min(depth, query.max_depth);
    trees.push_back({&query, &(*drafts)[q], depth, {{query.tokens.back()}}, {0}, {}});
    levels = std::max(levels, depth);
  }
  if (trees.empty()) return;
  const auto num_trees = static_cast<int64_t>(trees.size());
  const int64_t most = num_trees * options_.topk, h = config_.hidden_size;
  EagleRows all = MakeRows(workspace, most);
  const int64_t width = all.a.k.cols;
  // Keys and values of every expanded node; and, for one pass, those of each row's path.
  const int64_t expanded = num_trees * (1 + (levels - 1) * options_.topk);
  const Matrix<float> keys = workspace.Floats(expanded, width),
                      values = workspace.Floats(expanded, width);
  const Matrix<float> path_keys = workspace.Floats(most * levels, width),
                      path_values = workspace.Floats(most * levels, width);
  Matrix<float> before = workspace.Floats(most, h);  // hidden vectors of the pass before
  const auto attend = workspace.Array<AttentionRows>(most);
  PassRows pass(workspace, most, levels);
  for (size_t t = 0; t < trees.size(); ++t) {
    const DraftQuery& query = *trees[t].query;
    std::copy_n(HiddenOf(query.slot, static_cast<int64_t>(query.tokens.size()) - 2, kv), h,
                before.Row(static_cast<int64_t>(t)));
  }
  for (int32_t level = 0; level < levels; ++level) {
    const int64_t stored = pass.num_stored, length = level + 1;
    pass.count = 0;
    for (size_t t = 0; t < trees.size(); ++t) pass.Add(t, &trees[t], topk, level);
    if (pass.count == 0) break;
    const auto n = static_cast<int64_t>(pass.count);
    const EagleRows now = all.First(n);
    GatherRows(exec, before, pass.parents.first(pass.count), now.hidden);
    Project(exec, pass.tokens.first(pass.count), pass.positions.first(pass.count), now);
    CopyRows(exec, now.a.k, keys.RowRange(stored, n));
    CopyRows(exec, now.a.v, values.RowRange(stored, n));
    const auto paths = pass.paths.first(pass.count * static_cast<size_t>(length));
    GatherRows(exec, keys, paths, path_keys.RowRange(0, n * length));
    GatherRows(exec, values, paths, path_values.RowRange(0, n * length));
    for (size_t r = 0; r < pass.count; ++r) {
      const auto row = static_cast<int64_t>(r);
      attend[r] = Attend(*pass.owners[r].query, row, kv, path_keys.RowRange(row * length, length),
                         path_values.RowRange(row * length, length));
    }
    Run(exec, attend.first(pass.count), pass.positions.first(pass.count), kv, now,
        [&](int64_t row, std::span<float> logits) {
          Likeliest(logits, topk, w_.target_ids,
                    {pass.owners[static_cast<size_t>(row)].children, topk});
        });
    for (Tree& tree : trees) Grow(topk, level + 1 < tree.levels, &tree);
    std::swap(before, all.hidden);
  }
  for (const Tree& tree : trees) {
    Prune(static_cast<size_t>(std::min(tree.query->max_tokens, options_.max_tokens)), tree);
  }
}

}  // namespace firesteel
