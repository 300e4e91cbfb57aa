#include "model/weight_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mapped_file.h"
#include "kernels/weight_packer.h"
#include "model/sha256.h"

namespace firesteel {
namespace {

// Also to be raised when weights are quantized differently or lie elsewhere in a panel.
constexpr uint32_t kVersion = 1;
constexpr char kMagic[8] = {'F', 'S', 'W', 'E', 'I', 'G', 'H', 'T'};
constexpr size_t kHeaderBytes = 4096;
constexpr int64_t kPieceBytes = int64_t{4} << 20;  // hashed by one thread

struct Header {
  char magic[8];
  uint32_t version;
  char format[12];
  int64_t rows;
  int64_t cols;
  int64_t panel_bytes;
  int64_t bytes;
  Sha256 source;
  Sha256 contents;
};
static_assert(sizeof(Header) == 120 && std::is_trivially_copyable_v<Header>);

int64_t NumPieces(int64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

std::span<const std::byte> AsBytes(const std::vector<Sha256>& hashes) {
  return std::as_bytes(std::span(hashes));
}

// The hash of the hashes of the pieces, taken in parallel. `visit` is called before a piece is
// hashed.
template <typename Visit>
Sha256 HashOf(Exec& exec, std::span<const std::byte> bytes, Visit visit) {
  const auto size = static_cast<int64_t>(bytes.size());
  std::vector<Sha256> hashes(static_cast<size_t>(NumPieces(size)));
  exec.pool.ParallelFor(NumPieces(size), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * kPieceBytes, count = std::min(kPieceBytes, size - at);
      visit(at, count);
      hashes[static_cast<size_t>(i)] =
          Sha256Of(bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
    }
  });
  return Sha256Of(AsBytes(hashes));
}

Sha256 HashOf(Exec& exec, std::span<const std::byte> bytes) {
  return HashOf(exec, bytes, [](int64_t, int64_t) {});
}

// Of everything that the packed weight depends on.
Sha256 SourceHash(Exec& exec, std::span<const WeightSource> parts) {
  std::string all;
  for (const WeightSource& part : parts) {
    for (const WeightView* view : {&part.weight, &part.scale}) {
      if (view->data == nullptr) continue;
      const size_t size = static_cast<size_t>(view->rows * view->cols) * SizeOf(view->dtype);
      all += fmt::format("{} [{}, {}] {}\n", Name(view->dtype), view->rows, view->cols,
                         Hex(HashOf(exec, {view->data, size})));
    }
  }
  return Sha256Of(std::as_bytes(std::span(all)));
}

std::span<const std::byte> Contents(const PackedWeight& weight) {
  return {weight.data(), static_cast<size_t>(weight.bytes())};
}

Header HeaderOf(const PackedWeight& weight, const Sha256& source) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  const std::string_view name = Name(weight.format());
  std::memcpy(header.format, name.data(), std::min(name.size(), sizeof(header.format)));
  header.rows = weight.rows();
  header.cols = weight.cols();
  header.panel_bytes = weight.panel_bytes();
  header.bytes = weight.bytes();
  header.source = source;
  return header;
}

// Fills `weight`, of the right format and shape, from the file; else says why not.
Status Read(Exec& exec, const MappedFile& file, const Sha256& source, const PackedWeight& weight) {
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kHeaderBytes) return DataCorrupt("is cut off");
  Header found;
  std::memcpy(&found, bytes.data(), sizeof(found));
  Header expected = HeaderOf(weight, source);
  expected.contents = found.contents;
  if (std::memcmp(found.magic, kMagic, sizeof(kMagic)) != 0) {
    return DataCorrupt("is no file of packed weights");
  }
  if (found.version != kVersion) {
    return DataCorrupt(fmt::format("is of version {}, expected {}", found.version, kVersion));
  }
  if (found.source != source) return DataCorrupt("was made from other tensors");
  if (std::memcmp(&found, &expected, sizeof(found)) != 0) {
    return DataCorrupt(fmt::format("holds [{}, {}], expected {} [{}, {}] in panels of {} bytes",
                                   found.rows, found.cols, Name(weight.format()), weight.rows(),
                                   weight.cols(), weight.panel_bytes()));
  }
  if (bytes.size() != kHeaderBytes + static_cast<size_t>(weight.bytes())) {
    return DataCorrupt(fmt::format("is {} bytes long, expected {}", bytes.size(),
                                   kHeaderBytes + static_cast<size_t>(weight.bytes())));
  }
  // What is hashed is the copy that will be used.
  std::byte* to = WeightPacker::Panel(weight, 0);
  const std::byte* from = bytes.data() + kHeaderBytes;
  const Sha256 contents = HashOf(exec, Contents(weight), [&](int64_t at, int64_t count) {
    std::memcpy(to + at, from + at, static_cast<size_t>(count));
  });
  if (contents != found.contents) return DataCorrupt("is damaged: its SHA-256 differs");
  return {};
}

