// Random trees for tests: right on one path, as far as they are told to be, and wrong elsewhere.
#pragma once

#include <cstdint>
#include <span>

#include "speculation/drafter.h"

namespace firesteel {

struct FakeTreeOptions {
  int32_t nodes = 0;
  int32_t depth = 0;
  int32_t right = 0;  // levels of the right path
  int32_t vocab = 0;
  bool confidence = false;  // any, in (0, 1)
};

// `says`: what the target will say at each level. The first `right` are a path of the tree, the
// next does not follow it. Parents precede their children, in no other order. Fewer nodes where
// there is no room for more.
Draft FakeTree(const FakeTreeOptions& options, std::span<const int32_t> says, uint64_t seed);

// Breaks one promise of Draft, or asks for too much.
void SpoilTree(uint64_t seed, Draft* tree);

}  // namespace firesteel
