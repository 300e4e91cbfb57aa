#include "kernel_bench/weight_sets.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/rng.h"

namespace firesteel {
namespace {

// A matrix as a checkpoint would store it.
struct Stored {
  std::vector<std::byte> weight;
  std::vector<std::byte> scale;
  WeightSource source;
  std::optional<WeightFormat> format;  // what to quantize to
};

struct DTypeRow {
  const char* name;
  DType stored;
  std::optional<WeightFormat> format;
};
constexpr DTypeRow kDTypes[] = {
    {"f32", DType::kF32, std::nullopt},          {"bf16", DType::kBF16, std::nullopt},
    {"f16", DType::kF16, std::nullopt},          {"fp8", DType::kF8E4M3, std::nullopt},
    {"fp4", DType::kU8, std::nullopt},           {"int8", DType::kBF16, WeightFormat::kInt8},
    {"int4", DType::kBF16, WeightFormat::kInt4},
};

// Bytes of elements near one: any bits will do for the narrow types, but none that means an
// infinity.
std::vector<std::byte> Elements(DType dtype, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * SizeOf(dtype));
  const std::vector<float> floats = RandomFloats(count, 1);
  for (size_t i = 0; i < floats.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &floats[i], 4);
    switch (dtype) {
      case DType::kF32:
        std::memcpy(&bytes[4 * i], &bits, 4);
        break;
      case DType::kBF16:
        std::memcpy(&bytes[2 * i], reinterpret_cast<char*>(&bits) + 2, 2);
        break;
      case DType::kF16: {
        const auto half = static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x3800 | (bits & 0x3ff));
        std::memcpy(&bytes[2 * i], &half, 2);
        break;
      }
      case DType::kF8E4M3:
        bytes[i] = std::byte((bits & 0x87) | 0x30);
        break;
      default:
        bytes[i] = std::byte(bits & 0xff);
        break;
    }
  }
  return bytes;
}

Stored Store(const DTypeRow& row) {
  Stored stored;
  stored.format = row.format;
  const bool fp4 = row.stored == DType::kU8, fp8 = row.stored == DType::kF8E4M3;
  const int64_t cols = fp4 ? kInputs / 2 : kInputs;
  stored.weight = Elements(row.stored, kOutputs * cols);
  stored.source.weight = {stored.weight.data(), row.stored, kOutputs, cols, row.name};
  if (fp4) {
    stored.scale.assign(static_cast<size_t>(kOutputs * kInputs / 32), std::byte{125});
    stored.source.scale = {stored.scale.data(), DType::kF8E8M0, kOutputs, kInputs / 32, "scale"};
  }
  if (fp8) {
    const std::vector<float> ones(static_cast<size_t>(kOutputs / 128 * kInputs / 128), 1.0f);
    const auto bytes = std::as_bytes(std::span(ones));
    stored.scale.assign(bytes.begin(), bytes.end());
    stored.source.scale = {stored.scale.data(), DType::kF32, kOutputs / 128, kInputs / 128,
                           "scale"};
  }
  return stored;
}

}  // namespace

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); i += 4) {
    const auto bits = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {seed, 0});
    for (size_t j = i; j < std::min(i + 4, values.size()); ++j) {
      values[j] = static_cast<float>(UniformOpen(bits[j - i]) - 0.5);
    }
  }
  return values;
}

WeightSet::WeightSet(Exec& exec, const std::string& dtype) {
  const auto* row = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                 [&](const DTypeRow& r) { return dtype == r.name; });
  FS_CHECK(row != std::end(kDTypes), "no weights of {}", dtype);
  const Stored stored = Store(*row);
  int64_t bytes = 0;
  while (bytes < kRotationBytes) {
    Result<PackedWeight> packed = PackWeight(exec, std::span(&stored.source, 1), stored.format);
    FS_CHECK(packed.ok(), "{}", packed.status().message());
    bytes += packed->bytes();
    weights_.push_back(*std::move(packed));
  }
}

}  // namespace firesteel
