// Random weights as a checkpoint would hold them, and what they mean.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/convert.h"
#include "kernels/packed_weight.h"
#include "kernels/reference.h"

namespace firesteel {

inline constexpr WeightFormat kFloatFormats[] = {WeightFormat::kF32, WeightFormat::kBF16,
                                                 WeightFormat::kF16, WeightFormat::kFp8,
                                                 WeightFormat::kFp4};

// Stored so that PackWeight keeps it as `format`, one of the above. FP4: cols is even.
struct StoredWeight {
  StoredWeight(WeightFormat format, int64_t rows, int64_t cols, uint32_t seed,
               const char* name = "w")
      : seed(seed), wide(static_cast<size_t>(rows * cols)) {
    scales.resize(wide.size(), 1.0f);
    source.weight = {nullptr, DType::kF32, rows, cols, name};
    switch (format) {
      case WeightFormat::kF32:
        FillF32();
        break;
      case WeightFormat::kBF16:
        Fill16(DType::kBF16);
        break;
      case WeightFormat::kF16:
        Fill16(DType::kF16);
        break;
      case WeightFormat::kFp8:
        FillFp8();
        break;
      case WeightFormat::kFp4:
        FillFp4();
        break;
      default:
        FS_CHECK(false, "{} is not stored", Name(format));
    }
    if (elements.empty()) elements = wide;
    source.weight.data = bytes.data();
    if (!scale_bytes.empty()) source.scale.data = scale_bytes.data();
  }
  StoredWeight(StoredWeight&&) = default;

  ConstMatrix values() const {
    const WeightView& w = source.weight;
    return {wide.data(), w.rows, static_cast<int64_t>(wide.size()) / w.rows};
  }

  uint32_t seed;
  std::vector<std::byte> bytes, scale_bytes;
  WeightSource source;
  // [rows, cols]: the elements, what scales each, and their products, rounded to float32.
  std::vector<float> elements, scales, wide;

 private:
  uint32_t Bits(size_t i, uint32_t what = 0) const {
    return Philox4x32({static_cast<uint32_t>(i), what, 0, 0}, {seed, 7})[0];
  }
  float Uniform(size_t i) const { return static_cast<float>(2 * UniformOpen(Bits(i)) - 1); }

  void FillF32() {
    bytes.resize(wide.size() * 4);
    for (size_t i = 0; i < wide.size(); ++i) {
      wide[i] = Uniform(i);
      std::memcpy(&bytes[i * 4], &wide[i], 4);
    }
  }

  // f16: magnitudes below 2, subnormals and both zeros among them.
  void Fill16(DType dtype) {
    source.weight.dtype = dtype;
    bytes.resize(wide.size() * 2);
    for (size_t i = 0; i < wide.size(); ++i) {
      const uint32_t bits = Bits(i);
      const auto half = dtype == DType::kBF16 ? F32ToBF16(Uniform(i))
                        : bits % 9 == 0       ? static_cast<uint16_t>(bits >> 8 & 0x83FF)
                                              : static_cast<uint16_t>(bits >> 8 & 0xBFFF);
      wide[i] = dtype == DType::kBF16 ? BF16ToF32(half) : F16ToF32(half);
      std::memcpy(&bytes[i * 2], &half, 2);
    }
  }

  void FillFp8() {
    source.weight.dtype = DType::kF8E4M3;
    const int64_t rows = source.weight.rows, cols = source.weight.cols;
    const int64_t scale_cols = (cols + 127) / 128;
    source.scale = {nullptr, DType::kF32, (rows + 127) / 128, scale_cols,
                    source.weight.name + "_scale_inv"};
    std::vector<float> of_blocks(static_cast<size_t>(source.scale.rows * scale_cols));
    for (size_t i = 0; i < of_blocks.size(); ++i) {
      of_blocks[i] = 0.01f * (1.5f + Uniform(i + 1000000));
    }
    scale_bytes.resize(of_blocks.size() * 4);
    std::memcpy(scale_bytes.data(), of_blocks.data(), scale_bytes.size());
    elements.resize(wide.size());
    bytes.resize(wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      auto byte = static_cast<uint8_t>(Bits(i) >> 8);
      if ((byte & 0x7F) == 0x7F) byte ^= 0x30;
      const auto row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
      bytes[i] = std::byte{byte};
      scales[i] = of_blocks[static_cast<size_t>(row / 128 * scale_cols + col / 128)];
      elements[i] = reference::F8E4M3ToF32(byte);
      wide[i] = elements[i] * scales[i];
    }
  }

  // Every ninth group is zero under the smallest scale, as writers leave it.
  void FillFp4() {
    source.weight.dtype = DType::kU8;
    const int64_t rows = source.weight.rows, cols = source.weight.cols;
    FS_CHECK(cols % 2 == 0);
    source.weight.cols = cols / 2;
    const int64_t groups = (cols + 31) / 32;
    source.scale = {nullptr, DType::kF8E8M0, rows, groups, source.weight.name + "_scale"};
    for (int64_t i = 0; i < rows * groups; ++i) {
      const uint32_t exponent = 120 + Bits(static_cast<size_t>(i), 1) % 9;
      scale_bytes.push_back(i % 9 == 4 ? std::byte{0} : static_cast<std::byte>(exponent));
    }
    constexpr std::array<float, 8> kMagnitudes = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    bytes.resize(static_cast<size_t>(rows * cols / 2));
    for (int64_t i = 0; i < rows * cols; ++i) {
      const int64_t group = i / cols * groups + i % cols / 32;
      const uint32_t nibble = group % 9 == 4 ? 0 : Bits(static_cast<size_t>(i)) >> 8 & 15;
      bytes[static_cast<size_t>(i / 2)] |= static_cast<std::byte>(nibble << i % 2 * 4);
      const auto exponent = std::to_integer<int>(scale_bytes[static_cast<size_t>(group)]) - 127;
      const float magnitude = kMagnitudes[nibble & 7];
      elements.push_back(nibble & 8 ? -magnitude : magnitude);
      scales[static_cast<size_t>(i)] = std::ldexp(1.0f, exponent);
      wide[static_cast<size_t>(i)] = elements.back() * scales[static_cast<size_t>(i)];
    }
  }
};

}  // namespace firesteel
