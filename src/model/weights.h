// Takes named tensors out of a checkpoint, checks their shapes, and at the end that none was left
// over.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/packed_weight.h"
#include "model/safetensors.h"
#include "model/weight_cache.h"
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace firesteel {

// Packing copies every weight into memory: kInvalidArgument when, packed as `format` (nullopt: as
// stored), they take more than this machine has.
Status CheckFitsMemory(const Safetensors& tensors, const std::string& directory,
                       std::optional<WeightFormat> format = std::nullopt);

struct PackOptions {
  std::optional<WeightFormat> format = std::nullopt;  // of the layers' matrices; nullopt: as stored
  std::optional<WeightFormat> head_format = std::nullopt;  // of the head
  WeightCache* cache = nullptr;                            // of what is quantized; null: none
  // Hears the share of the checkpoint's elements that were taken, after each matrix.
  std::function<void(double)> progress = nullptr;
};

class WeightReader {
 public:
  WeightReader(const Safetensors& tensors, PackOptions options);
  explicit WeightReader(const Safetensors& tensors,
                        std::optional<WeightFormat> format = std::nullopt)
      : WeightReader(tensors, PackOptions{format, format, nullptr, {}}) {}

  bool Has(const std::string& name) const;
  // kDataCorrupt: "<file>: tensor <name> is missing", or "… is [512, 64], config wants [512, 128]".
  // F8_E4M3 comes with its scales, `name`_scale_inv [ceil(rows / 128), ceil(cols / 128)].
  Result<WeightSource> Take(const std::string& name, int64_t rows, int64_t cols);
  // A table that EmbedTokens reads; kUnsupported when it is not F32, BF16 or F16.
  Result<WeightView> TakeTable(const std::string& name, int64_t rows, int64_t cols);
  // A vector of n elements, widened to float32.
  Result<Buffer<float>> TakeVector(const std::string& name, int64_t n);
  // The same of a matrix of one row, [1, n].
  Result<Buffer<float>> TakeRow(const std::string& name, int64_t n);
  // PackWeight in the options' format, or that of the head, or any.
  Result<PackedWeight> Pack(Exec& exec, std::span<const WeightSource> parts) const {
    return PackAs(exec, parts, options_.format);
  }
  Result<PackedWeight> PackHead(Exec& exec, const WeightSource& head) const {
    return PackAs(exec, {&head, 1}, options_.head_format);
  }
  Result<PackedWeight> PackAs(Exec& exec, std::span<const WeightSource> parts,
                              std::optional<WeightFormat> format) const;
  void Ignore(const std::string& name) { taken_.insert(name); }
  // kDataCorrupt names the first tensor that nobody took: a checkpoint with extra weights is
  // another architecture. Stored rotary frequencies do not count.
  Status CheckAllTaken() const;
  int64_t num_parameters() const { return num_parameters_; }  // elements of what was taken

 private:
  Result<const TensorInfo*> Find(const std::string& name, const std::vector<int64_t>& shape);
  Result<Buffer<float>> TakeWidened(const std::string& name, const std::vector<int64_t>& shape);

  const Safetensors& tensors_;
  PackOptions options_;
  int64_t num_elements_ = 0;  // of the checkpoint
  std::set<std::string> taken_;
  int64_t num_parameters_ = 0;
};

}  // namespace firesteel
