#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/rng.h"

namespace firesteel {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

Status Failed(const std::string& path, const char* verb, int error) {
  const std::string message = fmt::format("{}: cannot {}: {}", path, verb, std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? NotFound(message) : InvalidArgument(message);
}

Result<File> OpenRegular(const std::string& path, struct stat* info) {
  // Non-blocking, so that a pipe is refused below and not waited for here.
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return Failed(path, "open", errno);
  if (fstat(file.fd(), info) != 0) return Failed(path, "read its size", errno);
  if (!S_ISREG(info->st_mode)) {
    return InvalidArgument(fmt::format("{}: is {}, expected a regular file", path,
                                       S_ISDIR(info->st_mode) ? "a directory" : "a special file"));
  }
  return file;
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  struct stat info;
  FS_ASSIGN(const File file, OpenRegular(path, &info));
  MappedFile mapped;
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return mapped;  // mmap refuses an empty range
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) return Failed(path, "map", errno);
  mapped.bytes_ = {static_cast<const std::byte*>(data), size};
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  struct stat info;
  FS_ASSIGN(const File file, OpenRegular(path, &info));
  std::string content;
  char chunk[1 << 16];
  while (true) {
    const ssize_t got = read(file.fd(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(path, "read", errno);
    if (got == 0) return content;
    if (content.size() + static_cast<size_t>(got) > max_bytes) {
      return InvalidArgument(fmt::format("{}: holds {} bytes, expected at most {}", path,
                                         static_cast<int64_t>(info.st_size), max_bytes));
    }
    content.append(chunk, static_cast<size_t>(got));
  }
}

Status WriteFileAtomically(const std::string& path, const std::string& content) {
  const std::string temporary = fmt::format("{}.{:016x}", path, RandomSeed());
  {
    const File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.fd() < 0) return Failed(temporary, "create", errno);
    size_t done = 0;
    while (done < content.size()) {
      const ssize_t wrote = write(file.fd(), content.data() + done, content.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        const int error = errno;
        unlink(temporary.c_str());
        return Failed(temporary, "write", error);
      }
      done += static_cast<size_t>(wrote);
    }
    if (fsync(file.fd()) != 0) {
      const int error = errno;
      unlink(temporary.c_str());
      return Failed(temporary, "flush", error);
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return Failed(path, "replace", error);
  }
  return {};
}

}  // namespace firesteel
