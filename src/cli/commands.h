// The commands of the binary. Each takes the arguments behind its name and returns the process's
// exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/server_banner.h"
#include "cli/flag_table.h"
#include "firesteel/engine.h"
#include "firesteel/options.h"
#include "firesteel/status.h"

namespace firesteel {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int ServeCommand(const std::vector<std::string>& args);
int GenerateCommand(const std::vector<std::string>& args);
int InspectCommand(const std::vector<std::string>& args);
int BenchServeCommand(const std::vector<std::string>& args);
int BenchGridCommand(const std::vector<std::string>& args);
int ReportCommand(const std::vector<std::string>& args);

// Tables, for --help and for tests.
CommandSpec ServeCommandSpec();
CommandSpec GenerateCommandSpec();
CommandSpec InspectCommandSpec();
CommandSpec BenchServeCommandSpec();
CommandSpec BenchGridCommandSpec();
CommandSpec ReportCommandSpec();

// Parses; prints --help, or the error as "firesteel <command>: <message>". nullopt: go on with
// *values; else exit with it.
std::optional<int> BeginCommand(const CommandSpec& command, const std::vector<std::string>& args,
                                FlagValues* values);

// Prints the error of a command, if there is one. 0, 1, or 2 for kInvalidArgument.
int FinishCommand(const CommandSpec& command, const Status& status);

// One line each on stderr.
void PrintNotes(const std::vector<std::string>& notes);

// Names of this build's drafters.
std::vector<std::string> SpecMethods();

// What is wrong with a model or its files is no wrong usage: kInvalidArgument of Engine::Load
// becomes kDataCorrupt.
Status AsModelFault(const Status& status);

// Engine options from the flags, the demo model where none is named; prints the notes.
Result<EngineOptions> EngineOptionsFrom(const FlagValues& values);

// What the engine reads and how it speculates, with `url` for a server.
ServerBanner BannerOf(const ModelSummary& summary, const std::string& url);

}  // namespace firesteel
