// The demo model that comes with the program.
#pragma once

#include <string>

#include "firesteel/options.h"
#include "firesteel/status.h"

namespace firesteel {

// `relative` ("demo/target") below $FIRESTEEL_MODELS, models/ beside the build that this binary
// belongs to, /usr/share/firesteel/models or ./models. kNotFound names the places.
Result<std::string> FindBundledModel(const std::string& relative);

// Fills an empty options.model with the demo target. `spec_given` says whether the command line
// spoke about speculation; if not, or if it asks for DSpark without a drafter, the demo drafter is
// taken.
Status UseDemoModel(bool spec_given, EngineOptions* options);

}  // namespace firesteel
