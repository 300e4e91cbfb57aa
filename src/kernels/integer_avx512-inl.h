// What the kernels with and without VNNI share. Included inside a region compiled for AVX-512.
namespace firesteel {
namespace {

struct Avx512Base {
  using Int = __m512i;
  using Float = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 4;  // 16 registers of weights, 8 of sums

  FS_ISA_INLINE static Int Load(const int32_t* p) { return _mm512_load_si512(p); }
  FS_ISA_INLINE static void Store(int32_t* p, Int x) { _mm512_store_si512(p, x); }
  FS_ISA_INLINE static Int Broadcast(const uint32_t* p) {
    return _mm512_set1_epi32(static_cast<int>(*p));
  }
  FS_ISA_INLINE static Int PairDot(Int a, Int b) { return _mm512_madd_epi16(a, b); }
  FS_ISA_INLINE static Int LowNibbles(Int words) {
    return _mm512_and_si512(_mm512_slli_epi32(words, 4), _mm512_set1_epi8(-16));
  }
  FS_ISA_INLINE static Int HighNibbles(Int words) {
    return _mm512_and_si512(words, _mm512_set1_epi8(-16));
  }
  FS_ISA_INLINE static Int WidenBytes(const unsigned char* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  FS_ISA_INLINE static Float ScaleOfCodes(Int codes) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(codes, kScaleCodeShift),
                                                _mm512_set1_epi32(kScaleCodeBias)));
  }
  FS_ISA_INLINE static Float ToFloat(Int x) { return _mm512_cvtepi32_ps(x); }
  FS_ISA_INLINE static Float ZeroFloat() { return _mm512_setzero_ps(); }
  FS_ISA_INLINE static Float LoadFloat(const float* p) { return _mm512_load_ps(p); }
  FS_ISA_INLINE static void StoreFloat(float* p, Float x) { _mm512_store_ps(p, x); }
  FS_ISA_INLINE static Float BroadcastFloat(const float* p) { return _mm512_set1_ps(*p); }
  FS_ISA_INLINE static Float Mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  FS_ISA_INLINE static Float Fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace
}  // namespace firesteel
