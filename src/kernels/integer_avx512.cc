#if defined(__x86_64__)
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12: its own header, _mm512_undefined
#endif

#include "kernels/integer_task_internal.h"
#include "kernels/isa_region-inl.h"

FS_ISA_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "kernels/integer_avx512-inl.h"
#include "kernels/integer_panels-inl.h"

namespace firesteel {
namespace {

// Without VNNI the multiply-add of bytes saturates; bytes widened to 16 bits, once for all rows,
// are multiplied and added in pairs exactly.
struct Avx512 : Avx512Base {
  static constexpr int kParts = 2;
  FS_ISA_INLINE static void Split(Int words, Int (&parts)[2]) {
    parts[0] = _mm512_and_si512(words, _mm512_set1_epi16(255));
    parts[1] = _mm512_srli_epi16(words, 8);
  }
  FS_ISA_INLINE static Int Dot(Int sum, Int w, Int x) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(w, x));
  }
};

}  // namespace

void IntegerPanelsAvx512(const IntegerTask& task) { IntegerKernel<Avx512>::Run(task); }

}  // namespace firesteel
FS_ISA_END
#endif
