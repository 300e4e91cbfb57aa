// FS_ISA_BEGIN("avx2,fma") … FS_ISA_END: functions between are compiled for those instructions, by
// GCC and by clang, and may only be called where the machine has them.
#pragma once

#define FS_ISA_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define FS_ISA_BEGIN(isa) \
  FS_ISA_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define FS_ISA_END FS_ISA_PRAGMA(clang attribute pop)
#else
#define FS_ISA_BEGIN(isa) FS_ISA_PRAGMA(GCC push_options) FS_ISA_PRAGMA(GCC target(isa))
#define FS_ISA_END FS_ISA_PRAGMA(GCC pop_options)
#endif
#define FS_ISA_INLINE inline __attribute__((always_inline))
