// EAGLE-3 checkpoints: DeepSpec's, and those of SpecForge, the EAGLE authors and speculators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"
#include "model/config.h"
#include "model/model.h"

namespace firesteel {

struct Eagle3Config {
  DecoderConfig decoder;               // of the one layer
  std::vector<int32_t> target_layers;  // residual stream after layer k, 0-based; -1: the embedding
  int32_t draft_vocab = 0;             // rows of the head
  int32_t depth = 0;                   // what it was trained for
  bool norm_before_residual = false;   // the residual is the normed hidden vector
  bool norm_before_fc = false;         // the features are normed, all at once
  bool norm_output = false;            // the next row reads the output after the final norm
};

// kInvalidArgument or kUnsupported: names the field, what was found, and what the target has.
Result<Eagle3Config> ParseEagle3Config(const Json& config, const ModelInfo& target,
                                       const std::string& where);

}  // namespace firesteel
