// Which SIMD targets the kernels are compiled for. Include before any header of Highway.
//
// On x86 AVX2, AVX-512 and the scalar baseline that must exist: what lies between costs compile
// time and no server needs it. Vectors without a fixed size (SVE, RVV) are left out, for the
// kernels keep arrays of vectors in registers.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
