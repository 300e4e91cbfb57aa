// Between float32 and the stored types. Round to nearest even; FP8 saturates. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tensor/dtype.h"
#include "tensor/weight_view.h"

namespace firesteel {

float BF16ToF32(uint16_t bits);
uint16_t F32ToBF16(float value);
float F16ToF32(uint16_t bits);
float F8E4M3ToF32(uint8_t bits);
uint8_t F32ToF8E4M3(float value);
float F8E8M0ToF32(uint8_t bits);  // a power of two; 255 is NaN
float F4E2M1ToF32(uint8_t bits);  // of the low four bits

// Widens a float vector or matrix of the checkpoint (f32, bf16, f16, f64) to float32; false for any
// other dtype.
bool WidenToF32(const WeightView& from, std::span<float> to);

// Tensors of a file start where they like.
template <typename T>
T LoadUnaligned(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// The name of the SIMD target that the kernels run on here ("AVX2", "AVX3", …), for logs and tests.
const char* SimdTargetName();

}  // namespace firesteel
