// Results in the formats of the two public benchmark tools, key for key, each figure by that tool's
// own definition, so that scripts written for them go on working.
//
// Where they differ from ours: both time events, not tokens; vLLM starts at the first event with
// choices and ends with the last, SGLang at the first text and ends with the last line; SGLang
// takes the requested length for the output where the server counts nothing. Requests that we call
// failed are failed here too. Functions without state, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "bench/load_generator.h"
#include "bench/run_result.h"

namespace firesteel {

// Arguments that both tools repeat in their results.
struct ExportOptions {
  std::string backend = "openai";
  std::string label;         // "": null
  std::string tokenizer_id;  // "": the model's name
  std::string tag;           // "": null
  std::string dataset = "custom";
  int32_t sharegpt_output_len = 0;  // 0: null
  int32_t random_input_len = 0;
  int32_t random_output_len = 0;
  double random_range_ratio = 0;
  std::vector<std::string> metrics = {"ttft", "tpot", "itl"};
  std::vector<double> percentiles = {99};
  bool detailed = false;
  bool strict_json = false;  // "inf" where SGLang writes Infinity
};

// vLLM's --save-result.
Json VllmResult(const ExportOptions& options, const LoadResult& load, const RunResult& run);
// vLLM's name for the file: BACKEND-RATEqps[-concurrencyC]-MODEL-DATE.json
std::string VllmFileName(const ExportOptions& options, const RunResult& run);

// SGLang's line for --output-file, with its newline.
std::string SglangLine(const ExportOptions& options, const LoadResult& load, const RunResult& run);
std::string SglangFileName(const ExportOptions& options, const RunResult& run);

}  // namespace firesteel
