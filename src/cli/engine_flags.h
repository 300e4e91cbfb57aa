// The flags that describe an engine, shared by `serve` and `generate`, and what they mean for
// EngineOptions.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"
#include "firesteel/options.h"
#include "firesteel/status.h"

namespace firesteel {

// `spec_methods` are the names that this build has (speculation/drafters.h); others and what would
// change results but is not here yet are refused.
std::vector<FlagSpec> EngineFlags(const std::vector<std::string>& spec_methods);

// Fills options.model from the positional MODEL (or --model), else leaves it empty. Appends lines
// for stderr to *notes. kInvalidArgument names the flag, what it is, and what was expected.
Result<EngineOptions> ReadEngineFlags(const FlagValues& values,
                                      const std::vector<std::string>& spec_methods,
                                      std::vector<std::string>* notes);

}  // namespace firesteel
