// The three spellings of speculation: ours (--spec-method …), vLLM's --speculative-config JSON,
// SGLang's
// --speculative-algorithm. One command line uses one of them.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"
#include "firesteel/options.h"
#include "firesteel/status.h"

namespace firesteel {

std::vector<FlagSpec> SpeculationFlags(const std::vector<std::string>& spec_methods);

// `model` is the target's path: a drafter may live in its checkpoint. Appends lines for stderr to
// *notes.
Result<SpeculationOptions> ReadSpeculationFlags(const FlagValues& values,
                                                const std::vector<std::string>& spec_methods,
                                                const std::string& model,
                                                std::vector<std::string>* notes);

// "4" or "4:49152". kInvalidArgument names the flag. Leaves both alone when the flag was not given.
Status ReadBallast(const FlagValues& values, const std::string& flag, int32_t* layers,
                   int32_t* width);

}  // namespace firesteel
