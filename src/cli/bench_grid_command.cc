#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "analysis/analysis.h"
#include "analysis/import.h"
#include "analysis/report.h"
#include "base/mapped_file.h"
#include "bench/grid.h"
#include "bench/grid_config.h"
#include "bench/yaml.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "cli/signal_watcher.h"
#include "report/html_report.h"

namespace firesteel {
namespace {

constexpr char kDefaultGrid[] = "grids/demo.yaml";
constexpr char kDefaultOutput[] = "out/grid";

// The page over all cells that have a result.
Status WriteReport(const GridConfig& config, Language language, const std::string& output_dir) {
  FS_ASSIGN(Results results, ImportResults({output_dir + "/cells"}));
  AnalysisOptions options;
  options.baseline = config.configurations.front().name;
  FS_ASSIGN(const Analysis analysis, Analyze(std::move(results), std::move(options)));
  return WriteFileAtomically(output_dir + "/report.html",
                             RenderHtml(BuildReport(analysis, language)));
}

Status RunTheGrid(const FlagValues& values, std::string* complaint) {
  const std::string file = values.positional.empty() ? kDefaultGrid : values.positional;
  FS_ASSIGN(Json document, ReadYaml(file));
  for (const char* key : {"tokenizer", "lengths"}) {
    const std::string flag = fmt::format("--{}", key);
    if (values.Has(flag) && document.is_object()) document[key] = values.Text(flag);
  }
  FS_ASSIGN(const GridConfig config, ParseGridConfig(document, file));
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Internal(fmt::format("/proc/self/exe: {}", error.message()));

  GridRun run;
  run.binary = binary.string();
  run.output_dir = values.Has("--output") ? values.Text("--output") : kDefaultOutput;
  FS_TRY(values.ReadSwitch("--restart", &run.restart));
  bool dry_run = false;
  FS_TRY(values.ReadSwitch("--dry-run", &dry_run));
  std::string language = "en";
  FS_TRY(values.ReadChoice("--lang", {"en", "zh"}, &language));
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
  FS_TRY(WriteReport(config, *ParseLanguage(language), run.output_dir));
  fmt::print("{0}wrote {1}/summary.json\nwrote {1}/report.html\n", FormatGridReport(report),
             run.output_dir);
  if (!report.AllIdsEqual())
    *complaint = "output ids differ between cells, see the lines above";
  else if (!report.failures.empty())
    *complaint = fmt::format("{} failures, see the lines above", report.failures.size());
  else if (!report.voids.empty())
    *complaint = fmt::format("void runs: {}, see the lines above", report.voids.size());
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
                {"--tokenizer", FlagKind::kValue, "DIR", "the model's",
                 "makes the prompts of random data sets, in place of the file's tokenizer"},
                {"--lengths", FlagKind::kValue, "HOW", "the file's",
                 "lengths of random data sets: uniform, bound or mean"},
                {"--lang", FlagKind::kValue, "LANGUAGE", "en", "language of the report: en or zh"},
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
  const Status status = RunTheGrid(values, &complaint);
  if (!status.ok()) return FinishCommand(command, status);
  if (complaint.empty()) return kExitOk;
  fmt::print(stderr, "firesteel bench grid: {}\n", complaint);
  return kExitFailed;
}

}  // namespace firesteel
