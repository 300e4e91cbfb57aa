#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/analysis.h"
#include "analysis/export.h"
#include "analysis/fail_if.h"
#include "analysis/import.h"
#include "analysis/markdown.h"
#include "analysis/report.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "report/html_report.h"

namespace firesteel {
namespace {

constexpr char kExportKinds[] = "sglang, vllm, csv, json";

struct Export {
  std::string kind;
  std::string file;
};

// What the table of flags cannot say: any number of paths, and a flag with two values. Takes the
// paths out of `args`; what stays is for the table, with --export KIND FILE as --export=KIND=FILE.
Status SplitArguments(const CommandSpec& command, const std::vector<std::string>& args,
                      std::vector<std::string>* paths, std::vector<std::string>* flags) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].starts_with("-") || args[i] == "-") {
      paths->push_back(args[i]);
      continue;
    }
    if (args[i] == "--export") {
      if (i + 2 >= args.size())
        return InvalidArgument(
            fmt::format("--export needs two values, expected one of {} and a file", kExportKinds));
      flags->push_back("--export=" + args[i + 1] + "=" + args[i + 2]);
      i += 2;
      continue;
    }
    flags->push_back(args[i]);
    const bool takes_value =
        std::any_of(command.flags.begin(), command.flags.end(), [&](const FlagSpec& flag) {
          return flag.kind != FlagKind::kSwitch &&
                 (flag.name == args[i] || std::find(flag.aliases.begin(), flag.aliases.end(),
                                                    args[i]) != flag.aliases.end());
        });
    if (takes_value && i + 1 < args.size()) flags->push_back(args[++i]);
  }
  return {};
}

Result<std::vector<Export>> ReadExports(const FlagValues& values) {
  std::vector<Export> exports;
  for (const std::string& text : values.List("--export")) {
    const size_t equals = text.find('=');
    Export one{text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
    const bool known =
        one.kind == "sglang" || one.kind == "vllm" || one.kind == "csv" || one.kind == "json";
    if (!known || one.file.empty()) {
      return InvalidArgument(
          fmt::format("--export is {}, expected one of {} and a file", one.kind, kExportKinds));
    }
    exports.push_back(std::move(one));
  }
  return exports;
}

Status WriteExport(const Export& one, const Results& results) {
  const std::string text = one.kind == "sglang" ? ExportSglang(results)
                           : one.kind == "vllm" ? ExportVllm(results)
                           : one.kind == "csv"  ? ExportCsv(results)
                                                : ExportJson(results);
  FS_TRY(WriteFileAtomically(one.file, text));
  fmt::print(stderr, "wrote {}\n", one.file);
  return {};
}

Status AsFileFault(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? DataCorrupt(status.message()) : status;
}

Status AnalyseAndWrite(const FlagValues& values, const std::vector<std::string>& paths,
                       std::optional<std::string>* failed) {
  if (paths.empty()) {
    return InvalidArgument(
        "no results given, expected files or directories that firesteel, vllm bench serve or "
        "sglang.bench_serving wrote");
  }
  std::string language_name = "en";
  FS_TRY(values.ReadChoice("--lang", {"en", "zh"}, &language_name));
  FS_ASSIGN(const std::vector<Export> exports, ReadExports(values));
  std::vector<FailCondition> conditions;
  for (const std::string& text : values.List("--fail-if")) {
    FS_ASSIGN(FailCondition condition, ParseFailCondition(text));
    conditions.push_back(std::move(condition));
  }
  AnalysisOptions options;
  FS_TRY(values.ReadText("--baseline", &options.baseline));
  for (const std::string& assignment : values.List("--threshold"))
    FS_TRY(SetThreshold(assignment, &options.thresholds));

  Result<Results> imported = ImportResults(paths);
  // A damaged file is no wrong usage.
  if (!imported.ok()) return AsFileFault(imported.status());
  Results results = *std::move(imported);
  FS_ASSIGN(const Analysis analysis, Analyze(std::move(results), std::move(options)));
  const Document document = BuildReport(analysis, *ParseLanguage(language_name));
  for (const Export& one : exports) FS_TRY(WriteExport(one, *analysis.results));
  if (values.Has("--markdown")) {
    const std::string file = values.Text("--markdown");
    FS_TRY(WriteFileAtomically(file, RenderMarkdown(document)));
    fmt::print(stderr, "wrote {}\n", file);
  }
  if (values.Has("--html")) {
    const std::string file = values.Text("--html");
    FS_TRY(WriteFileAtomically(file, RenderHtml(document)));
    fmt::print(stderr, "wrote {}\n", file);
  }
  if (exports.empty() && !values.Has("--markdown") && !values.Has("--html")) {
    fmt::print("{}", RenderMarkdown(document));
  }
  for (const FailCondition& condition : conditions) {
    FS_ASSIGN(*failed, MeetsFailCondition(condition, analysis));
    if (*failed) return {};
  }
  return {};
}

}  // namespace

CommandSpec ReportCommandSpec() {
  return {
      .name = "report",
      .summary =
          "Analyse results and write a report: ours, vLLM's and SGLang's, files or "
          "directories, mixed",
      .positional = "RESULTS…",
      .positional_help = "result files, or directories searched for *.json and *.jsonl",
      .flags = {{"--markdown", FlagKind::kValue, "FILE", "the terminal",
                 "write Markdown to a file"},
                {"--html", FlagKind::kValue, "FILE", "none",
                 "write one HTML page with charts, which needs no network"},
                {"--baseline", FlagKind::kValue, "NAME", "the configuration without speculation",
                 "configuration that others are compared with"},
                {"--lang", FlagKind::kValue, "LANGUAGE", "en", "language of the report: en or zh"},
                {"--export", FlagKind::kRepeated, "KIND FILE", "none",
                 "write the runs as sglang, vllm, csv or json as well"},
                {"--fail-if", FlagKind::kRepeated, "CONDITION", "none",
                 "exit with 1 when it holds: \"METRIC > NUMBER\" (or >=, <, <=) of any cell, "
                 "\"speedup < NUMBER\", regression (against the baseline), void, or the name of a "
                 "rule such as CLIFF"},
                {"--threshold", FlagKind::kRepeated, "NAME=NUMBER", "see the end of a report",
                 "change a threshold of the rules; the report lists what was changed"}},
      .has_config = false};
}

int ReportCommand(const std::vector<std::string>& args) {
  const CommandSpec command = ReportCommandSpec();
  std::vector<std::string> paths, flags;
  if (const Status status = SplitArguments(command, args, &paths, &flags); !status.ok())
    return FinishCommand(command, status);
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, flags, &values)) return *exit_code;
  std::optional<std::string> failed;
  const Status status = AnalyseAndWrite(values, paths, &failed);
  if (!status.ok()) return FinishCommand(command, status);
  if (!failed) return kExitOk;
  fmt::print(stderr, "firesteel report: --fail-if holds: {}\n", *failed);
  return kExitFailed;
}

}  // namespace firesteel
