// DSpark (arXiv 2607.05147): a block drafter with a Markov head, which draws the block's tokens one
// behind the other, and a confidence head, which says how far they are worth verifying.
#include "speculation/block_drafter_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {

Result<std::unique_ptr<Drafter>> MakeDspark(const DrafterContext& context) {
  return MakeBlockDrafter(context, "dspark");
}

}  // namespace firesteel
