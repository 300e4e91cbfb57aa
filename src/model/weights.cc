#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/machine.h"
#include "kernels/convert.h"
#include "kernels/weight_packer.h"

namespace firesteel {
namespace {

constexpr int64_t kScaleBlock = 128;  // of an FP8 checkpoint (weight_block_size)

}  // namespace

Status CheckFitsMemory(const Safetensors& tensors, const std::string& directory,
                       std::optional<WeightFormat> format) {
  int64_t bytes = 0;
  for (const auto& [name, info] : tensors.tensors()) {
    if (format && info.shape.size() == 2) {
      bytes += WeightPacker::Bytes(*format, info.shape[0], info.shape[1]);
    } else {
      bytes += info.NumElements() * static_cast<int64_t>(SizeOf(info.dtype));
    }
  }
  if (bytes <= PhysicalMemoryBytes()) return {};
  return InvalidArgument(fmt::format("{}: needs {} bytes for its weights, this machine has {}",
                                     directory, bytes, PhysicalMemoryBytes()));
}

WeightReader::WeightReader(const Safetensors& tensors, PackOptions options)
    : tensors_(tensors), options_(std::move(options)) {
  for (const auto& [name, info] : tensors.tensors()) num_elements_ += info.NumElements();
}

bool WeightReader::Has(const std::string& name) const { return tensors_.tensors().contains(name); }

Result<const TensorInfo*> WeightReader::Find(const std::string& name,
                                             const std::vector<int64_t>& shape) {
  const auto found = tensors_.tensors().find(name);
  if (found == tensors_.tensors().end()) {
    // Any tensor's file tells which checkpoint is meant.
    const std::string where =
        tensors_.tensors().empty() ? "checkpoint" : tensors_.tensors().begin()->second.file;
    return DataCorrupt(fmt::format("{}: tensor {} is missing", where, name));
  }
  const TensorInfo& info = found->second;
  if (info.shape != shape) {
    return DataCorrupt(fmt::format("{}: tensor {} is [{}], config wants [{}]", info.file, name,
                                   fmt::join(info.shape, ", "), fmt::join(shape, ", ")));
  }
  if (taken_.insert(name).second) num_parameters_ += info.NumElements();
  return &info;
}

Result<WeightSource> WeightReader::Take(const std::string& name, int64_t rows, int64_t cols) {
  FS_ASSIGN(const TensorInfo* info, Find(name, {rows, cols}));
  WeightSource source{{info->data, info->dtype, rows, cols, name}, {}};
  const std::string scale = name + "_scale_inv";
  if (info->dtype != DType::kF8E4M3) return source;
  if (!Has(scale)) {
    return DataCorrupt(
        fmt::format("{}: tensor {} is missing, expected the scales of {}, which is F8_E4M3",
                    info->file, scale, name));
  }
  const int64_t scale_rows = (rows + kScaleBlock - 1) / kScaleBlock;
  const int64_t scale_cols = (cols + kScaleBlock - 1) / kScaleBlock;
  const int64_t parameters = num_parameters_;
  FS_ASSIGN(info, Find(scale, {scale_rows, scale_cols}));
  num_parameters_ = parameters;
  source.scale = {info->data, info->dtype, scale_rows, scale_cols, scale};
  return source;
}

Result<WeightView> WeightReader::TakeTable(const std::string& name, int64_t rows, int64_t cols) {
  FS_ASSIGN(const TensorInfo* info, Find(name, {rows, cols}));
  if (info->dtype != DType::kF32 && info->dtype != DType::kBF16 && info->dtype != DType::kF16) {
    return Unsupported(fmt::format("{}: tensor {} is {}, expected F32, BF16 or F16", info->file,
                                   name, Name(info->dtype)));
  }
  return WeightView{info->data, info->dtype, rows, cols, name};
}

Result<Buffer<float>> WeightReader::TakeVector(const std::string& name, int64_t n) {
  return TakeWidened(name, {n});
}

Result<Buffer<float>> WeightReader::TakeRow(const std::string& name, int64_t n) {
  return TakeWidened(name, {1, n});
}

Result<Buffer<float>> WeightReader::TakeWidened(const std::string& name,
                                                const std::vector<int64_t>& shape) {
  FS_ASSIGN(const TensorInfo* info, Find(name, shape));
  const int64_t n = info->NumElements();
  Buffer<float> out(n);
  if (!WidenToF32({info->data, info->dtype, 1, n, name}, out.span())) {
    return Unsupported(fmt::format("{}: tensor {} is {}, expected F32, BF16, F16 or F64",
                                   info->file, name, Name(info->dtype)));
  }
  for (int64_t i = 0; i < n; ++i) {
    if (std::isfinite(out.data()[i])) continue;
    return DataCorrupt(fmt::format("{}: tensor {} holds {} at {}, expected numbers", info->file,
                                   name, std::isnan(out.data()[i]) ? "NaN" : "infinity", i));
  }
  return out;
}

Result<PackedWeight> WeightReader::PackAs(Exec& exec, std::span<const WeightSource> parts,
                                          std::optional<WeightFormat> format) const {
  const bool cached = options_.cache != nullptr && format && IsInteger(*format);
  Result<PackedWeight> packed =
      cached ? options_.cache->Pack(exec, parts, *format) : PackWeight(exec, parts, format);
  if (packed.ok() && options_.progress) {
    options_.progress(static_cast<double>(num_parameters_) /
                      static_cast<double>(std::max<int64_t>(num_elements_, 1)));
  }
  return packed;
}

Status WeightReader::CheckAllTaken() const {
  for (const auto& [name, info] : tensors_.tensors()) {
    // Derived from the config; some writers store them all the same.
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (!taken_.contains(name)) {
      return DataCorrupt(
          fmt::format("{}: tensor {} is extra: the config's architecture has none of this name",
                      info.file, name));
    }
  }
  return {};
}

}  // namespace firesteel
