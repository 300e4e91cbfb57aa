#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/machine.h"
#include "kernels/convert.h"

namespace firesteel {
namespace {

// Rounds or widens a weight into `storage`; false when no float type.
bool Convert(Exec& exec, const WeightView& from, DType dtype, Buffer<std::byte>* storage) {
  const int64_t elements = from.rows * from.cols;
  Buffer<float> wide(elements);
  if (!WidenToF32(from, wide.span())) return false;
  *storage = Buffer<std::byte>(elements * static_cast<int64_t>(SizeOf(dtype)));
  exec.pool.ParallelFor(elements, int64_t{1} << 16, [&](int64_t begin, int64_t end, int) {
    if (dtype == DType::kF32) {
      std::copy(wide.data() + begin, wide.data() + end,
                reinterpret_cast<float*>(storage->data()) + begin);
      return;
    }
    auto* out = reinterpret_cast<uint16_t*>(storage->data());
    for (int64_t i = begin; i < end; ++i) out[i] = F32ToBF16(wide.data()[i]);
  });
  return true;
}

}  // namespace

Status CheckFitsMemory(const Safetensors& tensors, const std::string& directory) {
  int64_t bytes = 0;
  for (const auto& [name, info] : tensors.tensors()) {
    bytes += info.NumElements() * static_cast<int64_t>(SizeOf(info.dtype));
  }
  if (bytes <= PhysicalMemoryBytes()) return {};
  return InvalidArgument(fmt::format("{}: holds {} bytes of weights, this machine has {} of memory",
                                     directory, bytes, PhysicalMemoryBytes()));
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

Result<WeightView> WeightReader::Take(const std::string& name, int64_t rows, int64_t cols) {
  FS_ASSIGN(const TensorInfo* info, Find(name, {rows, cols}));
  return WeightView{info->data, info->dtype, rows, cols, name};
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
  return out;
}

Result<PackedWeight> WeightReader::Pack(Exec& exec, std::span<const WeightView> parts) const {
  for (const WeightView& part : parts) {
    if (part.dtype != parts[0].dtype && !pack_dtype_) {
      return Unsupported(fmt::format("tensor {} is {}, expected {} as {}", part.name,
                                     Name(part.dtype), Name(parts[0].dtype), parts[0].name));
    }
  }
  if (!pack_dtype_) return PackWeight(exec, parts);
  std::vector<Buffer<std::byte>> storage(parts.size());
  std::vector<WeightView> converted(parts.begin(), parts.end());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dtype == *pack_dtype_) continue;
    if (!Convert(exec, parts[i], *pack_dtype_, &storage[i])) {
      return Unsupported(fmt::format("tensor {} is {}, expected F32, BF16, F16 or F64",
                                     parts[i].name, Name(parts[i].dtype)));
    }
    converted[i].data = storage[i].data();
    converted[i].dtype = *pack_dtype_;
  }
  return PackWeight(exec, converted);
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
