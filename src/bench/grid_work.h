// The prompts of a grid's scenarios.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/dataset.h"
#include "bench/grid_config.h"
#include "bench/workload.h"
#include "firesteel/status.h"
#include "text/tokenizer.h"

namespace firesteel {

// One scenario's requests: the same for every configuration.
class GridWork {
 public:
  // Reads the prompt file, or the tokenizer that random prompts are made with. Errors as theirs.
  static Result<GridWork> Load(const GridConfig& config, const GridScenario& scenario);

  // SGLang draws the lengths of all prompts one after the other: a level with more prompts has
  // other lengths, not more of the same.
  Result<Dataset> PromptsAt(const GridLevel& level) const;
  size_t num_prompts() const { return prompts_.size(); }  // 0: random, as many as asked for
  const std::string& hash() const { return hash_; }       // equal for equal prompts

 private:
  std::vector<Prompt> prompts_;
  std::shared_ptr<const Tokenizer> tokenizer_;  // of random prompts
  DatasetOptions random_;
  std::string hash_;
};

}  // namespace firesteel
