// HF safetensors: one file, or shards named by model.safetensors.index.json. Memory-mapped; views
// die with the object. Immutable after construction.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "firesteel/status.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/weight_view.h"

namespace firesteel {

struct TensorInfo {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  std::string file;  // for messages
  int64_t NumElements() const;
};

class Safetensors {
 public:
  // `directory` holds model.safetensors or model.safetensors.index.json. Every fault of a header
  // (length, JSON, unknown dtype, shape against bytes, overlap, gap, truncation, duplicate names, a
  // shard that is missing or lacks a tensor) is one kDataCorrupt sentence with file and tensor.
  static Result<Safetensors> Open(const std::string& directory);
  static Result<Safetensors> OpenFile(const std::string& path);

  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }

 private:
  Status AddFile(const std::string& path);

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<Buffer<std::byte>> copies_;  // tensors whose bytes lie unaligned in their file
  std::map<std::string, TensorInfo> tensors_;
};

}  // namespace firesteel
