// YAML files as JSON values: plain scalars become null, booleans, integers or numbers as YAML 1.2's
// core schema reads them, quoted ones strings. Anchors are followed; duplicate keys and documents
// beyond the first are errors.
#pragma once

#include <string>

#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel {

// kInvalidArgument names `where` and the line.
Result<Json> ParseYaml(const std::string& text, const std::string& where);
Result<Json> ReadYaml(const std::string& path);

}  // namespace firesteel
