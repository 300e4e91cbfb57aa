#include "bench/grid_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/mapped_file.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

Status MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return NotFound(fmt::format("{}: cannot be made: {}", path.string(), error.message()));
  return {};
}

// "cells/a/b.json" as one name.
std::string FlatName(const PlannedCell& cell) {
  std::string name = cell.path.substr(cell.path.find('/') + 1);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

bool IsOf(const Json& result, const PlannedCell& cell) {
  const auto grid = result.find("grid");
  if (grid == result.end() || !grid->is_object()) return false;
  const auto work = GetString(*grid, "work", "grid");
  const auto setup = GetString(*grid, "setup", "grid");
  return work.ok() && setup.ok() && *work == cell.work && *setup == cell.setup;
}

}  // namespace

Result<GridStore> GridStore::Open(const std::string& directory) {
  for (const char* name : {"cells", "logs"}) FS_TRY(MakeFolder(fs::path(directory) / name));
  const std::string path = directory + "/.lock";
  // The kernel lets go of the lock when the process ends, however it ends; a server started by it
  // does not inherit it.
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return NotFound(fmt::format("{}: cannot be written: {}", path, strerror(errno)));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return Unavailable(fmt::format("{}: another grid is running here", directory));
  }
  return GridStore(directory, lock);
}

GridStore::GridStore(GridStore&& other) noexcept
    : directory_(std::move(other.directory_)), lock_(std::exchange(other.lock_, -1)) {}

GridStore::~GridStore() {
  if (lock_ >= 0) close(lock_);
}

std::optional<Json> GridStore::Find(const PlannedCell& cell) const {
  const Result<std::string> text = ReadFile(directory_ + "/" + cell.path, size_t{1} << 30);
  if (!text.ok()) return std::nullopt;
  Result<Json> result = ParseJson(*text, cell.path);
  // A file that somebody has cut or changed is measured again, not trusted.
  if (!result.ok() || !result->is_object() || !IsOf(*result, cell)) return std::nullopt;
  return *std::move(result);
}

Status GridStore::SetAside(const PlannedCell& cell) {
  const fs::path path = fs::path(directory_) / cell.path;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const fs::path folder = fs::path(directory_) / "superseded";
  FS_TRY(MakeFolder(folder));
  for (int32_t n = 1;; ++n) {
    const fs::path target = folder / fmt::format("{}.{}", FlatName(cell), n);
    if (fs::exists(target, error)) continue;
    fs::rename(path, target, error);
    if (error) {
      return NotFound(fmt::format("{}: cannot be moved to {}: {}", path.string(), target.string(),
                                  error.message()));
    }
    return {};
  }
}

Status GridStore::Put(const PlannedCell& cell, Json result) {
  FS_TRY(SetAside(cell));
  result["grid"] = {{"work", cell.work}, {"setup", cell.setup}};
  const fs::path path = fs::path(directory_) / cell.path;
  FS_TRY(MakeFolder(path.parent_path()));
  FS_TRY(WriteFileAtomically(path.string(), DumpJson(result, 1) + "\n"));
  std::error_code error;
  fs::remove(fs::path(directory_) / "failed" / FlatName(cell), error);
  return {};
}

Status GridStore::PutFailure(const PlannedCell& cell, const std::string& error) {
  const fs::path folder = fs::path(directory_) / "failed";
  FS_TRY(MakeFolder(folder));
  const Json record = {{"cell", cell.path}, {"failure", error}};
  return WriteFileAtomically((folder / FlatName(cell)).string(), DumpJson(record, 1) + "\n");
}

std::string GridStore::LogStem(const std::string& name) const {
  return fmt::format("{}/logs/{}", directory_, name);
}

}  // namespace firesteel
