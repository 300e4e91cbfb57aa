// Flags of `bench serve`: those of vLLM's and of SGLang's benchmark, and a few of our own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/dataset.h"
#include "bench/load_generator.h"
#include "bench/result_export.h"
#include "cli/flag_table.h"
#include "firesteel/status.h"

namespace firesteel {

struct BenchServeOptions {
  LoadGeneratorOptions load;  // max_concurrency 0: no cap, or in a closed loop all at once
  DatasetOptions dataset;
  std::string tokenizer;  // a directory; "": none is at hand
  bool tokenizer_named = false;
  ExportOptions exports;
  std::string result_json;  // ours; "": not written, as for all
  std::string vllm_dir;     // with vllm_file: one object, vLLM's
  std::string vllm_file;    // "": vLLM's own name
  bool save_vllm = false;
  bool append_vllm = false;
  std::string sglang_file;  // a line is added to it
  bool progress = true;
};

std::vector<FlagSpec> BenchServeFlags();
Result<BenchServeOptions> ReadBenchServeFlags(const FlagValues& values);

}  // namespace firesteel
