#include "analysis/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/json_values.h"

namespace firesteel {
namespace {

template <typename T>
void Put(const char* key, const std::optional<T>& value, Json* out) {
  if (value) (*out)[key] = *value;
}

bool ReadAs(const Run& run, ResultFormat format) {
  return run.raw.is_object() &&
         std::any_of(run.origins.begin(), run.origins.end(),
                     [&](const RunOrigin& origin) { return origin.format == format; });
}

std::string Tag(const Run& run) {
  std::string tag = run.campaign;
  for (const std::string& part : {run.scenario, run.configuration.name})
    tag += tag.empty() ? part : "/" + part;
  return tag;
}

Json SglangLine(const Run& run) {
  if (ReadAs(run, ResultFormat::kSglang)) return run.raw;
  Json line;
  line["tag"] = Tag(run);
  line["backend"] = run.configuration.engine == "sglang" ? "sglang" : "vllm";
  line["dataset_name"] = run.work.dataset;
  line["request_rate"] = "Infinity";
  line["max_concurrency"] = run.concurrency > 0 ? Json(run.concurrency) : Json();
  line["sharegpt_output_len"] =
      run.work.requested_output ? Json(*run.work.requested_output) : Json();
  Put("random_input_len", run.work.max_input, &line);
  Put("random_output_len", run.work.max_output, &line);
  Put("random_range_ratio", run.work.range_ratio, &line);
  Put("completed", run.work.completed ? run.work.completed : run.work.prompts, &line);
  Put("total_input_tokens", run.work.input_tokens, &line);
  Put("total_output_tokens", run.work.output_tokens, &line);
  for (const MetricInfo& info : AllMetrics()) {
    // Its line has neither of these.
    if (info.metric == Metric::kMeanIcl || info.metric == Metric::kAcceptRate ||
        info.metric == Metric::kGoodput)
      continue;
    Put(info.name, run.measures.Get(info.metric), &line);
  }
  return line;
}

Json VllmObject(const Run& run) {
  if (ReadAs(run, ResultFormat::kVllm)) return run.raw;
  Json object;
  object["endpoint_type"] = "openai";
  object["backend"] = "openai";
  object["label"] = run.configuration.name;
  object["scenario"] = run.scenario;
  Put("spec_tokens", run.configuration.spec_tokens, &object);
  Put("num_prompts", run.work.prompts, &object);
  object["request_rate"] = "inf";
  object["burstiness"] = 1.0;
  object["max_concurrency"] = run.concurrency > 0 ? Json(run.concurrency) : Json();
  Put("completed", run.work.completed, &object);
  Put("failed", run.work.failed, &object);
  Put("total_input_tokens", run.work.input_tokens, &object);
  Put("total_output_tokens", run.work.output_tokens, &object);
  for (const MetricInfo& info : AllMetrics()) {
    if (info.vllm[0] != '\0') Put(info.vllm, run.measures.Get(info.metric), &object);
  }
  if (!run.acceptance_per_position.empty())
    object["spec_decode_per_position_acceptance_rates"] = run.acceptance_per_position;
  return object;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

Json RunJson(const Run& run) {
  Json out;
  out["id"] = run.id;
  out["campaign"] = run.campaign;
  out["scenario"] = run.scenario;
  Json& configuration = out["configuration"];
  configuration["name"] = run.configuration.name;
  configuration["engine"] = run.configuration.engine;
  configuration["engine_version"] = run.configuration.engine_version;
  configuration["method"] = run.configuration.method;
  Put("spec_tokens", run.configuration.spec_tokens, &configuration);
  Put("gpus", run.configuration.gpus, &configuration);
  out["concurrency"] = run.concurrency;
  out["repeat"] = run.repeat;
  out["quoted"] = run.quoted;
  out["void_reasons"] = run.void_reasons;
  Json& work = out["work"];
  work = Json::object();
  work["dataset"] = run.work.dataset;
  Put("max_input", run.work.max_input, &work);
  Put("max_output", run.work.max_output, &work);
  Put("range_ratio", run.work.range_ratio, &work);
  Put("requested_output", run.work.requested_output, &work);
  Put("prompts", run.work.prompts, &work);
  Put("completed", run.work.completed, &work);
  Put("failed", run.work.failed, &work);
  Put("input_tokens", run.work.input_tokens, &work);
  Put("output_tokens", run.work.output_tokens, &work);
  Json& measures = out["measures"];
  measures = Json::object();
  for (const MetricInfo& info : AllMetrics())
    Put(info.name, run.measures.Get(info.metric), &measures);
  Json origins = Json::array();
  for (const RunOrigin& origin : run.origins) {
    origins.push_back(Json{{"file", origin.file},
                           {"line", origin.line},
                           {"record", origin.record},
                           {"format", ResultFormatName(origin.format)}});
  }
  out["origins"] = std::move(origins);
  return out;
}

}  // namespace

std::string ExportSglang(const Results& results, bool strict) {
  std::string out;
  for (const Run& run : results.runs) {
    if (!run.quoted) out += DumpToolJson(SglangLine(run), strict) + "\n";
  }
  return out;
}

std::string ExportVllm(const Results& results) {
  std::string out;
  for (const Run& run : results.runs) {
    if (run.quoted) continue;
    if (!out.empty()) out += '\n';
    out += DumpToolJson(VllmObject(run), /*strict=*/true);
  }
  return out;
}

std::string ExportCsv(const Results& results) {
  std::string out =
      "run,campaign,scenario,configuration,engine,method,spec_tokens,concurrency,repeat,void,file,"
      "line";
  for (const MetricInfo& info : AllMetrics()) out += fmt::format(",{}", info.name);
  out += "\r\n";
  for (const Run& run : results.runs) {
    if (run.quoted) continue;
    const Configuration& c = run.configuration;
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{}", CsvField(run.id), CsvField(run.campaign),
        CsvField(run.scenario), CsvField(c.name), CsvField(c.engine), CsvField(c.method),
        c.spec_tokens ? std::to_string(*c.spec_tokens) : "", run.concurrency, run.repeat,
        run.valid() ? "" : "void", CsvField(run.origins.front().file), run.origins.front().line);
    for (const MetricInfo& info : AllMetrics()) {
      const auto value = run.measures.Get(info.metric);
      out += value ? fmt::format(",{}", *value) : ",";
    }
    out += "\r\n";
  }
  return out;
}

std::string ExportJson(const Results& results) {
  Json list = Json::array();
  for (const Run& run : results.runs) list.push_back(RunJson(run));
  return DumpJson(list, 2) + "\n";
}

}  // namespace firesteel
