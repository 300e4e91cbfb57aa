#include "bench/grid_measure.h"

#include <fmt/format.h>

#include "bench/load_generator.h"
#include "bench/metrics_sampler.h"
#include "bench/run_result.h"
#include "bench/run_validity.h"
#include "bench/serve_report.h"

namespace firesteel {
namespace {

void AddServer(const GridServer& server, Json* json) {
  const ServerBanner& banner = server.banner();
  (*json)["spec_method"] = banner.spec_method;
  (*json)["spec_tokens"] = banner.spec_tokens;
  (*json)["target_step_bytes"] = banner.target_bytes;
  (*json)["ballast_bytes"] = banner.ballast_bytes;
  (*json)["draft_pass_bytes"] = banner.draft_bytes;
  (*json)["server"] = server.description();
}

Status ReadStatistics(const Json& json, const std::string& name, const std::string& where,
                      Statistics* statistics) {
  const auto read = [&](const char* what, double* value) -> Status {
    FS_ASSIGN(const auto found, GetDouble(json, fmt::format("{}_{}_ms", what, name), where));
    if (!found) return {};
    *value = *found;
    statistics->count = 1;
    return {};
  };
  FS_TRY(read("mean", &statistics->mean));
  FS_TRY(read("median", &statistics->median));
  FS_TRY(read("p95", &statistics->p95));
  return read("p99", &statistics->p99);
}

Status ReadSpeculation(const Json& json, const std::string& where, ServeMetrics* metrics) {
  FS_ASSIGN(const auto drafts, GetDouble(json, "spec_decode_num_drafts", where));
  if (!drafts) return {};
  SpecCounters counters;
  counters.drafts = *drafts;
  FS_ASSIGN(const auto drafted, GetDouble(json, "spec_decode_draft_tokens", where));
  FS_ASSIGN(const auto accepted, GetDouble(json, "spec_decode_accepted_tokens", where));
  counters.draft_tokens = drafted.value_or(0);
  counters.accepted_tokens = accepted.value_or(0);
  metrics->spec = counters;
  return {};
}

Result<std::vector<RequestRecord>> ReadOutputs(const Json& json, const std::string& where) {
  std::vector<RequestRecord> outputs;
  const auto requests = json.find("requests");
  if (requests == json.end() || !requests->is_array())
    return DataCorrupt(fmt::format("{}: requests is missing, expected a list", where));
  for (const Json& request : *requests) {
    RequestRecord record;
    FS_ASSIGN(const auto id, GetString(request, "id", where));
    FS_ASSIGN(const auto error, GetString(request, "error", where));
    FS_ASSIGN(const auto ids, GetIntList(request, "token_ids", where));
    record.prompt_id = id.value_or("");
    record.error = error.value_or("");
    if (ids) record.token_ids.emplace(ids->begin(), ids->end());
    outputs.push_back(std::move(record));
  }
  return outputs;
}

}  // namespace

Result<Json> MeasureGridCell(const GridConfig& config, const PlannedCell& cell,
                             const GridWork& work, const GridServer& server,
                             const std::function<void(double part)>& progress,
                             const std::atomic<bool>* stop) {
  const GridConfiguration& configuration = config.configurations[cell.configuration];
  const GridScenario& scenario = config.scenarios[cell.scenario];
  const GridLevel& level = scenario.levels[cell.level];
  FS_ASSIGN(Dataset dataset, work.PromptsAt(level));
  LoadGeneratorOptions options;
  options.base_url = server.banner().url;
  options.model = server.banner().model;
  options.api_key = server.api_key();
  options.max_concurrency = level.concurrency;
  options.output_len = scenario.max_tokens;
  options.num_warmups = config.WarmupsAt(level);
  options.warmup_prompts = std::move(dataset.warmups);
  options.flush_cache = config.cold_cache;
  options.extra_body = scenario.request;
  options.max_client_lag_ms = config.max_client_lag_ms;
  const auto ignore_eos = scenario.request.find("ignore_eos");
  options.ignore_eos = ignore_eos != scenario.request.end() && *ignore_eos == true;
  options.workload = {
      .dataset = scenario.is_random() ? "random-ids" : "jsonl",
      .rule = dataset.rule,
      .fingerprint = WorkloadFingerprint(dataset.prompts, {.api = ApiKindOfPath(options.endpoint),
                                                           .dialect = options.dialect,
                                                           .model = {},
                                                           .output_len = options.output_len,
                                                           .ignore_eos = options.ignore_eos,
                                                           .extra = options.extra_body}),
      .seed = dataset.seed,
      .synthetic_text = dataset.synthetic_text,
      .ignore_eos = options.ignore_eos};
  const LoadProgress on_progress = [&](size_t finished, size_t total, size_t) {
    if (progress) progress(static_cast<double>(finished) / static_cast<double>(total));
  };
  MetricsSampler sampler(options.base_url, options.api_key);
  const Result<LoadResult> load = RunLoad(options, dataset.prompts, on_progress, stop);
  const Json server_metrics = sampler.Finish();
  if (!load.ok()) return load.status();
  const ServeMetrics metrics = ComputeServeMetrics(*load);
  if (metrics.completed == 0) {
    return Unavailable(fmt::format("all {} requests failed, the first with: {}",
                                   load->records.size(),
                                   load->records.empty() ? "" : load->records.front().error));
  }
  const RunResult run = MakeRunResult(options, *load);
  Json json = ServeResultJson(options, *load, metrics, /*detailed=*/true, &run);
  json["configuration"] = configuration.name;
  if (!scenario.name.empty()) json["scenario"] = scenario.name;
  json["repeat"] = cell.repeat + 1;
  AddServer(server, &json);
  if (configuration.gpus) json["gpus"] = *configuration.gpus;
  if (!configuration.tags.empty()) json["tags"] = configuration.tags;
  json["num_warmups"] = options.num_warmups;
  json["max_tokens"] = scenario.max_tokens;
  json["min_window_s"] = config.min_window_s;
  json["max_client_lag_ms"] = config.max_client_lag_ms;
  json["work_fingerprint"] = cell.work;
  if (!server_metrics.is_null()) json["server_metrics"] = server_metrics;
  return json;
}

Result<StoredRun> ReadGridCell(const Json& json, const std::string& where) {
  StoredRun run;
  FS_ASSIGN(const auto model, GetString(json, "model_id", where));
  FS_ASSIGN(const auto method, GetString(json, "spec_method", where));
  FS_ASSIGN(const auto tokens, GetInt(json, "spec_tokens", where));
  FS_ASSIGN(const auto target, GetInt(json, "target_step_bytes", where));
  FS_ASSIGN(const auto ballast, GetInt(json, "ballast_bytes", where));
  FS_ASSIGN(const auto draft, GetInt(json, "draft_pass_bytes", where));
  run.server.model = model.value_or("");
  run.server.spec_method = method.value_or("");
  run.server.spec_tokens = static_cast<int32_t>(tokens.value_or(0));
  run.server.target_bytes = target.value_or(0);
  run.server.ballast_bytes = ballast.value_or(0);
  run.server.draft_bytes = draft.value_or(0);

  ServeMetrics& m = run.metrics;
  FS_ASSIGN(const auto completed, GetInt(json, "completed", where));
  FS_ASSIGN(const auto failed, GetInt(json, "failed", where));
  FS_ASSIGN(const auto output, GetInt(json, "total_output_tokens", where));
  FS_ASSIGN(const auto speed, GetDouble(json, "output_throughput", where));
  m.completed = static_cast<size_t>(completed.value_or(0));
  m.failed = static_cast<size_t>(failed.value_or(0));
  m.output_tokens = output.value_or(0);
  m.output_tokens_per_s = speed.value_or(0);
  FS_TRY(ReadStatistics(json, "ttft", where, &m.ttft_ms));
  FS_TRY(ReadStatistics(json, "tpot", where, &m.tpot_ms));
  FS_TRY(ReadSpeculation(json, where, &m));
  FS_ASSIGN(run.outputs, ReadOutputs(json, where));
  if (json.contains("run")) {
    FS_ASSIGN(const RunResult result, RunResultFromJson(json, where));
    run.void_reasons = result.VoidReasons();
  }
  return run;
}

}  // namespace firesteel
