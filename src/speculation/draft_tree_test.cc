#include "speculation/draft_tree.h"

#include <gtest/gtest.h>

#include <random>

namespace firesteel {
namespace {

Draft Tree(std::vector<int32_t> parents, std::vector<int32_t> tokens) {
  Draft tree;
  tree.parents = std::move(parents);
  tree.tokens = std::move(tokens);
  return tree;
}

// The tokens from the anchor to each leaf.
std::vector<std::vector<int32_t>> Paths(const Draft& tree) {
  std::vector<std::vector<int32_t>> paths;
  for (size_t i = 0; i < tree.tokens.size(); ++i) {
    if (HasChild(tree, static_cast<int32_t>(i))) continue;
    std::vector<int32_t> path;
    for (auto node = static_cast<int32_t>(i); node >= 0;) {
      path.insert(path.begin(), tree.tokens[static_cast<size_t>(node)]);
      node = IsTree(tree) ? tree.parents[static_cast<size_t>(node)] : node - 1;
    }
    paths.push_back(path);
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(DraftTree, LevelsAndDepth) {
  const Draft tree = Tree({-1, -1, 0, 2, 1}, {5, 6, 7, 8, 9});
  std::vector<int32_t> levels;
  LevelsOf(tree, &levels);
  EXPECT_EQ(levels, (std::vector<int32_t>{0, 0, 1, 2, 1}));
  EXPECT_EQ(DepthOf(tree), 3);
  EXPECT_EQ(DepthOf(Tree({}, {1, 2})), 2);
  EXPECT_EQ(DepthOf({}), 0);
}

TEST(DraftTree, Children) {
  const Draft tree = Tree({-1, -1, 0, 2, 1}, {5, 6, 7, 8, 7});
  const auto child = [&](int32_t parent, int32_t token) {
    return ChildOf(tree.tokens, tree.parents, parent, token);
  };
  EXPECT_EQ(child(-1, 6), 1);
  EXPECT_EQ(child(-1, 7), -1);
  EXPECT_EQ(child(0, 7), 2);
  EXPECT_EQ(child(1, 7), 4);
  EXPECT_EQ(child(3, 7), -1);
  EXPECT_EQ(child(4, 7), -1);
  EXPECT_TRUE(HasChild(tree, -1));
  EXPECT_TRUE(HasChild(tree, 2));
  EXPECT_FALSE(HasChild(tree, 3));
  EXPECT_FALSE(HasChild(tree, 4));
  EXPECT_TRUE(HasChild(Tree({}, {1, 2}), 0));
  EXPECT_FALSE(HasChild(Tree({}, {1, 2}), 1));
  EXPECT_FALSE(HasChild({}, -1));
}

TEST(DraftTree, PreorderKeepsBrothersInOrderAndMovesWhatBelongsToANode) {
  Draft tree = Tree({-1, -1, 0, 0, 1, 2}, {10, 11, 12, 13, 14, 15});
  tree.confidence = {0.0f, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
  ToPreorder(&tree);
  EXPECT_EQ(tree.tokens, (std::vector<int32_t>{10, 12, 15, 13, 11, 14}));
  EXPECT_EQ(tree.parents, (std::vector<int32_t>{-1, 0, 1, 0, -1, 4}));
  EXPECT_EQ(tree.confidence, (std::vector<float>{0.0f, 0.2f, 0.5f, 0.3f, 0.1f, 0.4f}));
  std::vector<size_t> beginnings;
  for (size_t i = 0; i < 6; ++i) {
    if (BeginsBranch(tree, i)) beginnings.push_back(i);
  }
  EXPECT_EQ(beginnings, (std::vector<size_t>{3, 4}));
}

TEST(DraftTree, KeptNodesThatAreAChainSaySo) {
  Draft tree = Tree({-1, -1, 0, 2, 1}, {5, 6, 7, 8, 9});
  KeepNodes(std::vector<int32_t>{0, 2, 3}, &tree);
  EXPECT_TRUE(tree.parents.empty());
  EXPECT_EQ(tree.tokens, (std::vector<int32_t>{5, 7, 8}));
  tree = Tree({-1, -1, 0, 2, 1}, {5, 6, 7, 8, 9});
  KeepNodes({}, &tree);
  EXPECT_TRUE(tree.tokens.empty());
  EXPECT_FALSE(IsTree(tree));
}

TEST(DraftTree, PreorderHasTheSamePaths) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Draft tree;
    const auto count = static_cast<int32_t>(1 + random() % 40);
    for (int32_t i = 0; i < count; ++i) {
      tree.tokens.push_back(i);
      tree.parents.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(i + 1)) - 1);
    }
    const auto paths = Paths(tree);
    ToPreorder(&tree);
    ASSERT_EQ(Paths(tree), paths);
    std::vector<int32_t> ancestors{-1};
    for (size_t i = 0; i < tree.tokens.size() && IsTree(tree); ++i) {
      while (ancestors.back() != tree.parents[i]) {
        ancestors.pop_back();
        ASSERT_FALSE(ancestors.empty()) << "node " << i << " stands behind another subtree";
      }
      ancestors.push_back(static_cast<int32_t>(i));
    }
  }
}

}  // namespace
}  // namespace firesteel
