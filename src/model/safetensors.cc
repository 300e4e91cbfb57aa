#include "model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"

namespace firesteel {
namespace {

namespace dom = simdjson::dom;

// The format's own limit; a header above it is a length read from the wrong place.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxNameBytes = 512;
constexpr size_t kMaxDimensions = 8;

struct Entry {
  std::string name;
  TensorInfo info;
  uint64_t begin = 0;  // bytes from the end of the header
  uint64_t end = 0;
};

template <typename... Args>
Status Fault(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  return DataCorrupt(fmt::format("{}: {}", path, fmt::format(format, std::forward<Args>(args)...)));
}

// A copy, because the parser reads past the end of its input. Duplicate keys survive in the DOM and
// are refused by whoever walks it; its nesting limit is 1024.
Result<dom::object> ParseObject(dom::parser& parser, std::string_view text, const std::string& path,
                                std::string_view what) {
  dom::element root;
  if (const auto error = parser.parse(simdjson::padded_string(text)).get(root)) {
    return Fault(path, "{} is not valid JSON: {}", what, simdjson::error_message(error));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return Fault(path, "{} is not a JSON object", what);
  }
  return object;
}

// Names go into messages and logs, so they are looked at before anything else is said about them.
Status CheckName(std::string_view name, const std::string& path) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Fault(path, "a tensor name has {} bytes, expected 1 to {}", name.size(), kMaxNameBytes);
  }
  if (std::any_of(name.begin(), name.end(),
                  [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return Fault(path, "a tensor name holds control characters, expected printable text");
  }
  return {};
}

Result<std::vector<int64_t>> ParseShape(dom::element value, const std::string& path,
                                        std::string_view name) {
  dom::array array;
  if (value.get(array) != simdjson::SUCCESS || array.size() > kMaxDimensions) {
    return Fault(path, "tensor {}: shape is not a list of at most {} numbers", name,
                 kMaxDimensions);
  }
  std::vector<int64_t> shape;
  for (const dom::element dimension : array) {
    int64_t n;
    if (dimension.get(n) != simdjson::SUCCESS || n < 0) {
      return Fault(path, "tensor {}: shape[{}] is not a non-negative 64-bit integer", name,
                   shape.size());
    }
    shape.push_back(n);
  }
  return shape;
}

Result<uint64_t> BytesOf(const TensorInfo& info, const std::string& path, std::string_view name) {
  uint64_t bytes = SizeOf(info.dtype);
  for (const int64_t n : info.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes) ||
        bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fault(path, "tensor {}: shape [{}] overflows 64 bits", name,
                   fmt::join(info.shape, ", "));
    }
  }
  return bytes;
}

Result<Entry> ParseEntry(std::string_view name, dom::element value, uint64_t data_bytes,
                         const std::string& path) {
  Entry entry;
  entry.name = name;
  entry.info.file = path;
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return Fault(path, "tensor {}: its entry is not an object", name);
  }
  std::set<std::string_view> seen;
  for (const dom::key_value_pair field : object) {
    if (!seen.insert(field.key).second) {
      return Fault(path, "tensor {}: key {} stands twice", name, field.key);
    }
    if (field.key == "dtype") {
      std::string_view dtype;
      if (field.value.get(dtype) != simdjson::SUCCESS || !DTypeFromName(dtype)) {
        return Fault(path, "tensor {}: dtype is {}, expected one such as F32, BF16 or F16", name,
                     simdjson::minify(field.value).substr(0, 40));
      }
      entry.info.dtype = *DTypeFromName(dtype);
    } else if (field.key == "shape") {
      FS_ASSIGN(entry.info.shape, ParseShape(field.value, path, name));
    } else if (field.key == "data_offsets") {
      dom::array offsets;
      if (field.value.get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
          offsets.at(0).get(entry.begin) != simdjson::SUCCESS ||
          offsets.at(1).get(entry.end) != simdjson::SUCCESS) {
        return Fault(path, "tensor {}: data_offsets is not a pair of non-negative integers", name);
      }
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!seen.contains(key)) return Fault(path, "tensor {}: {} is missing", name, key);
  }
  if (entry.begin > entry.end) {
    return Fault(path, "tensor {}: data_offsets begin at {} and end before, at {}", name,
                 entry.begin, entry.end);
  }
  if (entry.end > data_bytes) {
    return Fault(path, "tensor {}: data_offsets end at {}, but the file holds {} bytes of data",
                 name, entry.end, data_bytes);
  }
  FS_ASSIGN(const uint64_t bytes, BytesOf(entry.info, path, name));
  if (entry.end - entry.begin != bytes) {
    return Fault(path, "tensor {}: data_offsets span {} bytes, {} [{}] takes {}", name,
                 entry.end - entry.begin, Name(entry.info.dtype), fmt::join(entry.info.shape, ", "),
                 bytes);
  }
  return entry;
}

// Sorts by offset; the tensors must then tile the data without overlap, gap or rest, so that every
// byte of the file has exactly one meaning.
Status CheckTiling(std::vector<Entry>& entries, uint64_t data_bytes, const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  const Entry* previous = nullptr;
  for (const Entry& entry : entries) {
    if (entry.begin < covered) {
      return Fault(path, "tensor {} begins at byte {} and overlaps tensor {}, which ends at {}",
                   entry.name, entry.begin, previous->name, previous->end);
    }
    if (entry.begin > covered) {
      return Fault(
          path, "tensor {} begins at byte {}, expected {}: the bytes between belong to no tensor",
          entry.name, entry.begin, covered);
    }
    covered = entry.end;
    previous = &entry;
  }
  if (covered != data_bytes) {
    return Fault(path, "the tensors end at byte {} of the data, but the file holds {}", covered,
                 data_bytes);
  }
  return {};
}

