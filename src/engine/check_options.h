// Checks EngineOptions before anything is loaded.
#pragma once

#include "firesteel/options.h"
#include "firesteel/status.h"

namespace firesteel {

// kInvalidArgument names the option, what was given and what was expected.
Status CheckOptions(const EngineOptions& options);

}  // namespace firesteel
