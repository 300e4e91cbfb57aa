#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/matmul_internal.h"

namespace firesteel {
namespace {

// A thread's share should take some 8 us, or waking it costs more than it brings: about 12 bytes of
// weights or 40 multiply-adds (200 of integers) in a nanosecond. Panels are handed out in fours,
// which a kernel with few rows takes together.
int64_t PanelGrain(const PackedWeight& w, int64_t rows) {
  const int64_t macs_per_ns = IsInteger(w.format()) ? 200 : 40;
  const int64_t panel_ns =
      1 + std::max(w.panel_bytes() / 12, rows * w.cols() * PackedWeight::kPanel / macs_per_ns);
  return (8000 / panel_ns + 4) / 4 * 4;
}

}  // namespace

void MatMul(Exec& exec, ConstMatrix x, const PackedWeight& w, Matrix<float> out,
            MatMulStore store) {
  FS_DCHECK(x.cols == w.cols() && out.cols == w.rows() && out.rows == x.rows);
  if (x.rows == 0 || w.rows() == 0) return;
  const int64_t panels = w.num_panels();
  const int64_t grain = PanelGrain(w, x.rows);
  if (IsInteger(w.format())) {
    std::byte* scratch = exec.Scratch(QuantizedBytes(x.rows, x.cols, w.format()));
    const QuantizedRows rows = QuantizeRows(exec, x, w.format(), scratch);
    exec.pool.ParallelFor(panels, grain, [&](int64_t begin, int64_t end, int) {
      IntegerPanels(rows, w, out, store, begin, end);
    });
    return;
  }
  const FloatRows rows = PackFloatRows(exec, x, exec.Scratch(FloatRowsBytes(x.rows, x.cols)));
  exec.pool.ParallelFor(panels, grain, [&](int64_t begin, int64_t end, int) {
    FloatPanels(rows, w, out, store, begin, end);
  });
}

}  // namespace firesteel