Result<std::vector<Entry>> ParseHeader(std::span<const std::byte> bytes, const std::string& path,
                                       uint64_t* data_begin) {
  if (bytes.size() < 8) {
    return Fault(path, "holds {} bytes, expected the 8 of a header length", bytes.size());
  }
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes) {
    return Fault(path, "the header claims {} bytes, expected at most {}", header_bytes,
                 kMaxHeaderBytes);
  }
  if (header_bytes > bytes.size() - 8) {
    return Fault(path, "the header claims {} bytes, but only {} follow", header_bytes,
                 bytes.size() - 8);
  }
  *data_begin = 8 + header_bytes;
  const uint64_t data_bytes = bytes.size() - *data_begin;
  dom::parser parser;
  FS_ASSIGN(const dom::object header,
            ParseObject(parser, {reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes},
                        path, "the header"));
  std::vector<Entry> entries;
  std::set<std::string_view> seen;
  for (const dom::key_value_pair field : header) {
    if (!seen.insert(field.key).second) {
      FS_TRY(CheckName(field.key, path));
      return Fault(path, "tensor {} stands twice in the header", field.key);
    }
    if (field.key == "__metadata__") {
      if (!field.value.is_object()) return Fault(path, "__metadata__ is not an object");
      continue;
    }
    FS_TRY(CheckName(field.key, path));
    FS_ASSIGN(Entry entry, ParseEntry(field.key, field.value, data_bytes, path));
    entries.push_back(std::move(entry));
  }
  FS_TRY(CheckTiling(entries, data_bytes, path));
  return entries;
}

// Tensor name -> shard file, from model.safetensors.index.json.
Result<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  FS_ASSIGN(const std::string text, ReadFile(path));
  dom::parser parser;
  FS_ASSIGN(const dom::object root, ParseObject(parser, text, path, "the index"));
  dom::object weight_map;
  if (root.at_key("weight_map").get(weight_map) != simdjson::SUCCESS) {
    return Fault(path, "weight_map is missing or not an object");
  }
  std::map<std::string, std::string> shards;
  for (const dom::key_value_pair field : weight_map) {
    FS_TRY(CheckName(field.key, path));
    std::string_view file;
    // A shard lies beside its index: a path would let a checkpoint read what is not its own.
    if (field.value.get(file) != simdjson::SUCCESS || file.empty() || file.size() > 255 ||
        file.find('/') != file.npos || file.find('\0') != file.npos || file.starts_with('.')) {
      return Fault(path, "tensor {}: its shard is not the name of a file in the same directory",
                   field.key);
    }
    if (!shards.emplace(field.key, file).second) {
      return Fault(path, "tensor {} stands twice in weight_map", field.key);
    }
  }
  if (shards.empty()) return Fault(path, "weight_map names no tensor");
  return shards;
}

}  // namespace

int64_t TensorInfo::NumElements() const {
  int64_t n = 1;
  for (const int64_t dimension : shape) n *= dimension;
  return n;
}

Status Safetensors::AddFile(const std::string& path) {
  FS_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  files_.push_back(std::make_unique<MappedFile>(std::move(mapped)));
  const std::span<const std::byte> bytes = files_.back()->bytes();
  uint64_t data_begin = 0;
  FS_ASSIGN(std::vector<Entry> entries, ParseHeader(bytes, path, &data_begin));
  for (Entry& entry : entries) {
    const std::byte* data = bytes.data() + data_begin + entry.begin;
    if (reinterpret_cast<uintptr_t>(data) % SizeOf(entry.info.dtype) != 0) {
      // Old writers did not align the data; kernels read whole elements, so such a tensor is copied
      // once.
      const auto size = static_cast<int64_t>(entry.end - entry.begin);
      copies_.emplace_back(size);
      std::memcpy(copies_.back().data(), data, static_cast<size_t>(size));
      data = copies_.back().data();
    }
    entry.info.data = data;
    const auto [found, inserted] = tensors_.emplace(entry.name, std::move(entry.info));
    if (!inserted) {
      return Fault(path, "tensor {} was already in {}", found->first, found->second.file);
    }
  }
  return {};
}

Result<Safetensors> Safetensors::OpenFile(const std::string& path) {
  Safetensors tensors;
  FS_TRY(tensors.AddFile(path));
  return tensors;
}

Result<Safetensors> Safetensors::Open(const std::string& directory) {
  const std::string single = directory + "/model.safetensors";
  Result<Safetensors> opened = OpenFile(single);
  if (opened.ok() || opened.status().code() != StatusCode::kNotFound) return opened;

  const std::string index = directory + "/model.safetensors.index.json";
  auto read = ReadIndex(index);
  if (read.status().code() == StatusCode::kNotFound) {
    return NotFound(fmt::format(
        "{}: holds neither model.safetensors nor model.safetensors.index.json", directory));
  }
  FS_ASSIGN(const auto shards, std::move(read));
  std::set<std::string> files;
  for (const auto& [name, file] : shards) files.insert(file);
  Safetensors tensors;
  for (const std::string& file : files) {
    const Status added = tensors.AddFile(directory + "/" + file);
    if (added.code() == StatusCode::kNotFound) {
      return Fault(index, "shard {} is named, but there is no such file", file);
    }
    FS_TRY(added);
  }
  for (const auto& [name, file] : shards) {
    const auto found = tensors.tensors_.find(name);
    if (found == tensors.tensors_.end() || found->second.file != directory + "/" + file) {
      return Fault(index, "tensor {} should be in {}, which does not hold it", name, file);
    }
  }
  for (const auto& [name, info] : tensors.tensors_) {
    if (!shards.contains(name)) {
      return Fault(info.file, "tensor {} is not named by the index", name);
    }
  }
  return tensors;
}

}  // namespace firesteel
