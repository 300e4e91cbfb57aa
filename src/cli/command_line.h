// Turns arguments into FlagValues by a command's table. CLI11 stays inside.
#pragma once

#include <string>
#include <vector>

#include "cli/flag_table.h"
#include "firesteel/status.h"

namespace firesteel {

// `args` without program and command name. Underscores in flag names count as dashes. Values of
// --config FILE.yaml stand below those of the command line. kInvalidArgument for anything wrong:
// "unknown flag --foo, did you mean --food?".
Result<FlagValues> ParseCommandLine(const CommandSpec& command,
                                    const std::vector<std::string>& args);

// The command with --config, where it has one.
CommandSpec WithConfigFlag(CommandSpec command);

// The text of `firesteel <command> --help`, with every default.
std::string CommandHelp(const CommandSpec& command);

}  // namespace firesteel
