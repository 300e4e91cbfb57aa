#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/integer_task_internal.h"
#include "kernels/isa_region-inl.h"

FS_ISA_BEGIN("avx2,fma")
#include "kernels/integer_panels-inl.h"

namespace firesteel {
namespace {

// As AVX-512 without VNNI, in half the width: vpmaddubsw would saturate.
struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kTileRows = 2;  // 8 of 16 registers are sums; the weights lie in L1
  static constexpr int kParts = 2;

  FS_ISA_INLINE static void Split(Int words, Int (&parts)[2]) {
    parts[0] = _mm256_and_si256(words, _mm256_set1_epi16(255));
    parts[1] = _mm256_srli_epi16(words, 8);
  }
  FS_ISA_INLINE static Int Dot(Int sum, Int w, Int x) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
  }
  FS_ISA_INLINE static Int Load(const int32_t* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }
  FS_ISA_INLINE static void Store(int32_t* p, Int x) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(p), x);
  }
  FS_ISA_INLINE static Int Broadcast(const uint32_t* p) {
    return _mm256_set1_epi32(static_cast<int>(*p));
  }
  FS_ISA_INLINE static Int PairDot(Int a, Int b) { return _mm256_madd_epi16(a, b); }
  FS_ISA_INLINE static Int LowNibbles(Int words) {
    return _mm256_and_si256(_mm256_slli_epi32(words, 4), _mm256_set1_epi8(-16));
  }
  FS_ISA_INLINE static Int HighNibbles(Int words) {
    return _mm256_and_si256(words, _mm256_set1_epi8(-16));
  }
  FS_ISA_INLINE static Int WidenBytes(const unsigned char* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  FS_ISA_INLINE static Float ScaleOfCodes(Int codes) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(codes, kScaleCodeShift),
                                                _mm256_set1_epi32(kScaleCodeBias)));
  }
  FS_ISA_INLINE static Float ToFloat(Int x) { return _mm256_cvtepi32_ps(x); }
  FS_ISA_INLINE static Float ZeroFloat() { return _mm256_setzero_ps(); }
  FS_ISA_INLINE static Float LoadFloat(const float* p) { return _mm256_load_ps(p); }
  FS_ISA_INLINE static void StoreFloat(float* p, Float x) { _mm256_store_ps(p, x); }
  FS_ISA_INLINE static Float BroadcastFloat(const float* p) { return _mm256_set1_ps(*p); }
  FS_ISA_INLINE static Float Mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  FS_ISA_INLINE static Float Fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
};

}  // namespace

void IntegerPanelsAvx2(const IntegerTask& task) { IntegerKernel<Avx2>::Run(task); }

}  // namespace firesteel
FS_ISA_END
#endif
