#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "bench/grid.h"
#include "bench/grid_config.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "cli/signal_watcher.h"

namespace firesteel {
namespace {

constexpr char kDefaultGrid[] = "grids/demo.yaml";
constexpr char kDefaultOutput[] = "out/grid";

Status Run(const FlagValues& values, std::string* complaint) {
  FS_ASSIGN(const GridConfig config,
            ReadGridConfig(values.positional.empty() ? kDefaultGrid : values.positional));
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Internal(fmt::format("/proc/self/exe: {}", error.message()));

  GridRun run;
  run.binary = binary.string();
  run.output_dir = values.Has("--output") ? values.Text("--output") : kDefaultOutput;
  FS_TRY(values.ReadSwitch("--restart", &run.restart));
  bool dry_run = false;
  FS_TRY(values.ReadSwitch("--dry-run", &dry_run));
  FS_ASSIGN(const std::string plan, DescribeGrid(config, run));
  if (dry_run) {
    fmt::print("{}", plan);
    return {};
  }
  fmt::print(stderr, "{}", plan);

  std::atomic<bool> stop = false;
  SignalWatcher signals([&](int times) {
    // Servers die with this process.
    if (times > 1) std::_Exit(kExitFailed);
    stop = true;
  });
  ProgressBar bar = ProgressBar::ToStderr();
  run.progress = [&](const std::string& phase, double fraction) { bar.Update(phase, fraction); };
  run.stop = &stop;
  FS_ASSIGN(const GridReport report, RunGrid(config, run));
  bar.Finish();
  fmt::print("{}wrote {}/summary.json\n", FormatGridReport(report), run.output_dir);
  if (!report.AllIdsEqual())
    *complaint = "output ids differ between cells, see the lines above";
  else if (!report.failures.empty())
    *complaint = fmt::format("{} failures, see the lines above", report.failures.size());
  return {};
}

}  // namespace

CommandSpec BenchGridCommandSpec() {
  return {
      .name = "bench grid",
      .summary =
          "Compare configurations of the server at several levels of concurrency, and check that "
          "their outputs agree",
      .positional = "FILE",
      .positional_help = fmt::format("what to compare, as YAML [default: {}]", kDefaultGrid),
      .flags = {{"--output",
                 FlagKind::kValue,
                 "DIR",
                 kDefaultOutput,
                 "where results go; what is there already is not measured again",
                 {"-o"}},
                {"--dry-run", FlagKind::kSwitch, "", "", "print what would be measured, and stop"},
                {"--restart", FlagKind::kSwitch, "", "",
                 "set former results aside and measure all of it"}},
      .has_config = false};
}

int BenchGridCommand(const std::vector<std::string>& args) {
  const CommandSpec command = BenchGridCommandSpec();
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, args, &values)) return *exit_code;
  std::string complaint;
  const Status status = Run(values, &complaint);
  if (!status.ok()) return FinishCommand(command, status);
  if (complaint.empty()) return kExitOk;
  fmt::print(stderr, "firesteel bench grid: {}\n", complaint);
  return kExitFailed;
}

}  // namespace firesteel
