#include "kernels/integer_kernels_internal.h"

#include "kernels/quantize_internal.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

int64_t ChosenTarget() { return HWY_TARGET; }

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {
namespace {

HWY_EXPORT(ChosenTarget);

// Asked of the dispatcher, and so restricted where a test restricts it. Never of
// hwy::SupportedTargets: it executes CPUID, for which a virtual machine takes 30 us each time.
#if HWY_ARCH_X86_64
int64_t Target() { return HWY_DYNAMIC_DISPATCH(ChosenTarget)(); }
bool HasAvx2() { return Target() <= HWY_AVX2; }  // better targets are smaller numbers
bool HasAvx512() { return Target() <= HWY_AVX3; }
bool HasAvx512Vnni() { return HasAvx512() && __builtin_cpu_supports("avx512vnni"); }
#endif
bool Always() { return true; }

constexpr IntegerKernelEntry kKernels[] = {
#if HWY_ARCH_X86_64
    {"AVX512_VNNI", &HasAvx512Vnni, 1, &IntegerPanelsAvx512Vnni},
    {"AVX512", &HasAvx512, 2, &IntegerPanelsAvx512},
    {"AVX2", &HasAvx2, 2, &IntegerPanelsAvx2},
#endif
    {"PORTABLE", &Always, 2, &IntegerPanelsPortable},
};

IntegerLayout LayoutOf(WeightFormat format) {
  if (format == WeightFormat::kInt4) return IntegerLayout::kInt4;
  return format == WeightFormat::kInt8 ? IntegerLayout::kInt8 : IntegerLayout::kInt8Group;
}

}  // namespace

std::span<const IntegerKernelEntry> IntegerKernels() { return kKernels; }

const IntegerKernelEntry& IntegerKernelHere() {
  const IntegerKernelEntry* kernel = kKernels;
  while (!kernel->runs_here()) ++kernel;  // the last always does
  return *kernel;
}

void IntegerPanels(const QuantizedRows& x, const PackedWeight& w, const Matrix<float>& out,
                   MatMulStore store, int64_t panel_begin, int64_t panel_end) {
  FS_DCHECK(x.cols == w.cols() && x.rows == out.rows && out.cols == w.rows());
  x.kernel->panels({.layout = LayoutOf(w.format()),
                    .weight = reinterpret_cast<const unsigned char*>(w.data()),
                    .panel_bytes = w.panel_bytes(),
                    .chunks = NumChunks(x.cols),
                    .rows = x.rows,
                    .x = x.x,
                    .x_stride = x.x_stride,
                    .scales = x.scales,
                    .zeros = x.zeros,
                    .groups = x.groups,
                    .out = out.data,
                    .out_stride = out.stride,
                    .out_cols = out.cols,
                    .add = store == MatMulStore::kAdd,
                    .panel_begin = panel_begin,
                    .panel_end = panel_end});
}

int64_t QuantizedBytes(int64_t rows, int64_t cols, WeightFormat format) {
  return QuantizedBytesFor(IntegerKernelHere(), rows, cols, format);
}

QuantizedRows QuantizeRows(Exec& exec, ConstMatrix x, WeightFormat format, std::byte* scratch) {
  return QuantizeRowsFor(IntegerKernelHere(), exec, x, format, scratch);
}

}  // namespace firesteel
#endif  // HWY_ONCE
