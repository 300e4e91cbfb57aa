// The table of drafters. A new one is one file and one row.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "firesteel/options.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "model/model.h"
#include "speculation/drafter.h"

namespace firesteel {

struct DrafterContext {
  Exec& exec;
  const Model& target;
  int32_t first_group = 0;  // index of the drafter's first cache group
  int32_t max_slots = 0;
  int32_t max_model_len = 0;
  SpeculationOptions options;
  Json config;  // options.config_json, parsed; a drafter reads its own keys
};

struct DrafterEntry {
  std::string_view name;
  std::string_view summary;  // one line for --help
  Result<std::unique_ptr<Drafter>> (*make)(const DrafterContext& context);
};

std::span<const DrafterEntry> Drafters();

// `options.method`: a name of the table, or "auto", which reads options.model's config.json
// (architectures) and takes what it names, or none when options.model is empty. kInvalidArgument
// lists the names.
Result<std::unique_ptr<Drafter>> MakeDrafter(const DrafterContext& context);

}  // namespace firesteel
