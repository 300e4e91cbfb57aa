// Result files of `vllm bench serve` and `sglang.bench_serving`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "analysis/import_internal.h"
#include "bench/statistics.h"

namespace firesteel {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr double kRecomputeTolerance = 0.001;

bool HasAny(const Json& object, std::initializer_list<const char*> keys) {
  return object.is_object() &&
         std::any_of(keys.begin(), keys.end(), [&](const char* k) { return object.contains(k); });
}

Status ReadCount(const Json& object, std::initializer_list<const char*> keys,
                 std::string_view where, std::optional<int64_t>* out) {
  for (const char* key : keys) {
    FS_ASSIGN(const std::optional<int64_t> value, ToolInteger(object, key, where));
    if (!value) continue;
    *out = value;
    return {};
  }
  return {};
}

// A list of seconds, as ms.
std::vector<double> Seconds(const Json& object, const char* key) {
  std::vector<double> values;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return values;
  for (const Json& value : *it) {
    if (value.is_number()) values.push_back(value.get<double>() * kMsPerSecond);
  }
  return values;
}

// Lists over requests: what they allow is computed again, and a figure that does not agree is told.
void ReadDetails(const Json& object, Run* run) {
  std::vector<double> ttft = Seconds(object, "ttfts");
  if (ttft.empty()) return;
  const auto lens = object.find("output_lens");
  const auto itls = object.find("itls");
  for (size_t i = 0; i < ttft.size(); ++i) {
    const bool has_len =
        lens != object.end() && lens->is_array() && i < lens->size() && (*lens)[i].is_number();
    const double length = has_len ? (*lens)[i].get<double>() : 0;
    if (ttft[i] <= 0 || (has_len && length == 0)) continue;  // a request without any token
    run->samples.ttft.push_back(ttft[i]);
    if (has_len) run->samples.output_lengths.push_back(length);
    if (itls == object.end() || !itls->is_array() || i >= itls->size() || !(*itls)[i].is_array())
      continue;
    double total = 0;
    for (const Json& gap : (*itls)[i]) {
      if (!gap.is_number()) continue;
      run->samples.itl.push_back(gap.get<double>() * kMsPerSecond);
      total += run->samples.itl.back();
    }
    run->samples.e2e.push_back(ttft[i] + total);
    if (length > 1) run->samples.tpot.push_back(total / (length - 1));
  }
  const auto check = [&](const std::vector<double>& samples, Metric mean, Metric p99) {
    if (samples.empty()) return;
    const Statistics s = Summarize(samples);
    for (const auto& [metric, value] : {std::pair(mean, s.mean), std::pair(p99, s.p99)}) {
      const std::optional<double> told = run->measures.Get(metric);
      if (!told) run->measures.Set(metric, value);
      if (told && std::abs(value - *told) > kRecomputeTolerance * *told) {
        run->notes.push_back(fmt::format("{} is {:.2f}, its own requests give {:.2f}",
                                         Info(metric).name, *told, value));
      }
    }
  };
  check(run->samples.ttft, Metric::kMeanTtft, Metric::kP99Ttft);
}

Status ReadTotals(const Json& object, std::string_view where, Run* run) {
  FS_TRY(ReadCount(object, {"num_prompts"}, where, &run->work.prompts));
  FS_TRY(ReadCount(object, {"completed"}, where, &run->work.completed));
  FS_TRY(ReadCount(object, {"failed"}, where, &run->work.failed));
  FS_TRY(ReadCount(object, {"total_input_tokens", "total_input"}, where, &run->work.input_tokens));
  FS_TRY(
      ReadCount(object, {"total_output_tokens", "total_output"}, where, &run->work.output_tokens));
  FS_ASSIGN(const std::optional<int32_t> concurrency,
            ToolCount(object, "max_concurrency", kMaxConcurrency, where));
  run->concurrency = concurrency.value_or(0);
  return {};
}

std::string Where(const RunOrigin& origin) {
  return origin.line > 0 ? fmt::format("{}:{}", origin.file, origin.line) : origin.file;
}

bool IsRecordName(const std::string& text) {
  return text.size() == 4 && text[0] >= 'A' && text[0] <= 'Z' &&
         std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "campaign/record/scenario/configuration", any of the first three absent.
void ReadTag(const std::string& tag, Run* run) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= tag.size();) {
    const size_t end = std::min(tag.find('/', begin), tag.size());
    parts.push_back(tag.substr(begin, end - begin));
    begin = end + 1;
  }
  run->configuration.name = parts.back();
  parts.pop_back();
  if (parts.empty()) return;
  run->campaign = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    if (IsRecordName(parts[i])) {
      run->origins.front().record = parts[i];
    } else {
      run->scenario = parts[i];
    }
  }
}

std::string ScenarioOf(const Run& run) {
  const RunWork& work = run.work;
  const std::string name = work.dataset.empty() ? "default" : work.dataset;
  if (work.max_input && work.max_output)
    return fmt::format("{}_{}_{}", name, *work.max_input, *work.max_output);
  if (work.requested_output) return fmt::format("{}_{}", name, *work.requested_output);
  return name;
}

