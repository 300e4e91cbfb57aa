// Reading of grid files, shared by the parts that read them.
#pragma once

#include <string>
#include <vector>

#include "bench/grid_config.h"

namespace firesteel {

// kInvalidArgument for what is no mapping and for keys that are not known.
Status CheckGridKeys(const Json& object, const std::vector<std::string>& known,
                     const std::string& where);
Result<int64_t> GridInt(const Json& object, const char* key, int64_t fallback, int64_t lo,
                        int64_t hi, const std::string& where);
Result<double> GridDouble(const Json& object, const char* key, double fallback, double lo,
                          double hi, const std::string& where);
// A name that becomes part of file names.
Result<std::string> GridName(const Json& object, const std::string& where);

// Keys of a scenario; at the top of the file they are every scenario's defaults.
const std::vector<std::string>& GridScenarioKeys();
// `document["scenarios"]`, or the one scenario that the top of the file is.
Result<std::vector<GridScenario>> ParseGridScenarios(const Json& document,
                                                     const std::string& where);

}  // namespace firesteel
