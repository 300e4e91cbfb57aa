#include "measure/integer_peak.h"

namespace firesteel {
namespace {

#if defined(__x86_64__)

// Assembly, since g++ 12 puts a move or a store beside every such intrinsic. Registers begin with
// whatever they hold: the time does not depend on it.
#define FS_VNNI(SUM) "vpdpbusd %%zmm0, %%zmm1, %%zmm" #SUM "\n\t"
#define FS_PAIRS(SUM, TERM, V)                                                                  \
  "vpmaddwd %%" V "0, %%" V "1, %%" V #TERM "\n\tvpaddd %%" V #TERM ", %%" V #SUM ", %%" V #SUM \
  "\n\t"
#define FS_PAIRS_ALL(V) \
  FS_PAIRS(8, 2, V)     \
  FS_PAIRS(9, 3, V)     \
  FS_PAIRS(10, 4, V)    \
  FS_PAIRS(11, 5, V) FS_PAIRS(12, 2, V) FS_PAIRS(13, 3, V) FS_PAIRS(14, 4, V) FS_PAIRS(15, 5, V)
#define FS_CLOBBERED                                                                         \
  "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"

double Vnni512(int64_t iterations) {
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile(FS_VNNI(4) FS_VNNI(5) FS_VNNI(6) FS_VNNI(7) FS_VNNI(8) FS_VNNI(9) FS_VNNI(10)
                     FS_VNNI(11) FS_VNNI(12) FS_VNNI(13) FS_VNNI(14) FS_VNNI(15)
                 :
                 :
                 : FS_CLOBBERED);
  }
  return static_cast<double>(iterations) * 12 * 64;
}

double Pairs512(int64_t iterations) {
  for (int64_t i = 0; i < iterations; ++i) asm volatile(FS_PAIRS_ALL("zmm") : : : FS_CLOBBERED);
  return static_cast<double>(iterations) * 8 * 32;
}

double Pairs256(int64_t iterations) {
  for (int64_t i = 0; i < iterations; ++i) asm volatile(FS_PAIRS_ALL("ymm") : : : FS_CLOBBERED);
  return static_cast<double>(iterations) * 8 * 16;
}

#endif

double Scalar(int64_t iterations) {
  volatile int8_t operand = 3;
  int32_t s[8] = {};
  for (int64_t i = 0; i < iterations; ++i) {
    const int32_t a = operand;
    for (int j = 0; j < 8; ++j) s[j] += a * (j + 1);
  }
  volatile int32_t sink = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
  (void)sink;
  return static_cast<double>(iterations) * 8;
}

struct Peak {
  std::string_view instruction;
  double (*run)(int64_t iterations);
};

Peak Best() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512vnni")) return {"vpdpbusd, 512 bits", Vnni512};
  if (avx512) return {"vpmaddwd and vpaddd, 512 bits", Pairs512};
  if (__builtin_cpu_supports("avx2")) return {"vpmaddwd and vpaddd, 256 bits", Pairs256};
#endif
  return {"plain multiply-adds", Scalar};
}

}  // namespace

double IntegerMultiplyAdds(int64_t iterations) { return Best().run(iterations); }

std::string_view IntegerInstruction() { return Best().instruction; }

}  // namespace firesteel
