#include "analysis/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "analysis/import_internal.h"
#include "analysis/json_values.h"
#include "base/mapped_file.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = size_t{1} << 30;

// Values that are no results of anybody, but that we know and pass over: oracles for tests.
bool IsOracle(const Json& object) { return ToolText(object, "schema").starts_with("golden-"); }

Status ImportObject(const Json& object, const RunOrigin& origin, Results* results,
                    bool* recognized) {
  struct Kind {
    bool (*is)(const Json&);
    Status (*import)(const Json&, const RunOrigin&, Results*);
  };
  // Our own files carry vLLM's keys too: they come first.
  constexpr Kind kKinds[] = {
      {IsReportTable, ImportReportTable}, {IsWorkloadTable, ImportWorkloadTable},
      {IsOwnRun, ImportOwnRun},           {IsSummaryCell, ImportSummaryCell},
      {IsVllmResult, ImportVllm},         {IsSglangResult, ImportSglang},
  };
  for (const Kind& kind : kKinds) {
    if (!kind.is(object)) continue;
    *recognized = true;
    return kind.import(object, origin, results);
  }
  return {};
}

// Sorted, so that equal directories give equal reports.
Result<std::vector<std::string>> FilesIn(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    const std::string extension = it->path().extension().string();
    if (extension == ".json" || extension == ".jsonl") files.push_back(it->path().string());
  }
  if (error) return NotFound(fmt::format("{}: cannot be read: {}", directory, error.message()));
  if (files.empty()) {
    return NotFound(
        fmt::format("{}: holds no file named *.json or *.jsonl, expected results", directory));
  }
  std::sort(files.begin(), files.end());
  return files;
}

Status ImportFile(const std::string& path, bool named, Results* results) {
  FS_ASSIGN(const std::string text, ReadFile(path, kMaxFileBytes));
  bool recognized = false;
  FS_TRY(ImportText(text, path, results, &recognized));
  if (recognized) return {};
  if (named) {
    return Unsupported(fmt::format(
        "{}: holds no result, expected what firesteel, vllm bench serve or sglang.bench_serving "
        "write",
        path));
  }
  results->log.push_back(fmt::format("{}: no results in it, left out", path));
  return {};
}

}  // namespace

Status ImportText(const std::string& text, const std::string& path, Results* results,
                  bool* recognized) {
  FS_ASSIGN(const std::vector<JsonAt> values, ParseJsonValues(text, path));
  for (const JsonAt& at : values) {
    if (IsOracle(at.value)) continue;
    const RunOrigin origin{.file = path, .line = values.size() == 1 ? 0 : at.line};
    FS_TRY(ImportObject(at.value, origin, results, recognized));
  }
  return {};
}

Result<Results> ImportResults(const std::vector<std::string>& paths) {
  Results results;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      FS_ASSIGN(const std::vector<std::string> files, FilesIn(path));
      for (const std::string& file : files) {
        // A grid's summary repeats its cells; the cells say more.
        if (fs::path(file).filename() == "summary.json" &&
            fs::is_directory(fs::path(file).parent_path() / "cells", error)) {
          results.log.push_back(fmt::format("{}: its cells are read instead", file));
          continue;
        }
        FS_TRY(ImportFile(file, /*named=*/false, &results));
      }
    } else {
      FS_TRY(ImportFile(path, /*named=*/true, &results));
    }
  }
  MergeRuns(&results);
  if (results.runs.empty()) {
    return Unsupported(fmt::format("{}: holds no result", paths.empty() ? "nothing" : paths[0]));
  }
  return results;
}

}  // namespace firesteel
