#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "base/mapped_file.h"
#include "bench/load_generator.h"
#include "bench/serve_report.h"
#include "bench/workload.h"
#include "cli/bench_serve_flags.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "cli/signal_watcher.h"

namespace firesteel {
namespace {

Status Run(const FlagValues& values) {
  FS_ASSIGN(const BenchServeOptions options, ReadBenchServeFlags(values));
  FS_ASSIGN(const std::vector<Prompt> file, ReadPrompts(options.dataset_path));
  const int32_t count =
      options.num_prompts > 0 ? options.num_prompts : static_cast<int32_t>(file.size());
  const std::vector<Prompt> prompts = SelectPrompts(file, count, options.shuffle_seed);
  LoadOptions load = options.load;
  if (load.max_concurrency == 0) load.max_concurrency = count;

  std::atomic<bool> stop = false;
  SignalWatcher signals([&](int times) {
    if (times > 1) std::_Exit(kExitFailed);
    stop = true;
  });
  ProgressBar bar = ProgressBar::ToStderr();
  const LoadProgress progress = [&](size_t finished, size_t total, size_t failed) {
    std::string detail = fmt::format("{} of {} requests", finished, total);
    if (failed > 0) detail += fmt::format(", {} failed", failed);
    bar.Update("measuring", static_cast<double>(finished) / static_cast<double>(total), detail);
  };
  FS_ASSIGN(const LoadResult result, RunLoad(load, prompts, progress, &stop));
  bar.Finish();
  PrintNotes(result.notes);
  const ServeMetrics metrics = ComputeServeMetrics(result);
  fmt::print("{}", FormatServeTable(metrics, load.max_concurrency));
  if (!options.output_file.empty()) {
    const Json json = ServeResultJson(load, result, metrics, options.save_detailed);
    FS_TRY(WriteFileAtomically(options.output_file, DumpJson(json, 2) + "\n"));
    fmt::print("wrote {}\n", options.output_file);
  }
  if (metrics.completed == 0)
    return Unavailable(fmt::format("all {} requests failed", metrics.failed));
  return {};
}

}  // namespace

CommandSpec BenchServeCommandSpec() {
  return {.name = "bench serve",
          .summary =
              "Measure any OpenAI-compatible server: a fixed number of streamed requests in flight",
          .positional = "",
          .positional_help = "",
          .flags = BenchServeFlags()};
}

int BenchServeCommand(const std::vector<std::string>& args) {
  const CommandSpec command = BenchServeCommandSpec();
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, args, &values)) return *exit_code;
  return FinishCommand(command, Run(values));
}

}  // namespace firesteel
