// Weights in kernel layout: panels of kPanel output features, each read from front to back, once
// for every 96 rows of activations (64 for integers). Scales lie in the panel, right before the
// elements that they scale, so that a pass is one stream per thread.
//
// A panel keeps the words of its features side by side, and word after word of a row: 32 bits hold,
// for a feature, one element of k (f32), two (bf16: k in the low half), four (int8: k in the low
// byte) or eight (fp4, int4: element j of the word in nibble kNibbleOrder[j]); 16 bits hold one
// (f16) or two (fp8: k in the low byte), so that the features of one k fill a vector of halves, as
// the conversion from f16 wants them. panel_layout_internal.h and quantize_internal.h have the
// offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "firesteel/status.h"
#include "kernels/exec.h"
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace firesteel {

enum class WeightFormat : uint8_t {
  kF32,
  kBF16,
  kF16,
  kFp8,        // e4m3; a float32 scale for each block of 128 x 128
  kFp4,        // e2m1; an e8m0 scale for each 32 elements of a row
  kInt8,       // symmetric; a float32 scale for each row
  kInt8Group,  // symmetric; a scale for each 128 elements of a row
  kInt4,       // asymmetric; scale and zero for each 32 elements of a row
};
// Of the formats that are made here, for activations in int8.
inline bool IsInteger(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kInt8Group ||
         format == WeightFormat::kInt4;
}
std::string_view Name(WeightFormat format);  // "f32", "bf16", … "int8", "int8_group", "int4"

// The four low nibbles of a word are k … k + 3 and the four high ones k + 4 … k + 7: one mask makes
// four bytes of either.
inline constexpr int kNibbleOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

// A matrix of the checkpoint with what scales it.
struct WeightSource {
  WeightView weight;  // [N, K]; FP4: kU8 or kI8 [N, K / 2], element 2 j in the low nibble
  // FP8: [ceil(N / 128), ceil(K / 128)], kF32, kBF16 or kF8E8M0; FP4: [N, ceil(K / 32)], kF8E8M0
  // (kU8 taken as such). At most 2^118. Null data: none (FP8 without a scale is scaled by 1).
  WeightView scale;
};

// Owns its memory. Immutable after construction.
class PackedWeight {
 public:
  static constexpr int64_t kPanel = 32;

  PackedWeight() = default;

  int64_t rows() const { return rows_; }  // N
  int64_t cols() const { return cols_; }  // K
  WeightFormat format() const { return format_; }
  int64_t num_panels() const { return (rows_ + kPanel - 1) / kPanel; }
  int64_t bytes() const { return bytes_.size(); }  // what a pass of few rows reads
  int64_t panel_bytes() const { return panel_bytes_; }
  const std::byte* data() const { return bytes_.data(); }

 private:
  friend class WeightPacker;  // pack_weight.cc, and the cache of packed files
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  WeightFormat format_ = WeightFormat::kF32;
  int64_t panel_bytes_ = 0;
  Buffer<std::byte> bytes_;
};

// Packs `parts`, stacked along N (q, k and v as one weight; gate and up as one). All parts have the
// same cols. `format`: none, as stored, and all parts have the same dtype; or what to convert to:
// kF32 and kBF16 from any dtype that is read (F32, BF16, F16, F64, FP8, FP4), as are kInt8,
// kInt8Group and kInt4, which are made here and only here; kF16, kFp8 and kFp4 from themselves.
// kFp8 wants whole panels in all parts but the last. kUnsupported for a dtype that no kernel reads
// or a conversion that does not exist, kDataCorrupt for scales of another shape or NaN in FP8,
// naming the tensor.
Result<PackedWeight> PackWeight(Exec& exec, std::span<const WeightSource> parts,
                                std::optional<WeightFormat> format = std::nullopt);

}  // namespace firesteel
