// The table of target architectures. A new one is one file and one row.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "model/model.h"

namespace firesteel {

struct LoadOptions {
  // auto (as stored) | float32 (widened, exact) | bfloat16 (rounded to nearest even) | fp8 (stored
  // so, else an error) | int8 | int4 (the head int8), made here. Speaks of the matrices of layers
  // and head; norms are float32 and embedding rows are read as stored, always.
  std::string weight_dtype = "auto";
  std::string weight_cache = "";  // directory of what int8 and int4 were made before; "": none
  int32_t ballast_layers = 0;
  int32_t ballast_width = 0;  // 0: the model's own MLP width
  int32_t max_positions = 0;  // rope tables reach this far; 0: the config's
  // Hears the share of the checkpoint that is packed.
  std::function<void(double)> progress = nullptr;
};

struct ArchitectureEntry {
  std::string_view name;  // as in config.json
  Result<std::unique_ptr<Model>> (*make)(Exec& exec, const std::string& directory,
                                         const Json& config, const LoadOptions& options);
};

std::span<const ArchitectureEntry> Architectures();

// Reads config.json and hands over to its row; kUnsupported lists the known names.
Result<std::unique_ptr<Model>> LoadModel(Exec& exec, const std::string& directory,
                                         const LoadOptions& options);

}  // namespace firesteel
