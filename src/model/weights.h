// Takes named tensors out of a checkpoint, checks their shapes, and at the end that none was left
// over.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/matmul.h"
#include "model/safetensors.h"
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace firesteel {

// Packing copies every weight into memory: kInvalidArgument when the tensors hold more bytes than
// this machine has.
Status CheckFitsMemory(const Safetensors& tensors, const std::string& directory);

class WeightReader {
 public:
  // `pack_dtype` (kF32 or kBF16): what Pack stores matrices as; nullopt: as the checkpoint does.
  explicit WeightReader(const Safetensors& tensors, std::optional<DType> pack_dtype = std::nullopt)
      : tensors_(tensors), pack_dtype_(pack_dtype) {}

  bool Has(const std::string& name) const;
  // kDataCorrupt: "<file>: tensor <name> is missing", or "… is [512, 64], config wants [512, 128]".
  Result<WeightView> Take(const std::string& name, int64_t rows, int64_t cols);
  // A table that EmbedTokens reads; kUnsupported when it is not F32, BF16 or F16.
  Result<WeightView> TakeTable(const std::string& name, int64_t rows, int64_t cols);
  // A vector of n elements, widened to float32.
  Result<Buffer<float>> TakeVector(const std::string& name, int64_t n);
  // The same of a matrix of one row, [1, n].
  Result<Buffer<float>> TakeRow(const std::string& name, int64_t n);
  // PackWeight after conversion to pack_dtype: widened exactly, or rounded to nearest even.
  Result<PackedWeight> Pack(Exec& exec, std::span<const WeightView> parts) const;
  void Ignore(const std::string& name) { taken_.insert(name); }
  // kDataCorrupt names the first tensor that nobody took: a checkpoint with extra weights is
  // another architecture. Stored rotary frequencies do not count.
  Status CheckAllTaken() const;
  int64_t num_parameters() const { return num_parameters_; }  // elements of what was taken

 private:
  Result<const TensorInfo*> Find(const std::string& name, const std::vector<int64_t>& shape);
  Result<Buffer<float>> TakeWidened(const std::string& name, const std::vector<int64_t>& shape);

  const Safetensors& tensors_;
  std::optional<DType> pack_dtype_;
  std::set<std::string> taken_;
  int64_t num_parameters_ = 0;
};

}  // namespace firesteel
