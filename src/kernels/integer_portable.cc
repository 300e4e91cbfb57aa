#include "kernels/integer_task_internal.h"
#include "kernels/isa_region-inl.h"

#include "kernels/integer_panels-inl.h"

namespace firesteel {
namespace {

// Vectors of the compiler's own, for any machine (NEON among them).
struct Portable {
  typedef int32_t Int __attribute__((vector_size(16)));
  typedef uint32_t UInt __attribute__((vector_size(16)));
  typedef int16_t Int16 __attribute__((vector_size(16)));
  typedef float Float __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kTileRows = 2;
  static constexpr int kParts = 2;

  FS_ISA_INLINE static Int Splat(int32_t x) { return Int{x, x, x, x}; }
  FS_ISA_INLINE static void Split(Int words, Int (&parts)[2]) {
    parts[0] = words & Splat(0x00FF00FF);
    parts[1] = Int(UInt(words) >> 8) & Splat(0x00FF00FF);
  }
  // A product of 8 and 7 bits fits in 16.
  FS_ISA_INLINE static Int Dot(Int sum, Int w, Int x) {
    const Int products = Int(Int16(w) * Int16(x));
    return sum + (products >> 16) + (Int(UInt(products) << 16) >> 16);
  }
  FS_ISA_INLINE static Int Load(const int32_t* p) { return *reinterpret_cast<const Int*>(p); }
  FS_ISA_INLINE static void Store(int32_t* p, Int x) { *reinterpret_cast<Int*>(p) = x; }
  FS_ISA_INLINE static Int Broadcast(const uint32_t* p) { return Splat(static_cast<int32_t>(*p)); }
  FS_ISA_INLINE static Int PairDot(Int a, Int b) {  // the high halves of `b` are 0
    return a * (Int(UInt(b) << 16) >> 16);
  }
  FS_ISA_INLINE static Int LowNibbles(Int words) {
    return Int(UInt(words) << 4) & Splat(static_cast<int32_t>(0xF0F0F0F0u));
  }
  FS_ISA_INLINE static Int HighNibbles(Int words) {
    return words & Splat(static_cast<int32_t>(0xF0F0F0F0u));
  }
  FS_ISA_INLINE static Int WidenBytes(const unsigned char* p) {
    return Int{p[0], p[1], p[2], p[3]};
  }
  FS_ISA_INLINE static Float ScaleOfCodes(Int codes) {
    return Float((codes << kScaleCodeShift) + (kScaleCodeBias));
  }
  FS_ISA_INLINE static Float ToFloat(Int x) { return __builtin_convertvector(x, Float); }
  FS_ISA_INLINE static Float ZeroFloat() { return Float{}; }
  FS_ISA_INLINE static Float LoadFloat(const float* p) {
    return *reinterpret_cast<const Float*>(p);
  }
  FS_ISA_INLINE static void StoreFloat(float* p, Float x) { *reinterpret_cast<Float*>(p) = x; }
  FS_ISA_INLINE static Float BroadcastFloat(const float* p) { return Float{*p, *p, *p, *p}; }
  FS_ISA_INLINE static Float Mul(Float a, Float b) { return a * b; }
  // Rounded once, as everywhere: a call where the machine has no such instruction, but once in 32
  // or 128 k.
  FS_ISA_INLINE static Float Fma(Float a, Float b, Float c) {
    return Float{__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]),
                 __builtin_fmaf(a[2], b[2], c[2]), __builtin_fmaf(a[3], b[3], c[3])};
  }
};

}  // namespace

void IntegerPanelsPortable(const IntegerTask& task) { IntegerKernel<Portable>::Run(task); }

}  // namespace firesteel
