// Results in the formats of other tools, for their scripts and plots.
#pragma once

#include <string>

#include "analysis/run.h"

namespace firesteel {

// One line per run with the keys of `sglang.bench_serving`. A run that was read from such a line
// comes back as it was; absent figures are left out. Infinity is a bare word, as the tool writes
// it, unless `strict`.
std::string ExportSglang(const Results& results, bool strict = false);

// Objects with the keys of `vllm bench serve --save-result`, a newline between them and none at
// the end, as --append-result writes them.
std::string ExportVllm(const Results& results);

// One row per run, one column per metric, RFC 4180.
std::string ExportCsv(const Results& results);

// Everything that is known of each run, with where it was read.
std::string ExportJson(const Results& results);

}  // namespace firesteel
