// DFlash (arXiv 2602.06036): a block drafter whose tokens are drawn each by itself. Two conventions
// go by this name: z-lab's, whose rows predict their own positions, and DeepSpec's, which is DSpark
// without its heads. The checkpoint tells which it is.
#include "speculation/block_drafter_internal.h"
#include "speculation/make_internal.h"

namespace firesteel {

Result<std::unique_ptr<Drafter>> MakeDflash(const DrafterContext& context) {
  return MakeBlockDrafter(context, "dflash");
}

}  // namespace firesteel
