// A grid file: which configurations of which servers to compare, on which work, at which
// concurrency.
#pragma once

#include <cstdint>
#include <optional>
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

// The work of a cell: where prompts come from and how much is asked for.
struct GridScenario {
  std::string name = {};     // "" when the file has one scenario only
  std::string prompts = {};  // a file, see workload.h; "" with a random data set
  // Random data set: lengths are uniform from range_ratio * bound to the bound, by SGLang's rule.
  // The file's `lengths: bound` makes them the bounds, `lengths: mean` their halves.
  int32_t random_input_len = 0;
  int32_t random_output_len = 0;
  double random_range_ratio = 0;
  int32_t max_tokens = 128;            // of prompts from a file that name no length
  Json request = Json::object();       // further keys of every request: temperature, seed, …
  std::vector<GridLevel> levels = {};  // ascending concurrency

  bool is_random() const { return random_input_len > 0; }
};

// A server: ours with flags, one that a command starts, or one that runs already.
struct GridConfiguration {
  std::string name;
  std::vector<std::string> flags = {};    // of `firesteel serve`: "--spec-method", "dspark"
  std::vector<std::string> command = {};  // of another server; {port} becomes a free port
  std::string url = {};                   // of another server; may hold {port}. "" for ours
  std::string health = "/health";
  std::string model = {};  // ours: in place of the grid's; others: as they serve it, "" asks them
  std::string api_key_env = {};  // the variable that holds the key, which is never stored
  // What the server speculates with, where it is not ours and cannot say.
  std::string spec_method = {};
  std::optional<int32_t> spec_tokens = {};
  std::optional<int32_t> gpus = {};
  Json tags = Json::object();

  bool is_ours() const { return url.empty(); }
};

// Cells that are left out. Empty fields mean any.
struct GridExclusion {
  std::string configuration = {};
  std::string scenario = {};
  std::vector<int32_t> concurrency = {};
};

// Paths are relative to the working directory.
struct GridConfig {
  std::string model;                              // "": the bundled demo model
  std::vector<std::string> server_flags;          // of every server of ours
  std::vector<GridConfiguration> configurations;  // the first is what the others are compared with
  std::vector<GridScenario> scenarios;
  std::vector<GridExclusion> exclusions;
  int32_t repeats = 1;  // configurations alternate within each
  // Requests before the measured ones of each cell: so many, and so many for each client if that is
  // more.
  int32_t warmups = 1;
  int32_t warmups_per_concurrency = 0;
  bool cold_cache = false;     // drop each server's prefix cache before every cell
  std::string tokenizer = {};  // folder with the model's, for random data sets; "": the model's own
  uint64_t seed = 42;          // of random data sets
  int64_t start_timeout_s = 300;  // from starting a server to its first healthy answer
  // Below it a run's steady part is too short to be trusted; reports list a value that is not 30.
  double min_window_s = 30;
  // P99 of how late the client may see what arrived; above it a run is void. Reports list a value
  // that is not 1: on one machine, client and server take the cores from each other.
  double max_client_lag_ms = 1;

  int32_t WarmupsAt(const GridLevel& level) const;
};

// kInvalidArgument names `where`, the key, what was found and expected; unknown keys get a
// suggestion.
Result<GridConfig> ParseGridConfig(const Json& document, const std::string& where);
Result<GridConfig> ReadGridConfig(const std::string& path);

}  // namespace firesteel
