// The result of one of our runs, as run_result.h defines it.
#include <algorithm>

#include "analysis/import_internal.h"
#include "bench/run_result.h"

namespace firesteel {
namespace {

void SetStatistics(const Statistics* s, Metric mean, std::optional<Metric> median,
                   std::optional<Metric> p95, std::optional<Metric> p99, Measures* measures) {
  if (s == nullptr) return;
  measures->Set(mean, s->mean);
  if (median) measures->Set(*median, s->median);
  if (p95) measures->Set(*p95, s->p95);
  if (p99) measures->Set(*p99, s->p99);
}

void SetMeasures(const RunResult& result, Measures* measures) {
  const RunWindow& whole = result.whole;
  if (whole.completed > 0) {
    measures->Set(Metric::kTotalThroughput, whole.total_tokens_per_s);
    measures->Set(Metric::kOutputThroughput, whole.output_tokens_per_s);
    measures->Set(Metric::kInputThroughput, whole.input_tokens_per_s);
    measures->Set(Metric::kRequestThroughput, whole.requests_per_s);
    measures->Set(Metric::kDuration, whole.duration_s);
  }
  SetStatistics(whole.Find("e2e_ms"), Metric::kMeanE2e, Metric::kMedianE2e, Metric::kP95E2e,
                Metric::kP99E2e, measures);
  SetStatistics(whole.Find("ttft_ms"), Metric::kMeanTtft, Metric::kMedianTtft, Metric::kP95Ttft,
                Metric::kP99Ttft, measures);
  SetStatistics(whole.Find("tpot_ms"), Metric::kMeanTpot, Metric::kMedianTpot, Metric::kP95Tpot,
                Metric::kP99Tpot, measures);
  SetStatistics(whole.Find("itl_ms"), Metric::kMeanItl, std::nullopt, Metric::kP95Itl,
                Metric::kP99Itl, measures);
  SetStatistics(whole.Find("icl_ms"), Metric::kMeanIcl, std::nullopt, std::nullopt, std::nullopt,
                measures);
  measures->Set(Metric::kGoodput, result.goodput_per_s);
}

void SetWork(const RunResult& result, RunWork* work) {
  work->dataset = result.workload.dataset;
  work->fingerprint = result.workload.fingerprint;
  work->seed = result.workload.seed;
  work->ignore_eos = result.workload.ignore_eos;
  work->prompts = result.counts.requests;
  work->completed = result.counts.completed;
  work->failed = result.counts.failed + result.counts.incomplete;
  work->input_tokens = result.whole.input_tokens;
  work->output_tokens = result.whole.output_tokens;
  work->warmups = result.warmup_requests;
  work->count_basis =
      result.Status() == RunStatus::kUnverified ? "requested" : result.output_count_basis;
  if (result.output_tokens_requested > 0 && result.counts.requests > 0)
    work->requested_output = result.output_tokens_requested / result.counts.requests;
  if (result.whole.input_tokens > 0) {
    work->cached_share =
        static_cast<double>(result.cached_tokens) / static_cast<double>(result.whole.input_tokens);
  }
}

}  // namespace

bool HasRunResult(const Json& object) {
  const auto is = [](const Json& json) {
    return json.is_object() && json.contains("schema") && json["schema"].is_number_integer() &&
           json.contains("whole") && json.contains("counts");
  };
  return is(object) || (object.is_object() && object.contains("run") && is(object["run"]));
}

Status ReadRunResult(const Json& object, const std::string& where, Run* run) {
  FS_ASSIGN(const RunResult result, RunResultFromJson(object, where));
  run->origins.front().record = result.id;
  run->concurrency = std::clamp(result.load.max_concurrency, 0, kMaxConcurrency);
  run->measures = {};
  SetMeasures(result, &run->measures);
  SetWork(result, &run->work);
  if (result.speculation) {
    const RunSpeculation& speculation = *result.speculation;
    if (speculation.acceptance_rate)
      run->measures.Set(Metric::kAcceptRate, 100 * *speculation.acceptance_rate);
    run->measures.Set(Metric::kAcceptLength, speculation.acceptance_length);
    run->acceptance_per_position = speculation.per_position;
    run->tokens_per_draft = speculation.tokens_per_draft;
  }
  const auto named = [&](const char* key, std::string* out) {
    const auto it = result.metadata.find(key);
    if (it != result.metadata.end() && !it->second.empty()) *out = it->second;
  };
  if (!result.model.empty() && run->scenario.empty()) run->scenario = result.model;
  named("scenario", &run->scenario);
  named("campaign", &run->campaign);
  named("configuration", &run->configuration.name);
  run->void_reasons = result.VoidReasons();
  for (const RunFinding& finding : result.findings) {
    if (finding.severity != FindingSeverity::kVoid) run->notes.push_back(finding.message);
  }
  return {};
}

}  // namespace firesteel