// The name of the file is the last resort: "dspark-st5_c16.json" is configuration dspark-st5.
std::string NameFromFile(const std::string& file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  const size_t level = stem.rfind("_c");
  return level == std::string::npos || level == 0 ? "" : stem.substr(0, level);
}

void Finish(Run run, Results* results) {
  const std::string rule = ConfigurationFromName(run.configuration.name, &run.configuration);
  if (!rule.empty()) {
    if (std::find(results->log.begin(), results->log.end(), rule) == results->log.end())
      results->log.push_back(rule);
  }
  if (run.configuration.method.empty()) run.configuration.method = run.configuration.name;
  CampaignOf(run.campaign, results);
  results->runs.push_back(std::move(run));
}

}  // namespace

bool IsVllmResult(const Json& object) {
  return HasAny(object, {"endpoint_type", "total_token_throughput", "burstiness"});
}

bool IsSglangResult(const Json& object) {
  return HasAny(object, {"total_throughput", "mean_e2e_latency_ms", "input_throughput",
                         "sharegpt_output_len", "random_range_ratio"});
}

Status ImportVllm(const Json& object, const RunOrigin& origin, Results* results) {
  const std::string where = Where(origin);
  Run run = NewRun(origin, ResultFormat::kVllm, *results);
  run.raw = object;
  FS_TRY(ReadTotals(object, where, &run));
  FS_TRY(ReadMeasures(object, where, &run));
  Configuration& configuration = run.configuration;
  for (const char* key : {"configuration", "label"}) {
    if (configuration.name.empty()) configuration.name = ToolText(object, key);
  }
  if (configuration.name.empty()) configuration.name = NameFromFile(origin.file);
  if (configuration.name.empty()) configuration.name = ToolText(object, "model_id");
  if (configuration.name.empty()) configuration.name = "vllm";
  configuration.engine = ToolText(object, "engine");
  configuration.engine_version = ToolText(object, "engine_version");
  configuration.method = ToolText(object, "spec_method");
  FS_ASSIGN(configuration.spec_tokens, ToolCount(object, "spec_tokens", kMaxSpecTokens, where));
  if (configuration.spec_tokens == 0) configuration.method = "none";
  run.scenario = ToolText(object, "scenario");
  run.campaign = ToolText(object, "campaign");
  run.work.dataset = ToolText(object, "dataset_name");
  run.work.count_basis = "usage";  // the client asks for it always
  if (run.scenario.empty()) run.scenario = ScenarioOf(run);
  const auto positions = object.find("spec_decode_per_position_acceptance_rates");
  if (positions != object.end() && positions->is_array()) {
    for (const Json& rate : *positions) {
      if (rate.is_number()) run.acceptance_per_position.push_back(rate.get<double>());
    }
  }
  FS_ASSIGN(const std::optional<double> drafts,
            ToolNumber(object, "spec_decode_num_drafts", where));
  FS_ASSIGN(const std::optional<double> drafted,
            ToolNumber(object, "spec_decode_draft_tokens", where));
  if (drafts && drafted && *drafts > 0) run.tokens_per_draft = *drafted / *drafts;
  // One sample per stream event: the gap between events is what it calls the latency of a token.
  run.measures.Set(Metric::kMeanIcl, run.measures.Get(Metric::kMeanItl));
  ReadDetails(object, &run);
  Finish(std::move(run), results);
  return {};
}

Status ImportSglang(const Json& object, const RunOrigin& origin, Results* results) {
  const std::string where = Where(origin);
  Run run = NewRun(origin, ResultFormat::kSglang, *results);
  run.raw = object;
  FS_TRY(ReadTotals(object, where, &run));
  FS_TRY(ReadMeasures(object, where, &run));
  ReadTag(ToolText(object, "tag"), &run);
  const std::string backend = ToolText(object, "backend");
  if (run.configuration.name.empty()) run.configuration.name = NameFromFile(origin.file);
  if (run.configuration.name.empty()) run.configuration.name = backend;
  if (run.configuration.name.empty()) run.configuration.name = "sglang";
  run.work.dataset = ToolText(object, "dataset_name");
  FS_TRY(ReadCount(object, {"sharegpt_output_len"}, where, &run.work.requested_output));
  if (run.work.dataset.starts_with("random")) {
    FS_TRY(ReadCount(object, {"random_input_len"}, where, &run.work.max_input));
    FS_TRY(ReadCount(object, {"random_output_len"}, where, &run.work.max_output));
    FS_ASSIGN(run.work.range_ratio, ToolNumber(object, "random_range_ratio", where));
  }
  // Only its own backend counts what came back; for the others it notes what was asked for.
  run.work.count_basis = backend == "sglang" ? "usage" : "requested";
  if (run.scenario.empty()) run.scenario = ScenarioOf(run);
  ReadDetails(object, &run);
  Finish(std::move(run), results);
  return {};
}

}  // namespace firesteel
