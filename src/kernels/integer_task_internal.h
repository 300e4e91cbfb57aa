// Integer weights times int8 activations as plain numbers and pointers: what the files of the
// instruction sets include, which must not pull in inline code of the rest (compiled there for
// instructions that this machine may lack, the linker could keep that copy for everyone).
#pragma once

#include <cstdint>

namespace firesteel {

enum class IntegerLayout : uint8_t { kInt8, kInt8Group, kInt4 };  // quantize_internal.h

// quantize_internal.h says what they mean.
inline constexpr int kScaleCodeShift = 19;
inline constexpr int32_t kScaleCodeBias = 108 << 23;

struct IntegerTask {
  IntegerLayout layout;
  const unsigned char* weight;  // the first panel
  int64_t panel_bytes;
  int64_t chunks;  // of 32 k

  int64_t rows;
  const uint32_t* x;     // [rows, x_stride]: for each 4 k as many words as the kernel asks for
  int64_t x_stride;      // words, a multiple of 16
  const float* scales;   // [rows, groups]: of 128 k for int8, of 32 for int4
  const int32_t* zeros;  // [rows, groups]: int8: -128 times the sum of the group; int4: minus the
                         // sum, in the low 16 bits
  int64_t groups;

  float* out;  // [rows, out_stride]
  int64_t out_stride;
  int64_t out_cols;
  bool add;

  int64_t panel_begin, panel_end;
};

using IntegerPanelsFn = void (*)(const IntegerTask& task);
// Defined on x86-64 only, but for the portable one; integer_kernels.cc has the table.
void IntegerPanelsAvx512Vnni(const IntegerTask& task);
void IntegerPanelsAvx512(const IntegerTask& task);
void IntegerPanelsAvx2(const IntegerTask& task);
void IntegerPanelsPortable(const IntegerTask& task);

}  // namespace firesteel
