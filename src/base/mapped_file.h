// A whole file mapped read-only. Movable; the bytes live as long as the object. Immutable after
// construction.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "firesteel/status.h"

namespace firesteel {

class MappedFile {
 public:
  // kNotFound when there is no such file; kInvalidArgument when it is not a regular file.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Small text files (configs). kNotFound, or kInvalidArgument above `max_bytes`.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes = size_t{64} << 20);
// Writes to a temporary file beside `path`, then renames: a reader sees the old file or the new
// one.
Status WriteFileAtomically(const std::string& path, const std::string& content);

}  // namespace firesteel