Status WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Internal(std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status Write(const std::string& path, const Header& header, const PackedWeight& weight) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return Internal(std::strerror(errno));
  std::vector<std::byte> head(kHeaderBytes);
  std::memcpy(head.data(), &header, sizeof(header));
  Status status = WriteAll(fd, head);
  if (status.ok()) status = WriteAll(fd, Contents(weight));
  if (status.ok() && ::fchmod(fd, 0644) != 0) status = Internal(std::strerror(errno));
  if (::close(fd) != 0 && status.ok()) status = Internal(std::strerror(errno));
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Internal(std::strerror(errno));
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace

Result<WeightCache> WeightCache::Open(const std::string& directory, const std::string& checkpoint) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!std::filesystem::is_directory(directory)) {
    return InvalidArgument(fmt::format("weight cache {}: is no directory and cannot be made: {}",
                                       directory, error.message()));
  }
  WeightCache cache;
  cache.directory_ = directory;
  cache.checkpoint_ = std::filesystem::weakly_canonical(checkpoint, error).string();
  return cache;
}

std::string WeightCache::PathOf(std::span<const WeightSource> parts, WeightFormat format) const {
  std::string key = checkpoint_;
  for (const WeightSource& part : parts) key += "\n" + part.weight.name;
  std::string name = parts[0].weight.name.substr(0, 100);
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  std::ranges::replace_if(
      name, [&](char c) { return !is_plain(c); }, '_');
  const Sha256 hash = Sha256Of(std::as_bytes(std::span(key)));
  return fmt::format("{}/{}-{}-{}.packed", directory_, name, Name(format), Hex(hash).substr(0, 16));
}

Result<PackedWeight> WeightCache::Pack(Exec& exec, std::span<const WeightSource> parts,
                                       WeightFormat format) {
  if (parts.empty()) return PackWeight(exec, parts, format);  // which says what is wrong
  const std::string path = PathOf(parts, format);
  const Sha256 source = SourceHash(exec, parts);
  if (const Result<MappedFile> file = MappedFile::Open(path); file.ok()) {
    int64_t rows = 0;
    for (const WeightSource& part : parts) rows += part.weight.rows;
    PackedWeight weight = WeightPacker::Allocate(format, rows, parts[0].weight.cols);
    const Status status = Read(exec, *file, source, weight);
    if (status.ok()) {
      ++num_read_;
      return weight;
    }
    FS_LOG_WARNING("weight cache: {} {}; it is made again", path, status.message());
  }
  FS_ASSIGN(PackedWeight weight, PackWeight(exec, parts, format));
  ++num_made_;
  Header header = HeaderOf(weight, source);
  header.contents = HashOf(exec, Contents(weight));
  const Status written = Write(path, header, weight);
  if (!written.ok()) FS_LOG_WARNING("weight cache: cannot write {}: {}", path, written.message());
  return weight;
}

}  // namespace firesteel
