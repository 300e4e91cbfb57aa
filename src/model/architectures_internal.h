// What architectures.cc and the architectures' own files share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/architectures.h"
#include "tensor/dtype.h"

namespace firesteel {

// weight_dtype as a packing type; nullopt for auto. kInvalidArgument names the three.
Result<std::optional<DType>> PackDType(const LoadOptions& options);

Result<std::unique_ptr<Model>> MakeQwen3(Exec& exec, const std::string& directory,
                                         const Json& config, const LoadOptions& options);

}  // namespace firesteel
