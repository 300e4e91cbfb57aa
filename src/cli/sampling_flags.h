// The flags of `generate` that become SamplingParams.
#pragma once

#include <vector>

#include "cli/flag_table.h"
#include "firesteel/request.h"
#include "firesteel/status.h"

namespace firesteel {

std::vector<FlagSpec> SamplingFlags();
Result<SamplingParams> ReadSamplingFlags(const FlagValues& values);

}  // namespace firesteel
