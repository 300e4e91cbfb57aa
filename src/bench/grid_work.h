// The prompts of a grid's scenarios.
#pragma once

#include <string>
#include <vector>

#include "bench/grid_config.h"
#include "bench/workload.h"
#include "firesteel/status.h"

namespace firesteel {

// One scenario's requests: the same for every configuration.
class GridWork {
 public:
  // Reads the file. Errors as ReadPrompts.
  static Result<GridWork> Load(const GridConfig& config, const GridScenario& scenario);

  std::vector<Prompt> PromptsAt(const GridLevel& level) const;
  size_t CountAt(const GridLevel& level) const;
  size_t num_prompts() const { return prompts_.size(); }  // 0: random, as many as asked for
  const std::string& hash() const { return hash_; }       // equal for equal prompts

 private:
  std::vector<Prompt> prompts_;
  std::string hash_;
};

}  // namespace firesteel
