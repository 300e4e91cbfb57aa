#include "bench/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/machine.h"
#include "base/mapped_file.h"
#include "bench/grid_measure.h"
#include "bench/grid_plan.h"
#include "bench/grid_server.h"
#include "bench/grid_store.h"
#include "bench/grid_work.h"
#include "firesteel/version.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

constexpr int kFailuresInARow = 3;  // of a configuration, before the rest of it is given up

// Size and time of the program: what was measured with another build is measured again.
std::string IdentityOf(const std::string& binary) {
  std::error_code error;
  const auto size = fs::file_size(binary, error);
  if (error) return binary;
  const auto time = fs::last_write_time(binary, error);
  return fmt::format("{} {} {}", kVersion, size, time.time_since_epoch().count());
}

struct PreparedGrid {
  std::vector<GridWork> works;  // by scenario
  std::vector<PlannedCell> plan;
};

Result<PreparedGrid> Prepare(const GridConfig& config, const std::string& binary) {
  PreparedGrid prepared;
  GridIdentity identity;
  identity.binary = IdentityOf(binary);
  for (const GridScenario& scenario : config.scenarios) {
    FS_ASSIGN(GridWork work, GridWork::Load(config, scenario));
    identity.scenario_work.push_back(work.hash());
    prepared.works.push_back(std::move(work));
  }
  prepared.plan = PlanGrid(config, identity);
  if (prepared.plan.empty()) return InvalidArgument("the grid has no cell: everything is excluded");
  return prepared;
}

class GridRunner {
 public:
  GridRunner(const GridConfig& config, const GridRun& run, PreparedGrid prepared, GridStore store)
      : config_(config), run_(run), prepared_(std::move(prepared)), store_(std::move(store)) {}

  Result<GridReport> Run() {
    FS_TRY(WriteEnvironment());
    for (const PlannedCell& cell : prepared_.plan) {
      if (run_.restart) FS_TRY(store_.SetAside(cell));
      const bool measured = store_.Find(cell).has_value();
      measured_.push_back(measured);
      done_ += measured ? 1 : 0;
    }
    report_.measured_before = done_;
    // Cells of one server stand side by side in the plan.
    for (size_t begin = 0; begin < prepared_.plan.size();) {
      size_t end = begin + 1;
      while (end < prepared_.plan.size() && SameServer(begin, end)) ++end;
      FS_TRY(MeasureServer(begin, end));
      begin = end;
    }
    FS_TRY(CollectReport());
    FS_TRY(WriteFileAtomically(run_.output_dir + "/summary.json",
                               DumpJson(GridSummaryJson(report_), 2) + "\n"));
    return std::move(report_);
  }

 private:
  bool SameServer(size_t a, size_t b) const {
    return prepared_.plan[a].configuration == prepared_.plan[b].configuration &&
           prepared_.plan[a].repeat == prepared_.plan[b].repeat;
  }

  void Progress(const std::string& phase, double part_of_cell) const {
    if (!run_.progress) return;
    run_.progress(phase, (static_cast<double>(done_) + part_of_cell) /
                             static_cast<double>(prepared_.plan.size()));
  }

  bool Stopped() const { return run_.stop != nullptr && *run_.stop; }

  Status WriteEnvironment() const {
    Json configurations = Json::array();
    for (const GridConfiguration& c : config_.configurations) {
      Json json = {{"name", c.name}};
      if (c.is_ours())
        json["flags"] = WithoutSecrets(c.flags);
      else
        json["url"] = c.url;
      if (!c.command.empty()) json["command"] = WithoutSecrets(c.command);
      configurations.push_back(std::move(json));
    }
    const Json json = {{"firesteel_version", kVersion},
                       {"cpu", CpuName()},
                       {"cpus", NumCpus()},
                       {"memory_bytes", PhysicalMemoryBytes()},
                       {"kernel", KernelRelease()},
                       {"model", config_.model},
                       {"server_flags", WithoutSecrets(config_.server_flags)},
                       {"repeats", config_.repeats},
                       {"warmups", config_.warmups},
                       {"seed", config_.seed},
                       {"min_window_s", config_.min_window_s},
                       {"max_client_lag_ms", config_.max_client_lag_ms},
                       {"cells", prepared_.plan.size()},
                       {"configurations", std::move(configurations)}};
    return WriteFileAtomically(run_.output_dir + "/environment.json", DumpJson(json, 2) + "\n");
  }

  Status Fail(size_t i, const std::string& error) {
    const PlannedCell& cell = prepared_.plan[i];
    report_.failures.push_back(fmt::format("{}: {}", cell.path, error));
    return store_.PutFailure(cell, error);
  }

  // The cells [begin, end) that have no result yet.
  Status MeasureServer(size_t begin, size_t end) {
    size_t at = begin;
    while (at < end && measured_[at]) ++at;
    if (at == end) return {};
    const PlannedCell& first = prepared_.plan[at];
    const GridConfiguration& configuration = config_.configurations[first.configuration];
    const std::string name =
        fmt::format("{}, repeat {} of {}", configuration.name, first.repeat + 1, config_.repeats);
    Progress(name + ": starting the server", 0);
    Result<GridServer> server = GridServer::Start(
        config_, configuration, run_.binary,
        store_.LogStem(fmt::format("{}-r{}", configuration.name, first.repeat + 1)), run_.stop);
    if (!server.ok()) {
      if (server.status().code() == StatusCode::kCancelled) return server.status();
      return GiveUp(at, end, server.status().message());
    }
    int in_a_row = 0;
    for (; at < end; ++at) {
      if (measured_[at]) continue;
      const Status status = MeasureCell(at, name, *server);
      if (status.code() == StatusCode::kCancelled) return status;
      done_ += 1;
      if (status.ok()) {
        in_a_row = 0;
        continue;
      }
      FS_TRY(Fail(at, status.message()));
      if (++in_a_row >= kFailuresInARow)
        return GiveUp(at + 1, end, fmt::format("left out after {} failures in a row", in_a_row));
      if (!server->IsHealthy())
        return GiveUp(at + 1, end, "left out: the server is not healthy any more");
    }
    const Status ended = server->Stop();
    if (!ended.ok()) report_.failures.push_back(fmt::format("{}: {}", name, ended.message()));
    return {};
  }

