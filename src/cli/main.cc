#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "base/option_map.h"
#include "cli/commands.h"
#include "firesteel/version.h"

namespace firesteel {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

constexpr std::array<Command, 6> kCommands = {{
    {"serve", "serve a model over HTTP; without MODEL, the bundled demo model", ServeCommand},
    {"generate", "one prompt to the terminal, or a conversation", GenerateCommand},
    {"inspect", "what a checkpoint is, and whether a drafter fits it", InspectCommand},
    {"bench serve", "measure any OpenAI-compatible server", BenchServeCommand},
    {"bench grid", "compare configurations of the server and check that their outputs agree",
     BenchGridCommand},
    {"report", "analyse results: ours, vLLM's and SGLang's", ReportCommand},
}};

std::string Help() {
  std::string text = "usage: firesteel COMMAND [ARGUMENTS]\n\n";
  for (const Command& command : kCommands)
    text += fmt::format("  {:<14}{}\n", command.name, command.summary);
  text += fmt::format("  {:<14}{}\n\n", "version", "print the version");
  return text + "firesteel COMMAND --help lists a command's flags with their defaults.\n";
}

int Usage(const std::string& message) {
  fmt::print(stderr, "firesteel: {}\n", message);
  return kExitUsage;
}

int Unknown(const std::string& name) {
  std::vector<std::string> known = {"version"};
  for (const Command& command : kCommands) known.emplace_back(command.name);
  const std::string nearest = NearestName(name, known);
  return Usage(fmt::format(
      "unknown command {}{}", name,
      nearest.empty() ? ", see firesteel --help" : fmt::format(", did you mean {}?", nearest)));
}

int Main(std::vector<std::string> args) {
  if (args.empty()) {
    fmt::print(stderr, "{}", Help());
    return kExitUsage;
  }
  std::string name = args.front();
  args.erase(args.begin());
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", Help());
    return kExitOk;
  }
  if (name == "version" || name == "--version") {
    fmt::print("firesteel {}\n", kVersion);
    return kExitOk;
  }
  if (name == "bench") {
    if (args.empty() || args.front() == "--help" || args.front() == "-h") {
      fmt::print(args.empty() ? stderr : stdout, "{}", Help());
      return args.empty() ? kExitUsage : kExitOk;
    }
    name += " " + args.front();
    args.erase(args.begin());
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(args);
  }
  return Unknown(name);
}

// Weights are read through mappings; a page that the file no longer has is told by this signal.
void OnBusError(int number, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {
    std::signal(number, SIG_DFL);  // the instruction runs again and ends the process
    return;
  }
  static constexpr char kMessage[] =
      "firesteel: a file of the checkpoint was cut short while it was in use\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(kExitFailed);
}

void EndCleanlyWhenAFileShrinks() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace
}  // namespace firesteel

int main(int argc, char** argv) {
  // A reader of our output, or a client, that goes away is an error to handle, not a reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // nor is a limit to the size of files
  firesteel::EndCleanlyWhenAFileShrinks();
  return firesteel::Main({argv + 1, argv + argc});
}
