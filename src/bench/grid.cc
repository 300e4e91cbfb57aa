#include "bench/grid.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "bench/child_process.h"
#include "bench/workload.h"
#include "net/http_client.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

constexpr auto kWaitInterval = std::chrono::milliseconds(20);
constexpr int64_t kStopTimeoutMs = 20'000;

bool Stopped(const GridRun& run) { return run.stop != nullptr && *run.stop; }

// The last line that is not blank, "" when there is none.
std::string LastLine(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) return "";
  const size_t end = text->find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const size_t begin = text->rfind('\n', end);
  return text->substr(begin == std::string::npos ? 0 : begin + 1,
                      end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

struct RunningServer {
  std::unique_ptr<ChildProcess> process;
  ServerBanner banner;
};

bool IsHealthy(const std::string& base_url) {
  HttpCall call;
  call.url = base_url + "/health";
  call.timeout_ms = 5'000;
  const auto response = HttpClient::Fetch(std::move(call));
  return response.ok() && response->status == 200;
}

Result<RunningServer> StartServer(const GridConfig& config, const GridConfiguration& configuration,
                                  const GridRun& run, const std::string& log_stem) {
  std::vector<std::string> argv = {run.binary, "serve"};
  if (!config.model.empty()) argv.push_back(config.model);
  argv.insert(argv.end(), {"--host", "127.0.0.1", "--port", "0"});
  argv.insert(argv.end(), config.server_flags.begin(), config.server_flags.end());
  argv.insert(argv.end(), configuration.flags.begin(), configuration.flags.end());
  const std::string out = log_stem + ".stdout";
  const std::string err = log_stem + ".stderr";
  RunningServer server;
  FS_ASSIGN(server.process, ChildProcess::Start(argv, out, err));

  const int64_t deadline_ns = Clock::Real().NowNs() + config.start_timeout_s * 1'000'000'000;
  for (;;) {
    if (Stopped(run)) return Cancelled("the grid was interrupted");
    if (const auto end = server.process->Ended()) {
      return Internal(fmt::format("the server of {} ended with {} while starting: {}",
                                  configuration.name, *end, LastLine(err)));
    }
    FS_ASSIGN(const std::string text, ReadFile(out));
    if (const auto banner = ParseBanner(text); banner && IsHealthy(banner->url)) {
      server.banner = *banner;
      return server;
    }
    if (Clock::Real().NowNs() > deadline_ns) {
      return Unavailable(fmt::format("the server of {} was not ready after {} s, see {}",
                                     configuration.name, config.start_timeout_s, err));
    }
    std::this_thread::sleep_for(kWaitInterval);
  }
}

Status MakeDirectories(const std::string& output_dir) {
  for (const char* name : {"cells", "logs"}) {
    std::error_code error;
    fs::create_directories(fs::path(output_dir) / name, error);
    if (error)
      return NotFound(fmt::format("{}/{}: cannot be made: {}", output_dir, name, error.message()));
  }
  return {};
}

class GridRunner {
 public:
  GridRunner(const GridConfig& config, const GridRun& run, std::vector<Prompt> prompts)
      : config_(config), run_(run), prompts_(std::move(prompts)) {
    for (const GridConfiguration& configuration : config.configurations) {
      for (const GridLevel& level : config.levels) {
        report_.cells.push_back(
            {.configuration = configuration.name, .concurrency = level.concurrency});
      }
    }
  }

  Result<GridReport> Run() {
    for (int32_t repeat = 0; repeat < config_.repeats; ++repeat) {
      for (size_t c = 0; c < config_.configurations.size(); ++c)
        FS_TRY(MeasureConfiguration(c, repeat));
    }
    FS_TRY(WriteFileAtomically(run_.output_dir + "/summary.json",
                               DumpJson(GridSummaryJson(report_), 2) + "\n"));
    return std::move(report_);
  }

 private:
  void Progress(const std::string& phase, double part_of_cell) const {
    if (!run_.progress) return;
    const double total = static_cast<double>(report_.cells.size()) * config_.repeats;
    run_.progress(phase, (static_cast<double>(cells_done_) + part_of_cell) / total);
  }

  Status MeasureConfiguration(size_t c, int32_t repeat) {
    const GridConfiguration& configuration = config_.configurations[c];
    const std::string name =
        fmt::format("{}, repeat {} of {}", configuration.name, repeat + 1, config_.repeats);
    Progress(name + ": starting the server", 0);
    const std::string log_stem =
        fmt::format("{}/logs/{}-r{}", run_.output_dir, configuration.name, repeat + 1);
    FS_ASSIGN(const RunningServer server, StartServer(config_, configuration, run_, log_stem));
    for (size_t l = 0; l < config_.levels.size(); ++l) {
      GridCell& cell = report_.cells[c * config_.levels.size() + l];
      cell.server = server.banner;
      FS_TRY(MeasureCell(config_.levels[l], repeat, name, &cell));
      ++cells_done_;
    }
    return server.process->Terminate(kStopTimeoutMs);
  }

  Status MeasureCell(const GridLevel& level, int32_t repeat, const std::string& name,
                     GridCell* cell) {
    LoadGeneratorOptions options;
    options.base_url = cell->server.url;
    options.model = cell->server.model;
    options.max_concurrency = level.concurrency;
    options.output_len = config_.max_tokens;
    options.num_warmups = config_.warmups;
    options.extra_body = config_.request;
    const int32_t count =
        level.num_prompts > 0 ? level.num_prompts : static_cast<int32_t>(prompts_.size());
    const std::string phase = fmt::format("{}, concurrency {}", name, level.concurrency);
    Progress(phase, 0);
    const LoadProgress progress = [&](size_t finished, size_t total, size_t) {
      Progress(phase, static_cast<double>(finished) / static_cast<double>(total));
    };
    FS_ASSIGN(const LoadResult result,
              RunLoad(options, SelectPrompts(prompts_, count, std::nullopt), progress, run_.stop));
    cell->runs.push_back(ComputeServeMetrics(result));
    identity_.Add(result.records, cell);
    Json raw = ServeResultJson(options, result, cell->runs.back(), /*detailed=*/true);
    raw["configuration"] = cell->configuration;
    raw["repeat"] = repeat + 1;
    raw["spec_method"] = cell->server.spec_method;
    raw["spec_tokens"] = cell->server.spec_tokens;
    raw["target_step_bytes"] = cell->server.target_bytes;
    raw["ballast_bytes"] = cell->server.ballast_bytes;
    raw["draft_pass_bytes"] = cell->server.draft_bytes;
    return WriteFileAtomically(fmt::format("{}/cells/{}-c{}-r{}.json", run_.output_dir,
                                           cell->configuration, level.concurrency, repeat + 1),
                               DumpJson(raw, 1) + "\n");
  }

  const GridConfig& config_;
  const GridRun& run_;
  const std::vector<Prompt> prompts_;
  GridReport report_;
  IdentityCheck identity_;
  size_t cells_done_ = 0;
};

}  // namespace

Result<GridReport> RunGrid(const GridConfig& config, const GridRun& run) {
  FS_ASSIGN(std::vector<Prompt> prompts, ReadPrompts(config.prompts));
  FS_TRY(MakeDirectories(run.output_dir));
  return GridRunner(config, run, std::move(prompts)).Run();
}

}  // namespace firesteel
