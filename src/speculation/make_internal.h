// What drafters.cc and the drafters' own files share.
#pragma once

#include <memory>

#include "firesteel/status.h"
#include "speculation/drafters.h"

namespace firesteel {

Result<std::unique_ptr<Drafter>> MakeNone(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeNgram(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeSuffix(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeDraftModel(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeMedusa(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeDspark(const DrafterContext& context);

}  // namespace firesteel
