#if defined(__x86_64__)
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12: its own header, _mm512_undefined
#endif

#include "kernels/integer_task_internal.h"
#include "kernels/isa_region-inl.h"

FS_ISA_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#include "kernels/integer_avx512-inl.h"
#include "kernels/integer_panels-inl.h"

namespace firesteel {
namespace {

// vpdpbusd: 4 bytes times 4 bytes into each lane, exact.
struct Avx512Vnni : Avx512Base {
  static constexpr int kParts = 1;
  FS_ISA_INLINE static void Split(Int words, Int (&parts)[1]) { parts[0] = words; }
  FS_ISA_INLINE static Int Dot(Int sum, Int w, Int x) { return _mm512_dpbusd_epi32(sum, w, x); }
};

}  // namespace

void IntegerPanelsAvx512Vnni(const IntegerTask& task) { IntegerKernel<Avx512Vnni>::Run(task); }

}  // namespace firesteel
FS_ISA_END
#endif
