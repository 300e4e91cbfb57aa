// The flags of `bench serve`: vLLM's, and SGLang's spellings of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/load_generator.h"
#include "cli/flag_table.h"
#include "firesteel/status.h"

namespace firesteel {

struct BenchServeOptions {
  LoadOptions load;  // max_concurrency 0: all at once
  std::string dataset_path;
  int32_t num_prompts = 0;               // 0: every row
  std::optional<uint64_t> shuffle_seed;  // nullopt: the file's order
  std::string output_file;               // "": nothing is written
  bool save_detailed = false;
};

std::vector<FlagSpec> BenchServeFlags();
Result<BenchServeOptions> ReadBenchServeFlags(const FlagValues& values);

}  // namespace firesteel
