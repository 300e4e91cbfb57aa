// For tests: files of this repository, and the tensors of golden files that training/golden.py
// writes.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/safetensors.h"

namespace firesteel {

// `path` is relative to the root of the repository.
inline std::string SourcePath(const std::string& path) {
  return std::string(FIRESTEEL_SOURCE_DIR) + "/" + path;
}

// All elements of tensor `name`. REQUIRES: it exists and holds elements of T.
template <typename T>
std::vector<T> ReadAll(const Safetensors& golden, const std::string& name) {
  const auto found = golden.tensors().find(name);
  FS_CHECK(found != golden.tensors().end(), "golden file has no {}", name);
  std::vector<T> values(static_cast<size_t>(found->second.NumElements()));
  std::memcpy(values.data(), found->second.data, values.size() * sizeof(T));
  return values;
}

}  // namespace firesteel
