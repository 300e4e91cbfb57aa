// Reads results of any kind: our runs, grids and summaries, vLLM's and SGLang's result files, and
// tables transcribed from reports. The kind is told by the keys, not by the name.
#pragma once

#include <string>
#include <vector>

#include "analysis/run.h"
#include "firesteel/status.h"

namespace firesteel {

// Files, and directories searched for *.json and *.jsonl. A file that is named and holds no result
// is an error; inside a directory it is left out, and Results::log says so. Two tellings of one
// run become one run. Errors name file and line: kNotFound, kInvalidArgument (not JSON, cut short,
// a figure that is no number), kUnsupported (JSON, but no result).
Result<Results> ImportResults(const std::vector<std::string>& paths);

// One file's text, added to *results as read; `path` names it in messages and decides nothing.
// *recognized says whether there was a result in it. For tests and fuzzing; ImportResults does the
// rest of the work.
Status ImportText(const std::string& text, const std::string& path, Results* results,
                  bool* recognized);

}  // namespace firesteel
