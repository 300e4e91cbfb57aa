// The shape of a draft that is a tree. A node is an index into Draft::tokens; -1 is the anchor.
//
// In preorder a node stands right behind its parent or begins a branch: the rows from there to the
// next such node are a chain again, whose beginning hangs from an earlier one. The engine keeps
// trees in preorder, for then every root-to-leaf path is a few runs of rows.
//
// Pure functions. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculation/drafter.h"

namespace firesteel {

inline bool IsTree(const Draft& draft) { return !draft.parents.empty(); }

// REQUIRES: preorder.
inline bool BeginsBranch(const Draft& tree, size_t node) {
  return node > 0 && tree.parents[node] != static_cast<int32_t>(node) - 1;
}

// Levels below the anchor: as many as tokens for a chain.
int32_t DepthOf(const Draft& draft);
// The same for each node of a tree: 0 for the children of the anchor.
void LevelsOf(const Draft& tree, std::vector<int32_t>* levels);

// The child of `parent` with this token; -1: none.
int32_t ChildOf(std::span<const int32_t> tokens, std::span<const int32_t> parents, int32_t parent,
                int32_t token);
bool HasChild(const Draft& draft, int32_t parent);

// Leaves `nodes` alone, in this order: each once, its parent before it. A tree that has become a
// chain says so: its parents are empty.
void KeepNodes(std::span<const int32_t> nodes, Draft* tree);
// Children of a node stay in their order.
void ToPreorder(Draft* tree);

}  // namespace firesteel
