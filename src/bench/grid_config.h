// A grid file: which configurations of the server to compare, at which concurrency, on which
// prompts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel {

struct GridLevel {
  int32_t concurrency = 1;
  int32_t num_prompts = 0;  // 0: every prompt of the file
};

struct GridConfiguration {
  std::string name;
  std::vector<std::string>
      flags;  // as on the command line of `firesteel serve`: "--spec-method", "dspark"
};

// Paths are relative to the working directory.
struct GridConfig {
  std::string model;                              // "": the bundled demo model
  std::string prompts;                            // see workload.h
  std::vector<std::string> server_flags;          // of every configuration
  std::vector<GridConfiguration> configurations;  // the first is what the others are compared with
  std::vector<GridLevel> levels;                  // ascending concurrency
  int32_t max_tokens = 128;
  int32_t repeats = 1;            // configurations alternate within each
  int32_t warmups = 1;            // requests before the measured ones of each cell
  Json request = Json::object();  // further keys of every request: temperature, seed, …
  int64_t start_timeout_s = 300;  // from starting a server to its first healthy answer
};

// kInvalidArgument names `where`, the key, what was found and expected; unknown keys get a
// suggestion.
Result<GridConfig> ParseGridConfig(const Json& document, const std::string& where);
Result<GridConfig> ReadGridConfig(const std::string& path);

}  // namespace firesteel