  Status GiveUp(size_t begin, size_t end, const std::string& why) {
    for (size_t i = begin; i < end; ++i) {
      if (measured_[i]) continue;
      done_ += 1;
      FS_TRY(Fail(i, why));
    }
    return {};
  }

  Status MeasureCell(size_t i, const std::string& name, const GridServer& server) {
    const PlannedCell& cell = prepared_.plan[i];
    const GridScenario& scenario = config_.scenarios[cell.scenario];
    const std::string phase =
        fmt::format("{}{}{}, concurrency {}", name, scenario.name.empty() ? "" : ", ",
                    scenario.name, scenario.levels[cell.level].concurrency);
    Progress(phase, 0);
    FS_ASSIGN(Json result, MeasureGridCell(
                               config_, cell, prepared_.works[cell.scenario], server,
                               [&](double part) { Progress(phase, part); }, run_.stop));
    if (Stopped()) return Cancelled("the grid was interrupted");
    return store_.Put(cell, std::move(result));
  }

  // From the stored results alone, in the order of the first repeat, so that a grid which was
  // interrupted says what an uninterrupted one says.
  Status CollectReport() {
    std::vector<const PlannedCell*> cells;
    for (const PlannedCell& cell : prepared_.plan) cells.push_back(&cell);
    std::stable_sort(cells.begin(), cells.end(), [](const PlannedCell* a, const PlannedCell* b) {
      return std::tie(a->repeat, a->configuration, a->scenario, a->level) <
             std::tie(b->repeat, b->configuration, b->scenario, b->level);
    });
    std::map<std::tuple<size_t, size_t, size_t>, GridCell> found;  // scenario, configuration, level
    std::map<std::pair<size_t, std::string>, IdentityCheck> identity;  // scenario, model
    for (const PlannedCell* cell : cells) {
      const GridConfiguration& configuration = config_.configurations[cell->configuration];
      const GridScenario& scenario = config_.scenarios[cell->scenario];
      const std::optional<Json> result = store_.Find(*cell);
      if (!result) continue;
      FS_ASSIGN(StoredRun run, ReadGridCell(*result, cell->path));
      GridCell& out = found[{cell->scenario, cell->configuration, cell->level}];
      out.configuration = configuration.name;
      out.scenario = scenario.name;
      out.concurrency = scenario.levels[cell->level].concurrency;
      out.server = run.server;
      out.runs.push_back(std::move(run.metrics));
      for (const std::string& reason : run.void_reasons)
        report_.voids.push_back(fmt::format("{}: {}", cell->path, reason));
      out.ids_compared = configuration.is_ours() && IsRepeatable(scenario.request);
      if (out.ids_compared) {
        const std::string& model =
            configuration.model.empty() ? config_.model : configuration.model;
        identity[{cell->scenario, model}].Add(run.outputs, &out);
      }
    }
    for (auto& [key, cell] : found) report_.cells.push_back(std::move(cell));
    if (report_.cells.empty()) {
      return Internal(report_.failures.empty() ? "no cell was measured" : first_failure());
    }
    return {};
  }

  // Without the cell that the first failure names: the message stands alone.
  std::string first_failure() const {
    const std::string& text = report_.failures.front();
    return text.substr(text.find(": ") + 2);
  }

  // Whether every server of ours must give the same ids: not where each draws its own noise.
  static bool IsRepeatable(const Json& request) {
    const auto temperature = request.find("temperature");
    const bool greedy = temperature == request.end() || !temperature->is_number() ||
                        temperature->get<double>() == 0;
    return greedy || request.contains("seed");
  }

  const GridConfig& config_;
  const GridRun& run_;
  const PreparedGrid prepared_;
  GridStore store_;
  GridReport report_;
  std::vector<bool> measured_;  // by cell of the plan, when this start began
  size_t done_ = 0;
};

}  // namespace

Result<GridReport> RunGrid(const GridConfig& config, const GridRun& run) {
  FS_ASSIGN(PreparedGrid prepared, Prepare(config, run.binary));
  FS_ASSIGN(GridStore store, GridStore::Open(run.output_dir));
  return GridRunner(config, run, std::move(prepared), std::move(store)).Run();
}

Result<std::string> DescribeGrid(const GridConfig& config, const GridRun& run) {
  FS_ASSIGN(const PreparedGrid prepared, Prepare(config, run.binary));
  std::vector<size_t> num_prompts;
  for (const GridWork& work : prepared.works) num_prompts.push_back(work.num_prompts());
  size_t done = 0;
  if (fs::exists(run.output_dir) && !run.restart) {
    FS_ASSIGN(const GridStore store, GridStore::Open(run.output_dir));
    for (const PlannedCell& cell : prepared.plan) done += store.Find(cell).has_value() ? 1 : 0;
  }
  return FormatGridPlan(config, prepared.plan, num_prompts, done);
}

}  // namespace firesteel
