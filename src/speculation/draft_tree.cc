#include "speculation/draft_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace firesteel {
namespace {

template <typename T>
void Select(std::span<const int32_t> nodes, std::vector<T>* of_nodes) {
  if (of_nodes->empty()) return;
  std::vector<T> selected;
  selected.reserve(nodes.size());
  for (const int32_t node : nodes) {
    selected.push_back(std::move((*of_nodes)[static_cast<size_t>(node)]));
  }
  *of_nodes = std::move(selected);
}

}  // namespace

void LevelsOf(const Draft& tree, std::vector<int32_t>* levels) {
  levels->clear();
  for (const int32_t parent : tree.parents) {
    levels->push_back(parent < 0 ? 0 : (*levels)[static_cast<size_t>(parent)] + 1);
  }
}

int32_t DepthOf(const Draft& draft) {
  if (!IsTree(draft)) return static_cast<int32_t>(draft.tokens.size());
  std::vector<int32_t> levels;
  LevelsOf(draft, &levels);
  return *std::ranges::max_element(levels) + 1;
}

int32_t ChildOf(std::span<const int32_t> tokens, std::span<const int32_t> parents, int32_t parent,
                int32_t token) {
  for (auto node = static_cast<size_t>(parent + 1); node < tokens.size(); ++node) {
    if (parents[node] == parent && tokens[node] == token) return static_cast<int32_t>(node);
  }
  return -1;
}

bool HasChild(const Draft& draft, int32_t parent) {
  const auto next = static_cast<size_t>(parent + 1);
  if (!IsTree(draft)) return next < draft.tokens.size();
  return std::ranges::find(std::span(draft.parents).subspan(next), parent) !=
         std::span(draft.parents).subspan(next).end();
}

void KeepNodes(std::span<const int32_t> nodes, Draft* tree) {
  std::vector<int32_t> place(tree->tokens.size(), -1);
  std::vector<int32_t> parents;
  bool is_chain = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int32_t parent = tree->parents[static_cast<size_t>(nodes[i])];
    parents.push_back(parent < 0 ? -1 : place[static_cast<size_t>(parent)]);
    FS_CHECK(parent < 0 || parents[i] >= 0, "node {} is kept without its parent {}", nodes[i],
             parent);
    place[static_cast<size_t>(nodes[i])] = static_cast<int32_t>(i);
    is_chain = is_chain && parents[i] == static_cast<int32_t>(i) - 1;
  }
  if (is_chain) parents.clear();
  tree->parents = std::move(parents);
  Select(nodes, &tree->tokens);
  Select(nodes, &tree->probs);
  Select(nodes, &tree->confidence);
}

void ToPreorder(Draft* tree) {
  // First child and next brother, so that no stack and no search is needed.
  const size_t count = tree->tokens.size();
  std::vector<int32_t> child(count + 1, -1), brother(count, -1);
  for (size_t i = count; i-- > 0;) {
    int32_t& first = child[static_cast<size_t>(tree->parents[i] + 1)];
    brother[i] = std::exchange(first, static_cast<int32_t>(i));
  }
  std::vector<int32_t> order;
  int32_t node = child[0];
  while (node >= 0) {
    order.push_back(node);
    int32_t next = child[static_cast<size_t>(node + 1)];
    while (next < 0 && node >= 0) {
      next = brother[static_cast<size_t>(node)];
      node = tree->parents[static_cast<size_t>(node)];
    }
    node = next;
  }
  KeepNodes(order, tree);
}

}  // namespace firesteel
