// The readers of single objects, and what they share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analysis/run.h"
#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel {

// Nobody drafts more; a larger number is no number of tokens.
inline constexpr int32_t kMaxSpecTokens = 1024;
inline constexpr int32_t kMaxConcurrency = 1'000'000;

// A figure of a tool's object. Absent and null are nullopt; the words "inf" and "Infinity" are
// infinity, "NaN" is not a number; numbers in strings (vLLM's metadata) are numbers.
// kInvalidArgument for anything else.
Result<std::optional<double>> ToolNumber(const Json& object, std::string_view key,
                                         std::string_view where);
Result<std::optional<int64_t>> ToolInteger(const Json& object, std::string_view key,
                                           std::string_view where);
// An integer from 0 to `most`.
Result<std::optional<int32_t>> ToolCount(const Json& object, std::string_view key, int32_t most,
                                         std::string_view where);
// "" when absent, null or no string.
std::string ToolText(const Json& object, std::string_view key);

// Every key that names a metric. A latency that is no number makes the run void.
Status ReadMeasures(const Json& object, std::string_view where, Run* run);

// What a configuration's name tells: "…-st5" drafts 5 tokens, "…-none" drafts none. Returns the
// rule applied, "" without one.
std::string ConfigurationFromName(const std::string& name, Configuration* configuration);

// The next run of these results, "R<n>", read at `origin` in that format.
Run NewRun(const RunOrigin& origin, ResultFormat format, const Results& results);
// The campaign of that id, made when new.
Campaign& CampaignOf(const std::string& id, Results* results);

bool IsVllmResult(const Json& object);
bool IsSglangResult(const Json& object);
bool IsOwnRun(const Json& object);       // what `bench serve` and `bench grid` write
bool IsSummaryCell(const Json& object);  // one of summary.json
bool IsReportTable(const Json& object);
bool IsWorkloadTable(const Json& object);

// A run_result.h object, alone or under "run".
bool HasRunResult(const Json& object);
// Fills what it says. kDataCorrupt names `where` and the field.
Status ReadRunResult(const Json& object, const std::string& where, Run* run);

Status ImportVllm(const Json& object, const RunOrigin& origin, Results* results);
Status ImportSglang(const Json& object, const RunOrigin& origin, Results* results);
Status ImportOwnRun(const Json& object, const RunOrigin& origin, Results* results);
Status ImportSummaryCell(const Json& object, const RunOrigin& origin, Results* results);
Status ImportReportTable(const Json& object, const RunOrigin& origin, Results* results);
// Facts on the work of runs that other files hold; kept as runs without measures until MergeRuns.
Status ImportWorkloadTable(const Json& object, const RunOrigin& origin, Results* results);

// Makes one run of several tellings of it, gives runs without a campaign the one of their file,
// and lets runs of a scenario share what the scenario asks for.
void MergeRuns(Results* results);

}  // namespace firesteel
