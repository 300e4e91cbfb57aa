// Does a drafter checkpoint belong to a target? Decided by the two configurations, before anything
// is loaded.
#pragma once

#include <string>

#include "base/json.h"
#include "firesteel/status.h"
#include "model/config.h"

namespace firesteel {

// Ok when it fits; kInvalidArgument says which field differs and what the target has. `drafter` is
// the drafter's config.json, `where` names it.
Status CheckDrafterFits(const DecoderConfig& target, const Json& drafter, const std::string& where);

}  // namespace firesteel
