// What drafters.cc and the drafters' own files share.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "firesteel/status.h"
#include "speculation/drafters.h"

namespace firesteel {

Result<std::unique_ptr<Drafter>> MakeNone(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeNgram(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeSuffix(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeDraftModel(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeMedusa(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeDspark(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeDflash(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeEagle(const DrafterContext& context);
Result<std::unique_ptr<Drafter>> MakeEagle3(const DrafterContext& context);

// What a drafter's config.json says that it is.
struct CheckpointKind {
  std::string key;    // the field that says so: speculators_model_type, architecture, dflash_config
  std::string value;  // of the field; "" of dflash_config, which says it by being there
  std::string method;  // what auto reads it with; "" when no drafter does
};
Result<CheckpointKind> IdentifyCheckpoint(const Json& config, const std::string& where);
// kUnsupported: `method` does not read such a checkpoint; names the one that does, or what is read.
Status WrongCheckpoint(const CheckpointKind& kind, std::string_view method,
                       const std::string& where);

}  // namespace firesteel
