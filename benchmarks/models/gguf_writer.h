// Writes GGUF files, version 3: metadata, then tensors in the order of their adding, each aligned
// to 32 bytes. Tensors are made row by row while they are written, so that a file may be larger
// than memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"
#include "models/ggml_types.h"

namespace firesteel {

class GgufWriter {
 public:
  // Fills `row`, of float32, with row `r` of a matrix.
  using RowSource = std::function<void(int64_t r, std::span<float> row)>;

  void Add(std::string_view key, const char* value) { Add(key, std::string_view(value)); }
  void Add(std::string_view key, std::string_view value);
  void Add(std::string_view key, uint32_t value);
  void Add(std::string_view key, float value);
  void Add(std::string_view key, bool value);
  void Add(std::string_view key, std::span<const std::string> values);
  void Add(std::string_view key, std::span<const int32_t> values);

  // A matrix of `rows` rows of `cols` elements; a vector is one row and written as one-dimensional.
  void AddTensor(std::string name, GgmlType type, int64_t rows, int64_t cols, RowSource source);

  // kInvalidArgument when the file cannot be written, or a row is not whole blocks of its type.
  Status Write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    GgmlType type;
    int64_t rows;
    int64_t cols;
    RowSource source;
  };
  std::string Header() const;

  std::string metadata_;
  uint64_t num_entries_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace firesteel
