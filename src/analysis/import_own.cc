// Files that `firesteel bench serve` and `firesteel bench grid` write.
#include <fmt/format.h>

#include "analysis/import_internal.h"

namespace firesteel {
namespace {

constexpr double kMsPerSecond = 1000;

std::optional<double> Number(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) return std::nullopt;
  return it->get<double>();
}

std::optional<int64_t> Integer(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return std::nullopt;
  return it->get<int64_t>();
}

void ReadRequests(const Json& object, Run* run) {
  const auto requests = object.find("requests");
  if (requests == object.end() || !requests->is_array()) return;
  for (const Json& request : *requests) {
    if (!request.is_object() || !ToolText(request, "error").empty()) continue;
    const auto add = [&](const char* key, std::vector<double>* out, double scale) {
      if (const auto value = Number(request, key)) out->push_back(*value * scale);
    };
    add("ttft", &run->samples.ttft, kMsPerSecond);
    add("tpot", &run->samples.tpot, kMsPerSecond);
    add("e2el", &run->samples.e2e, kMsPerSecond);
    add("output_len", &run->samples.output_lengths, 1);
    const auto itls = request.find("itls");
    if (itls == request.end() || !itls->is_array()) continue;
    for (const Json& gap : *itls) {
      if (gap.is_number()) run->samples.itl.push_back(gap.get<double>() * kMsPerSecond);
    }
  }
}

void ReadSpeculation(const Json& object, Run* run) {
  const auto drafts = Number(object, "spec_decode_num_drafts");
  const auto drafted = Number(object, "spec_decode_draft_tokens");
  const auto accepted = Number(object, "spec_decode_accepted_tokens");
  // From the counters, so that a rate kept as a share and one kept in per cent read the same.
  run->measures.Set(Metric::kAcceptRate, std::nullopt);
  if (drafts && drafted && accepted && *drafts > 0 && *drafted > 0) {
    run->measures.Set(Metric::kAcceptRate, 100 * *accepted / *drafted);
    run->measures.Set(Metric::kAcceptLength, 1 + *accepted / *drafts);
    run->tokens_per_draft = *drafted / *drafts;
  } else {
    run->measures.Set(Metric::kAcceptLength, std::nullopt);
  }
  const auto positions = object.find("spec_decode_per_position_acceptance_rates");
  if (positions != object.end() && positions->is_array()) {
    for (const Json& rate : *positions) {
      if (rate.is_number()) run->acceptance_per_position.push_back(rate.get<double>());
    }
  }
}

// What a grid adds to a run.
void ReadGridFacts(const Json& object, Run* run, Campaign* campaign) {
  const auto count = [&](const char* key, std::optional<int64_t>* out) {
    if (const auto value = Integer(object, key); value && *value > 0) *out = value;
  };
  count("num_warmups", &run->work.warmups);
  count("max_tokens", &run->work.requested_output);
  if (const auto gpus = Integer(object, "gpus"); gpus && *gpus > 0 && *gpus < 100'000)
    run->configuration.gpus = static_cast<int32_t>(*gpus);
  // Over all prompts of the scenario: the same for every configuration, and for every run of it.
  if (run->work.fingerprint.empty()) run->work.fingerprint = ToolText(object, "work_fingerprint");
  if (const auto window = Number(object, "min_window_s"))
    campaign->facts["min_window_s"] = fmt::format("{:g}", *window);
  if (const auto lag = Number(object, "max_client_lag_ms"))
    campaign->facts["max_client_lag_ms"] = fmt::format("{:g}", *lag);
  const auto metrics = object.find("server_metrics");
  if (metrics == object.end() || !metrics->is_object()) return;
  run->preemptions = Number(*metrics, "preemptions");
  const auto usage = metrics->find("kv_cache_usage");
  if (usage != metrics->end()) run->kv_usage_max = Number(*usage, "max");
}

}  // namespace

bool IsOwnRun(const Json& object) {
  return HasRunResult(object) || (object.is_object() && object.contains("output_count_basis") &&
                                  object.contains("itl_basis"));
}

bool IsSummaryCell(const Json& object) {
  return object.is_object() && object.contains("method") && object.contains("concurrency") &&
         object.contains("output_tokens_per_s");
}

Status ImportOwnRun(const Json& object, const RunOrigin& origin, Results* results) {
  Run run = NewRun(origin, ResultFormat::kNative, *results);
  run.raw = object;
  Configuration& configuration = run.configuration;
  configuration.name = ToolText(object, "configuration");
  configuration.method = ToolText(object, "spec_method");
  const std::string where =
      origin.line > 0 ? fmt::format("{}:{}", origin.file, origin.line) : origin.file;
  FS_ASSIGN(configuration.spec_tokens, ToolCount(object, "spec_tokens", kMaxSpecTokens, where));
  configuration.engine = "firesteel";
  if (configuration.method == "none") configuration.spec_tokens = 0;
  if (configuration.name.empty()) configuration.name = configuration.method;
  if (configuration.name.empty()) configuration.name = "firesteel";
  run.scenario = ToolText(object, "scenario");
  if (run.scenario.empty()) run.scenario = ToolText(object, "model_id");
  FS_ASSIGN(const auto level, ToolCount(object, "max_concurrency", kMaxConcurrency, where));
  run.concurrency = level.value_or(0);
  RunWork& work = run.work;
  work.prompts = Integer(object, "num_prompts");
  work.completed = Integer(object, "completed");
  work.failed = Integer(object, "failed");
  work.input_tokens = Integer(object, "total_input_tokens");
  work.output_tokens = Integer(object, "total_output_tokens");
  work.count_basis = ToolText(object, "output_count_basis");
  const auto cached = Number(object, "total_cached_tokens");
  if (cached && work.input_tokens && *work.input_tokens > 0)
    work.cached_share = *cached / static_cast<double>(*work.input_tokens);
  if (HasRunResult(object)) {
    FS_TRY(ReadRunResult(object, where, &run));
  } else {
    FS_TRY(ReadMeasures(object, where, &run));
    ReadSpeculation(object, &run);
  }
  const auto target = Number(object, "target_step_bytes");
  const auto draft = Number(object, "draft_pass_bytes");
  if (target && draft && *target > 0 && *draft > 0) run.step_cost_share = *draft / *target;
  run.ballast = Number(object, "ballast_bytes").value_or(0) > 0;
  if (!HasRunResult(object) && ToolText(object, "itl_basis") == "chunk")
    run.measures.Set(Metric::kMeanIcl, run.measures.Get(Metric::kMeanItl));
  ReadRequests(object, &run);
  ReadGridFacts(object, &run, &CampaignOf(run.campaign, results));
  results->runs.push_back(std::move(run));
  return {};
}

Status ImportSummaryCell(const Json& object, const RunOrigin& origin, Results* results) {
  Run run = NewRun(origin, ResultFormat::kSummary, *results);
  run.raw = object;
  const std::string where =
      origin.line > 0 ? fmt::format("{}:{}", origin.file, origin.line) : origin.file;
  FS_ASSIGN(const auto level, ToolCount(object, "concurrency", kMaxConcurrency, where));
  run.concurrency = level.value_or(0);
  run.scenario = ToolText(object, "scenario");
  if (run.scenario.empty()) run.scenario = ToolText(object, "model");
  run.configuration.engine = "firesteel";
  run.configuration.method = ToolText(object, "method");
  run.configuration.name = run.configuration.method;
  FS_ASSIGN(run.configuration.spec_tokens, ToolCount(object, "spec_tokens", kMaxSpecTokens, where));
  if (run.configuration.method == "none") run.configuration.spec_tokens = 0;
  FS_ASSIGN(const auto speed, ToolNumber(object, "output_tokens_per_s", where));
  run.measures.Set(Metric::kOutputThroughput, speed);
  FS_ASSIGN(const auto length, ToolNumber(object, "acceptance_length", where));
  run.measures.Set(Metric::kAcceptLength, length);
  FS_ASSIGN(const auto rate, ToolNumber(object, "acceptance_rate", where));
  if (rate) run.measures.Set(Metric::kAcceptRate, 100 * *rate);
  const auto latency = [&](const char* key, Metric mean, Metric p99) -> Status {
    const auto it = object.find(key);
    if (it == object.end() || !it->is_object()) return {};
    FS_ASSIGN(const auto m, ToolNumber(*it, "mean", where));
    FS_ASSIGN(const auto p, ToolNumber(*it, "p99", where));
    run.measures.Set(mean, m);
    run.measures.Set(p99, p);
    return {};
  };
  FS_TRY(latency("ttft_ms", Metric::kMeanTtft, Metric::kP99Ttft));
  FS_TRY(latency("tpot_ms", Metric::kMeanTpot, Metric::kP99Tpot));
  const auto equal = object.find("ids_equal");
  if (equal != object.end() && equal->is_boolean()) run.ids_equal = equal->get<bool>();
  if (run.ids_equal == false) run.void_reasons.emplace_back("ids_equal is false");
  run.notes.emplace_back("median over the repeats of a grid");
  CampaignOf(run.campaign, results);
  results->runs.push_back(std::move(run));
  return {};
}

}  // namespace firesteel
