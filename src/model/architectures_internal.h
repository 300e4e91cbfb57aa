// What architectures.cc and the architectures' own files share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/packed_weight.h"
#include "model/architectures.h"
#include "model/safetensors.h"

namespace firesteel {

// What weight_dtype asks for; nullopt: as stored. kInvalidArgument names those that there are.
struct PackFormats {
  std::optional<WeightFormat> matrices;
  std::optional<WeightFormat> head;
};
Result<PackFormats> FormatsOf(const LoadOptions& options);
// kUnsupported when weight_dtype is fp8 and no tensor is.
Status CheckStoredFormat(const LoadOptions& options, const std::string& directory,
                         const Safetensors& tensors);

Result<std::unique_ptr<Model>> MakeDenseDecoder(Exec& exec, const std::string& directory,
                                                const Json& config, const LoadOptions& options);

}  // namespace firesteel
