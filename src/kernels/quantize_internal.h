// How integer weights lie in a panel, and their making from floats. K is padded to chunks of 32.
//
//   kInt8       32 float32 scales; then for each chunk 8 steps of 32 words (4 k of each feature)
//   kInt8Group  for each block of 4 chunks (the last may have fewer): 32 float32 scales, the chunks
//   kInt4       32 float32 scales; then for each chunk 32 scale codes and 32 zeros (a byte each),
//   and
//               4 times 32 words (8 k of each feature, nibbles in the order of kNibbleOrder)
//
// int8 elements are kept as bytes w + 128, padding as 128, since the multiply-add of bytes takes an
// unsigned operand and a signed one, and the activations are signed. A nibble q stands for
// scale[n] * Int4Scale(code) * (16 q - zero): the zero is a sixteenth of a step fine, and with the
// scales of a row's groups as 8-bit floats below one float32 an element takes 4.5 bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/integer_task_internal.h"
#include "kernels/packed_weight.h"
#include "tensor/matrix.h"

namespace firesteel {

inline constexpr int64_t kChunk = 32;       // k that are decoded at once
inline constexpr int64_t kBlockChunks = 4;  // an int8 activation scale covers 128 k
inline constexpr int64_t kChunkSteps = kChunk / 4;
inline constexpr int64_t kStepBytes = PackedWeight::kPanel * 4;
inline constexpr int64_t kScaleBytes = PackedWeight::kPanel * 4;
inline constexpr int64_t kInt8ChunkBytes = kChunkSteps * kStepBytes;
inline constexpr int64_t kInt4HeadBytes = PackedWeight::kPanel * 2;  // codes and zeros
inline constexpr int64_t kInt4ChunkBytes = kInt4HeadBytes + kChunkSteps / 2 * kStepBytes;

// A scale code has 4 bits of exponent and 4 of mantissa: 2^-19 to 0.12, so that sums have about the
// magnitude of the outputs. As a float: shifted to where the exponent of a float32 stands, and this
// added.
inline float Int4Scale(uint8_t code) {
  return std::bit_cast<float>((int32_t{code} << kScaleCodeShift) + kScaleCodeBias);
}

// 1.5 * 2^23: added to a float below 2^22 it rounds to nearest, ties to even, and the sum's bits
// are kRoundBits and the integer.
inline constexpr float kRound = 12582912.0f;
inline constexpr int32_t kRoundBits = 0x4B400000;

inline int64_t NumChunks(int64_t cols) { return (cols + kChunk - 1) / kChunk; }
inline int64_t NumBlocks(int64_t cols) {
  return (NumChunks(cols) + kBlockChunks - 1) / kBlockChunks;
}

// REQUIRES: IsInteger(format), as everywhere below.
int64_t PanelBytes(WeightFormat format, int64_t cols);

// Quantizes up to 32 rows of weights into a panel, 64-byte aligned; features that are missing
// become zero. The result is the same on every instruction set. A row that holds NaN or infinity
// gets a NaN scale: its outputs are NaN and its neighbours' are not.
void QuantizePanel(WeightFormat format, ConstMatrix rows, std::byte* panel);

}  // namespace firesteel
