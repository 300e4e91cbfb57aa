#include "engine/fake_tree.h"

#include <algorithm>
#include <random>

#include "speculation/draft_tree.h"

namespace firesteel {
namespace {

constexpr int kAttempts = 50;  // to find a node a place

}  // namespace

Draft FakeTree(const FakeTreeOptions& options, std::span<const int32_t> says, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](int32_t n) {
    return static_cast<int32_t>(random() % static_cast<uint64_t>(n));
  };
  const int32_t right =
      std::min({options.right, options.depth, options.nodes, static_cast<int32_t>(says.size())});
  Draft tree;
  std::vector<int32_t> levels;
  std::vector<int32_t> path;
  const auto add = [&](int32_t parent, int32_t token) {
    tree.parents.push_back(parent);
    tree.tokens.push_back(token);
    levels.push_back(parent < 0 ? 0 : levels[static_cast<size_t>(parent)] + 1);
  };
  // Whether the target would say `token` behind `parent`, as far as is known.
  const auto is_right = [&](int32_t parent, int32_t token) {
    const auto level =
        static_cast<size_t>(parent < 0 ? 0 : levels[static_cast<size_t>(parent)] + 1);
    const bool on_path = parent < 0 || (level <= path.size() && path[level - 1] == parent);
    return on_path && level < says.size() && says[level] == token;
  };
  for (int attempt = 0; attempt < kAttempts;) {
    const auto size = static_cast<int32_t>(tree.tokens.size());
    const auto missing = right - static_cast<int32_t>(path.size());
    if (size == options.nodes) break;
    if (missing > 0 && (missing >= options.nodes - size || below(2) == 0)) {
      add(path.empty() ? -1 : path.back(), says[path.size()]);
      path.push_back(size);
      continue;
    }
    const int32_t parent = below(size + 1) - 1, token = below(options.vocab);
    const bool too_deep = parent >= 0 && levels[static_cast<size_t>(parent)] + 1 >= options.depth;
    if (too_deep || is_right(parent, token) ||
        ChildOf(tree.tokens, tree.parents, parent, token) >= 0) {
      ++attempt;
      continue;
    }
    attempt = 0;
    add(parent, token);
  }
  while (static_cast<int32_t>(path.size()) < right) {  // no place was found for others
    const int32_t node = static_cast<int32_t>(tree.tokens.size());
    add(path.empty() ? -1 : path.back(), says[path.size()]);
    path.push_back(node);
  }
  for (size_t i = 0; options.confidence && i < tree.tokens.size(); ++i) {
    tree.confidence.push_back(0.001f * static_cast<float>(1 + below(999)));
  }
  return tree;
}

void SpoilTree(uint64_t seed, Draft* tree) {
  if (tree->tokens.empty()) return;
  std::mt19937_64 random(seed ^ 0xA5A5);
  const size_t count = tree->tokens.size(), node = random() % count;
  switch (random() % 10) {
    case 0:  // a parent that comes later, or never
      tree->parents[node] = static_cast<int32_t>(node + random() % 5);
      break;
    case 1:  // a cycle
      tree->parents[0] = static_cast<int32_t>(count) - 1;
      break;
    case 2:
      tree->parents[node] = -2 - static_cast<int32_t>(random() % 1000);
      break;
    case 3:  // the same child twice, the second with a child of its own
      tree->parents.push_back(tree->parents[node]);
      tree->tokens.push_back(tree->tokens[node]);
      tree->parents.push_back(static_cast<int32_t>(count));
      tree->tokens.push_back(1);
      break;
    case 4:
      tree->tokens[node] = random() % 2 == 0 ? -1 : 1 << 30;
      break;
    case 5:  // far too deep and too many
      for (size_t i = 0; i < 300; ++i) {
        tree->parents.push_back(static_cast<int32_t>(tree->tokens.size()) - 1);
        tree->tokens.push_back(0);
      }
      break;
    case 6:  // far too broad
      for (size_t i = 0; i < 300; ++i) {
        tree->parents.push_back(-1);
        tree->tokens.push_back(static_cast<int32_t>(i));
      }
      break;
    case 7:
      tree->parents.resize(random() % (count + 3), -1);
      break;
    case 8:
      tree->confidence.assign(count + 1, 0.5f);
      break;
    default:  // a tree may say what it was drawn from; nobody looks
      tree->probs.assign(count, Distribution::OneHot(0));
      break;
  }
  if (!tree->confidence.empty() && tree->confidence.size() != count + 1) {
    tree->confidence.resize(tree->tokens.size(), 0.5f);
  }
}

}  // namespace firesteel
