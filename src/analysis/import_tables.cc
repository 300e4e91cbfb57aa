// Tables transcribed from reports ("seed-report/1"), and the work that their runs did
// ("recovered-workloads/1").
//
// Rows are measurements. What the author computed ("stated_…") or wrote in prose ("text_values")
// becomes a claim, which is checked and never used as a figure; a figure in prose about one cell is
// kept as a quoted run as well, so that it can be compared.
#include <fmt/format.h>

#include "analysis/import_internal.h"

namespace firesteel {
namespace {

std::string RowWhere(const RunOrigin& origin, const std::string& row) {
  return fmt::format("{}: row {}", origin.file, row);
}

Status ReadLevel(const Json& row, const std::string& where, int32_t* concurrency) {
  FS_ASSIGN(const std::optional<int32_t> level,
            ToolCount(row, "concurrency", kMaxConcurrency, where));
  *concurrency = level.value_or(0);
  return {};
}

Status ReadConfiguration(const Json& row, const std::string& where, Configuration* out) {
  out->name = ToolText(row, "config");
  out->method = ToolText(row, "method");
  out->engine = ToolText(row, "engine");
  out->engine_version = ToolText(row, "engine_version");
  FS_ASSIGN(const std::optional<int32_t> tokens,
            ToolCount(row, "spec_tokens", kMaxSpecTokens, where));
  out->spec_tokens = tokens;
  FS_ASSIGN(const std::optional<int32_t> drafted,
            ToolCount(row, "num_draft_tokens", kMaxSpecTokens, where));
  if (!tokens && drafted && *drafted > 0) {
    // SGLang counts the token that is being verified among them.
    out->spec_tokens = *drafted - 1;
    for (const char* key : {"num_steps", "topk", "num_draft_tokens"}) {
      if (row.contains(key)) out->settings[key] = DumpJson(row[key]);
    }
  }
  if (out->name.empty()) {
    out->name = out->method;
    if (tokens && *tokens > 0) out->name += fmt::format("-st{}", *tokens);
  }
  return {};
}

// Facts that hold for all rows of a table.
struct TableFacts {
  std::optional<int32_t> gpus;
  std::optional<int64_t> warmups;
  std::string dataset;
};

Status ImportRow(const Json& row, const RunOrigin& origin, const std::string& campaign,
                 const TableFacts& facts, bool quoted, Results* results) {
  const std::string name = ToolText(row, "row_id");
  const std::string where = RowWhere(origin, name.empty() ? "without a row_id" : name);
  if (!row.is_object() || !row.contains("metrics") || !row["metrics"].is_object())
    return InvalidArgument(fmt::format("{}: has no metrics, expected an object", where));
  Run run = NewRun(origin, ResultFormat::kReportTable, *results);
  run.origins.front().record = name;
  run.campaign = campaign;
  run.scenario = ToolText(row, "scenario");
  run.quoted = quoted;
  FS_TRY(ReadLevel(row, where, &run.concurrency));
  FS_TRY(ReadConfiguration(row, where, &run.configuration));
  run.configuration.gpus = facts.gpus;
  FS_ASSIGN(run.work.prompts, ToolInteger(row, "num_prompts", where));
  run.work.warmups = facts.warmups;
  run.work.dataset = facts.dataset;
  FS_TRY(ReadMeasures(row["metrics"], where, &run));
  results->runs.push_back(std::move(run));
  return {};
}

// "stated_drop_pct" of a row, or of an entry of a list of statements.
void AddClaims(const Json& entry, const std::string& what, const RunOrigin& origin,
               const std::string& campaign, Results* results) {
  for (const auto& [key, value] : entry.items()) {
    if (!key.starts_with("stated_") || !value.is_number()) continue;
    Claim claim;
    claim.campaign = campaign;
    claim.what = what.empty() ? key.substr(std::string_view("stated_").size()) : what;
    claim.scenario = ToolText(entry, "scenario");
    claim.configuration = ToolText(entry, "method");
    claim.value = value.get<double>();
    claim.origin = origin;
    const std::string where = origin.file;
    if (const auto c = ToolCount(entry, "concurrency", kMaxConcurrency, where); c.ok())
      claim.concurrency = c->value_or(0);
    if (const auto k = ToolCount(entry, "spec_tokens", kMaxSpecTokens, where); k.ok())
      claim.spec_tokens = *k;
    results->claims.push_back(std::move(claim));
  }
}

void AddStatedLists(const Json& table, const RunOrigin& origin, const std::string& campaign,
                    Results* results) {
  if (const auto it = table.find("stated_speedups"); it != table.end() && it->is_object()) {
    for (const auto& [baseline, list] : it->items()) {
      if (!list.is_array()) continue;
      for (const Json& entry : list) {
        const size_t before = results->claims.size();
        AddClaims(entry, "speedup", origin, campaign, results);
        for (size_t i = before; i < results->claims.size(); ++i)
          results->claims[i].baseline = baseline;
      }
    }
  }
  if (const auto it = table.find("stated_winners"); it != table.end() && it->is_array()) {
    for (const Json& entry : *it) AddClaims(entry, "improvement_pct", origin, campaign, results);
  }
  if (const auto it = table.find("stated_summary"); it != table.end() && it->is_object()) {
    for (const auto& [key, value] : it->items()) {
      if (!value.is_number()) continue;
      Claim claim;
      claim.campaign = campaign;
      claim.what = key;
      claim.value = value.get<double>();
      claim.origin = origin;
      results->claims.push_back(std::move(claim));
    }
  }
}

Status AddProse(const Json& table, const RunOrigin& origin, const std::string& campaign,
                const TableFacts& facts, Results* results) {
  const auto it = table.find("text_values");
  if (it == table.end() || !it->is_array()) return {};
  for (const Json& entry : *it) {
    if (!entry.is_object()) continue;
    Claim claim;
    claim.campaign = campaign;
    claim.what = "text";
    claim.scenario = ToolText(entry, "scenario");
    claim.configuration = ToolText(entry, "method");
    claim.text = ToolText(entry, "claim");
    claim.origin = origin;
    FS_TRY(ReadLevel(entry, origin.file, &claim.concurrency));
    FS_ASSIGN(claim.spec_tokens, ToolCount(entry, "spec_tokens", kMaxSpecTokens, origin.file));
    FS_ASSIGN(claim.value, ToolNumber(entry, "low_pct", origin.file));
    FS_ASSIGN(claim.high, ToolNumber(entry, "high_pct", origin.file));
    for (const auto& [key, value] : entry.items()) {
      const std::optional<Metric> metric = FindMetric(key);
      if (!metric || !value.is_number()) continue;
      claim.metric = metric;
      claim.value = value.get<double>();
      if (claim.scenario.empty() || claim.concurrency == 0) continue;
      Run run = NewRun(origin, ResultFormat::kReportTable, *results);
      run.campaign = campaign;
      run.scenario = claim.scenario;
      run.concurrency = claim.concurrency;
      run.quoted = true;
      FS_TRY(ReadConfiguration(entry, origin.file, &run.configuration));
      run.configuration.gpus = facts.gpus;
      run.measures.Set(*metric, claim.value);
      results->runs.push_back(std::move(run));
    }
    results->claims.push_back(std::move(claim));
  }
  return {};
}

TableFacts ReadFacts(const Json& table, Campaign* campaign) {
  TableFacts facts;
  campaign->title = ToolText(table, "title");
  campaign->date = ToolText(table, "run_date");
  const auto note = [&](const Json& object) {
    if (!object.is_object()) return;
    for (const auto& [key, value] : object.items()) {
      if (key.starts_with("stated_") || value.is_structured() || value.is_null()) continue;
      campaign->facts[key] = value.is_string() ? value.get<std::string>() : DumpJson(value);
      if (!value.is_number_integer()) continue;
      if (key == "tensor_parallel_size") facts.gpus = value.get<int32_t>();
      if (key == "warmup_requests") facts.warmups = value.get<int64_t>();
    }
  };
  for (const char* key : {"server", "client", "clients", "workload"}) {
    if (table.contains(key)) note(table[key]);
  }
  if (const auto it = table.find("configs"); it != table.end() && it->is_array()) {
    for (const Json& configuration : *it) note(configuration);
  }
  for (const char* key : {"hardware", "model"}) {
    if (const std::string text = ToolText(table, key); !text.empty()) campaign->facts[key] = text;
  }
  if (campaign->facts.contains("dataset")) facts.dataset = campaign->facts["dataset"];
  return facts;
}

}  // namespace

bool IsReportTable(const Json& object) {
  return ToolText(object, "schema").starts_with("seed-report/");
}

bool IsWorkloadTable(const Json& object) {
  return ToolText(object, "schema").starts_with("recovered-workloads/");
}

Status ImportReportTable(const Json& object, const RunOrigin& origin, Results* results) {
  const std::string id = ToolText(object, "report_id");
  const TableFacts facts = ReadFacts(object, &CampaignOf(id, results));
  const auto rows = object.find("rows");
  if (rows == object.end() || !rows->is_array())
    return InvalidArgument(fmt::format("{}: rows is missing, expected a list", origin.file));
  for (const Json& row : *rows) {
    FS_TRY(ImportRow(row, origin, id, facts, /*quoted=*/false, results));
    AddClaims(row, "", origin, id, results);
  }
  if (const auto it = object.find("historical_rows"); it != object.end() && it->is_array()) {
    for (const Json& row : *it) FS_TRY(ImportRow(row, origin, id, facts, /*quoted=*/true, results));
  }
  FS_TRY(AddProse(object, origin, id, facts, results));
  AddStatedLists(object, origin, id, results);
  return {};
}

Status ImportWorkloadTable(const Json& object, const RunOrigin& origin, Results* results) {
  const auto workloads = object.find("workloads");
  if (workloads == object.end() || !workloads->is_array())
    return InvalidArgument(fmt::format("{}: workloads is missing, expected a list", origin.file));
  for (const Json& entry : *workloads) {
    Run facts;
    facts.scenario = ToolText(entry, "scenario");
    facts.origins = {origin};
    facts.origins.front().format = ResultFormat::kReportTable;
    FS_TRY(ReadLevel(entry, origin.file, &facts.concurrency));
    RunWork& work = facts.work;
    work.dataset = "random";
    FS_ASSIGN(work.prompts, ToolInteger(entry, "num_prompts", origin.file));
    FS_ASSIGN(work.max_input, ToolInteger(entry, "max_input_len", origin.file));
    FS_ASSIGN(work.max_output, ToolInteger(entry, "max_output_len", origin.file));
    FS_ASSIGN(work.range_ratio, ToolNumber(entry, "range_ratio", origin.file));
    FS_ASSIGN(work.input_tokens, ToolInteger(entry, "total_input_tokens", origin.file));
    FS_ASSIGN(work.output_tokens, ToolInteger(entry, "total_output_tokens", origin.file));
    FS_ASSIGN(const std::optional<int64_t> seed, ToolInteger(entry, "seed", origin.file));
    if (seed && *seed >= 0) work.seed = static_cast<uint64_t>(*seed);
    const auto runs = entry.find("runs");
    if (runs == entry.end() || !runs->is_array()) continue;
    for (const Json& of : *runs) {
      facts.origins.front().record = ToolText(of, "row_id");
      FS_ASSIGN(const std::optional<double> duration, ToolNumber(of, "duration_s", origin.file));
      facts.measures = {};
      facts.measures.Set(Metric::kDuration, duration);
      results->runs.push_back(facts);  // no configuration: MergeRuns moves it into its run
    }
  }
  return {};
}

}  // namespace firesteel
