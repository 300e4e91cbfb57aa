// The flags of `serve` that describe the server around the engine.
#pragma once

#include <vector>

#include "cli/flag_table.h"
#include "firesteel/status.h"
#include "server/server.h"

namespace firesteel {

std::vector<FlagSpec> ServerFlags();

// --chat-template names a file or is the template itself. kNotFound for a file that is not there.
Result<ServerOptions> ReadServerFlags(const FlagValues& values);

}  // namespace firesteel
